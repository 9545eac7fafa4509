"""Running fetchers: lease, page, cursor, schedule. Each page's rows and its cursor are committed in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from attrs import define, field
from sqlalchemy import Connection

from sendoff.enqueue import Prepared, enqueue, prepare
from sendoff.errors import ConfigurationError, InvalidNotification, StoreError, StoreUnavailable, UnknownChannel
from sendoff.jsonsafe import check_json, clean_text
from sendoff.notification import Notification
from sendoff.plugin.fetcher import FetchContext, Fetcher, Page
from sendoff.plugin.registry import Registry
from sendoff.report import FetchReport
from sendoff.secret import scrub
from sendoff.store import Store, fetching
from sendoff.store.connections import SqlAlchemyExecutor
from sendoff.store.engine import PluginQueryError, plugin_queries
from sendoff.store.fetching import FetchLease
from sendoff.store.sql import db_now
from sendoff.tables import event

__all__ = ["FetchRunner"]

logger = logging.getLogger("sendoff")

#: A fetcher that raised is tried again after this many seconds.
RETRY = 30.0
PROBLEMS_SHOWN = 20


class _PageLost(Exception):
    """Another worker has the fetcher now: the page is rolled back."""


@define
class _Tally:
    pages: int = 0
    enqueued: int = 0
    duplicates: int = 0
    rejected: int = 0
    problems: list[str] = field(factory=list)

    def report(self, name: str, error: str | None = None) -> FetchReport:
        return FetchReport(
            name=name,
            ran=True,
            pages=self.pages,
            enqueued=self.enqueued,
            duplicates=self.duplicates,
            rejected=self.rejected,
            problems=tuple(self.problems),
            error=error,
        )


class FetchRunner:
    """Runs the fetchers of one registry against one store."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        default_channels: Sequence[str],
        *,
        lease: float,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._registry = registry
        self._default_channels = default_channels
        #: Seconds for which a run stays leased after each page.
        self._lease = lease
        self._stopping = stopping
        self._known: set[str] = set()

    def run_due(self) -> list[str]:
        """Run every fetcher that is due and free; the names of those that ran. Never raises for a fetcher's fault."""
        ran = []
        for name in self._registry.fetchers:
            if self._stopping():
                break
            try:
                if self.run(name).ran:
                    ran.append(name)
            except StoreUnavailable:
                return ran
            except (StoreError, ConfigurationError) as error:
                logger.error("fetcher %s: %s", name, error)
        return ran

    def run(self, name: str, *, force: bool = False, dry_run: bool = False) -> FetchReport:
        """One run, if it is due (or forced) and no other worker has it. A dry run writes nothing."""
        fetcher = self._registry.fetcher(name)
        if fetcher.every is None:
            raise ConfigurationError(f"fetcher {name!r} has no interval; give it `every`")
        if name not in self._known:
            self._store.run(lambda connection: fetching.ensure_fetcher(connection, name))
            self._known.add(name)
        if dry_run:
            return self._dry_run(fetcher)
        lease = self._store.run(lambda connection: fetching.begin(connection, name, lease=self._lease, force=force))
        if lease is None:
            return FetchReport(name=name, ran=False)
        return self._run(fetcher, lease, fetcher.every.total_seconds())

    def _run(self, fetcher: Fetcher, lease: FetchLease, every: float) -> FetchReport:
        tally = _Tally()
        try:
            with self._store.reading() as connection:
                context = FetchContext(lease.cursor, connection, lease.now, lease.tick)
                for page in _pages(fetcher, context):
                    self._commit(lease, page, tally)
                    if self._stopping():
                        return self._pause(lease, tally)
        except _PageLost:
            return tally.report(lease.name, "another worker took over")
        except StoreUnavailable:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything; it is shown and tried again
            what = str(error) if isinstance(error, PluginQueryError) else f"{type(error).__name__}: {error}"
            text = clean_text(scrub(what))
            logger.error("fetcher %s failed: %s", lease.name, text)
            self._store.run(lambda connection: fetching.fail(connection, lease, error=text, delay=RETRY))
            return tally.report(lease.name, text)
        self._store.run(
            lambda connection: fetching.finish(
                connection, lease, every=every, enqueued=tally.enqueued, rejected=tally.rejected
            )
        )
        return tally.report(lease.name)

    def _pause(self, lease: FetchLease, tally: _Tally) -> FetchReport:
        """The process stops between two pages: hand the rest to whoever comes next, at once."""
        self._store.run(lambda connection: fetching.hand_over(connection, lease))
        return tally.report(lease.name)

    def _commit(self, lease: FetchLease, page: Page, tally: _Tally) -> None:
        """The rows of a page and its cursor, together. A commit whose answer was lost is recognised, not replayed."""
        if not isinstance(page, Page):
            raise TypeError(f"fetch() must yield Page objects, not {type(page).__name__}")
        page_no = lease.page_no + tally.pages
        cursor = check_json(page.cursor, "cursor")
        prepared, problems = self._prepare(page.notifications)
        counts = (0, 0)
        try:
            with self._store.transaction() as connection:
                if not fetching.advance(connection, lease, page_no, cursor, seconds=self._lease):
                    raise _PageLost
                answers = enqueue(SqlAlchemyExecutor(connection), prepared)
                _record(connection, problems)
                outcomes = [row.outcome for answer in answers for row in answer.rows]
                counts = (outcomes.count("created"), outcomes.count("duplicate"))
        except StoreUnavailable:
            if not self._store.run(lambda connection: fetching.page_was_saved(connection, lease, page_no)):
                raise
        tally.pages += 1
        tally.enqueued += counts[0]
        tally.duplicates += counts[1]
        tally.rejected += len(problems)
        tally.problems += [text for _, text in problems][: PROBLEMS_SHOWN - len(tally.problems)]

    def _prepare(
        self, notifications: Iterable[Notification | Mapping[str, Any]]
    ) -> tuple[list[Prepared], list[tuple[Notification | Mapping[str, Any], str]]]:
        prepared, problems = [], []
        for item in notifications:
            try:
                notification = Notification(**item) if isinstance(item, Mapping) else item
                prepared.append(prepare(notification, self._registry, self._default_channels))
            except (InvalidNotification, UnknownChannel, TypeError) as error:
                logger.warning("a fetched notification was refused: %s", error)
                problems.append((item, str(error)))
        return prepared, problems

    def _dry_run(self, fetcher: Fetcher) -> FetchReport:
        tally = _Tally()
        with self._store.reading() as connection:
            now = connection.execute(sa.select(db_now())).scalar_one()
            cursor = fetching.saved_cursor(connection, fetcher.name)
            for page in fetcher.fetch(FetchContext(cursor, connection, now, now, dry_run=True)):
                prepared, problems = self._prepare(page.notifications)
                tally.pages += 1
                tally.enqueued += sum(len(one.rows) for one in prepared)
                tally.rejected += len(problems)
                tally.problems += [text for _, text in problems]
        return tally.report(fetcher.name)


def _pages(fetcher: Fetcher, context: FetchContext) -> Iterator[Page]:
    with plugin_queries(context.connection):
        yield from fetcher.fetch(context)


def _record(connection: Connection, problems: Sequence[tuple[Notification | Mapping[str, Any], str]]) -> None:
    """A refused notification has no row, and still an event: "why was this not sent?" has an answer."""
    for item, text in problems:
        known = item if isinstance(item, Mapping) else {"recipient": item.recipient, "type": item.type}
        recipient, type_ = known.get("recipient"), known.get("type")
        connection.execute(
            event.insert().values(
                at=db_now(),
                kind="suppressed",
                recipient=clean_text(str(recipient), limit=500) if recipient else None,
                type=clean_text(str(type_), limit=500) if type_ else None,
                detail={"reason": clean_text(f"invalid: {text}")},
            )
        )
