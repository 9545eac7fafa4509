"""The base class of fetchers: plugins that turn an application's triggers into notifications."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from attrs import field, frozen
from sqlalchemy import Connection

from sendoff.notification import Notification

__all__ = ["FetchContext", "Fetcher", "Page"]


@frozen
class Page:
    """Notifications and the cursor to resume behind them. Both are committed in one transaction.

    A mapping stands for ``Notification(**mapping)``: one that is refused is recorded and does not stop its page.

    ``cursor`` is JSON; it is handed to the next run (or to the next worker, after a crash) as ``ctx.cursor``.
    """

    notifications: Sequence[Notification | Mapping[str, Any]]
    cursor: Any = None


@frozen
class FetchContext:
    """What a run of a fetcher knows.

    ``cursor`` is the last committed page's, None on the first run. ``connection`` is the fetcher's own, read-only.
    ``now`` is the database's clock at the start of the run, ``tick`` the moment the run was due.
    """

    cursor: Any
    connection: Connection = field(repr=False)
    now: datetime
    tick: datetime
    dry_run: bool = False


class Fetcher(abc.ABC):
    """One source of notifications, run once per tick by any one of the workers."""

    #: Unique among loaded fetchers.
    name: str
    #: The interval between ticks.
    every: timedelta | None = None
    #: Or a cron expression, with its time zone.
    cron: str | None = None
    tz: str = "UTC"
    #: After all workers were down across ticks: run ``once`` on return, or ``skip`` to the next tick.
    misfire: Literal["once", "skip"] = "once"

    @abc.abstractmethod
    def fetch(self, ctx: FetchContext) -> Iterator[Page]:
        """Yield pages, oldest first. A crash between pages resumes at the saved cursor."""
