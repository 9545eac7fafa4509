"""A plugin with a fetcher that records what it does; workers run it in processes of their own.

It yields ``pages`` pages of two notifications each, from the saved cursor on, and waits before the page ``stop_before``
until the file ``gate`` exists.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from attrs import frozen

from sendoff.plugin import Channel, Context, FetchContext, Fetcher, Notification, Page, hookimpl
from tests.support.inline import Inline
from tests.support.recording import append


@frozen
class Config:
    """``[plugins.fetching]``."""

    log: str
    every: float = 1.0
    pages: int = 3
    stop_before: int | None = None
    gate: str | None = None


class Pages(Fetcher):
    name = "pages"

    def __init__(self, config: Config) -> None:
        self._config = config
        self.every = timedelta(seconds=config.every)

    def fetch(self, ctx: FetchContext) -> Iterator[Page]:
        start = ctx.cursor["page"] if ctx.cursor else 0
        append(Path(self._config.log), {"what": "run", "pid": os.getpid(), "start": start, "tick": str(ctx.tick)})
        for number in range(start, self._config.pages):
            if number == self._config.stop_before and self._config.gate is not None:
                append(Path(self._config.log), {"what": "waits", "pid": os.getpid()})
                while not Path(self._config.gate).exists():
                    time.sleep(0.01)
            yield Page(
                [
                    Notification(recipient=f"page{number}-{part}", type="fetched", channels=["inline"])
                    for part in range(2)
                ],
                cursor={"page": number + 1},
            )


@hookimpl
def sendoff_channels() -> list[Channel]:
    return [Inline("inline")]


@hookimpl
def sendoff_fetchers(context: Context) -> list[Fetcher]:
    return [Pages(context.config("plugins.fetching", Config))]
