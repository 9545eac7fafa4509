"""``Sendoff``: one object that wires engine, settings and plugins. Every method is a short call."""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from sqlalchemy import Connection, Engine

from sendoff import health
from sendoff.drain import Drain, FirstTry
from sendoff.enqueue import Prepared, enqueue, leased, new_id, prepare
from sendoff.errors import ConfigurationError, InvalidNotification, NotFound, UnknownChannel
from sendoff.fetch import FetchRunner
from sendoff.limits import seconds
from sendoff.notification import Enqueued, Notification, Rejected
from sendoff.plugin.context import Context
from sendoff.plugin.registry import Registry
from sendoff.report import CheckItem, DrainReport, FetchReport, OutgoingView, Status
from sendoff.requeueing import requeue
from sendoff.settings import Settings
from sendoff.store import Store, acts, make_engine, reports
from sendoff.store.acts import CancelOutcome, RequeueFilter
from sendoff.store.connections import Executor, executor_for, own_transaction
from sendoff.store.engine import parse_url, psycopg_conninfo
from sendoff.store.reports import RowFilter
from sendoff.wakeup import Listener
from sendoff.worker import Worker

__all__ = ["Sendoff"]


class Sendoff:
    """Delivers notifications from the database an application already has.

    ``database_url`` (or the settings) names the database, ``plugins`` are modules, objects or module names besides
    those found through entry points. Nothing is opened or imported until it is used; safe across ``fork``.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        settings: Settings | None = None,
        config: str | Path | None = None,
        plugins: Sequence[object] = (),
        entry_points: bool = True,
        engine: Engine | None = None,
        **options: Any,
    ) -> None:
        if settings is None:
            core = {**options, **({"database_url": database_url} if database_url is not None else {})}
            settings = Settings.load({"sendoff": core} if core else {}, config=config)
        elif options or database_url is not None or config is not None:
            raise ConfigurationError("pass either settings, or a database URL, config and options")
        self.settings = settings
        self._plugins = tuple(plugins)
        self._entry_points = entry_points
        self._given_engine = engine
        self._lock = threading.RLock()
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._engine: Engine | None = self._given_engine
        self._store: Store | None = None
        self._registry: Registry | None = None

    # -- what it is made of ----------------------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine, made on first use; a forked child gets its own."""
        with self._lock:
            if self._pid != os.getpid():
                # The parent's sockets are not ours to close.
                if self._engine is not None:
                    self._engine.dispose(close=False)
                self._engine, self._store, self._pid = self._given_engine, None, os.getpid()
            if self._engine is None:
                core = self.settings.core
                self._engine = make_engine(
                    self.settings.database_url, prepare_threshold=core.prepare_threshold, pool_size=core.pool_size
                )
            return self._engine

    @property
    def store(self) -> Store:
        """The store on that engine."""
        engine = self.engine
        with self._lock:
            if self._store is None:
                self._store = Store(engine)
            return self._store

    @property
    def registry(self) -> Registry:
        """The plugins, loaded on first use."""
        with self._lock:
            if self._registry is None:
                context = Context(self.settings, lambda: self.engine)
                self._registry = Registry(
                    self.settings, context, plugins=self._plugins, use_entry_points=self._entry_points
                )
            return self._registry

    def close(self) -> None:
        """Close the connections. The object may be used again."""
        with self._lock:
            if self._engine is not None and self._engine is not self._given_engine and self._pid == os.getpid():
                self._engine.dispose()
            self._engine, self._store = self._given_engine, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- handing in ------------------------------------------------------------------------------------------------

    def enqueue(self, notification: Notification, connection: Any, *, notify: bool = True) -> Enqueued:
        """Write a notification in the caller's own transaction: commit makes the work exist, rollback leaves nothing.

        ``connection`` is an SQLAlchemy Connection or Session, a psycopg or Django connection, or ``None`` written
        out, which means a transaction of our own. ``notify=False`` for two-phase commit. Raises
        :class:`~sendoff.InvalidNotification`, :class:`~sendoff.errors.UnknownChannel` before anything is written.
        Isolation failures of the caller's transaction belong to the caller.
        """
        prepared = self._prepare(notification)
        return self._on(connection, lambda executor: enqueue(executor, [prepared], wake=notify))[0]

    def enqueue_many(
        self, notifications: Iterable[Notification], connection: Any, *, notify: bool = True
    ) -> list[Enqueued | Rejected]:
        """As :meth:`enqueue` for many, in order. One that could never be delivered is ``Rejected`` with its index and
        field, and the others are in."""
        answers: dict[int, Enqueued | Rejected] = {}
        good: list[tuple[int, Prepared]] = []
        for index, notification in enumerate(notifications):
            try:
                good.append((index, self._prepare(notification)))
            except InvalidNotification as error:
                answers[index] = Rejected(index, error.field, str(error))
            except UnknownChannel as error:
                answers[index] = Rejected(index, "channels", str(error))
        prepared = [one for _, one in good]
        if prepared:
            done = self._on(connection, lambda executor: enqueue(executor, prepared, wake=notify))
            answers.update((index, answer) for (index, _), answer in zip(good, done, strict=True))
        return [answers[index] for index in sorted(answers)]

    def send_now(self, what: Notification | Enqueued) -> list[OutgoingView]:
        """Make the first try at once, in this process and through the worker's path; the rows as they are after it.

        For hosts without a worker. What is not sent now is retried by the next worker or drain.
        """
        name = f"send_now:{os.getpid()}:{str(new_id())[-6:]}"
        if isinstance(what, Notification):
            worker = self.settings.worker
            prepared = leased(
                self._prepare(what), name, lambda channel: self.registry.channel(channel).lease(worker.lease)
            )
            what = self._on(None, lambda executor: enqueue(executor, [prepared]))[0]
        ids = [row.outgoing_id for row in what.rows if row.outgoing_id is not None]
        names = [row.channel for row in what.rows if row.outgoing_id is not None]
        if ids:
            trying = FirstTry(self.store, self.registry, self.settings.worker, ids=ids, channels=names, name=name)
            trying.deliver()
        found = self.store.read(lambda connection: reports.find_rows_by_id(connection, ids))
        return [found[id] for id in ids if id in found]

    def _prepare(self, notification: Notification) -> Prepared:
        return prepare(notification, self.registry, self.settings.core.default_channels)

    def _on(self, connection: Any, work: Callable[[Executor], builtins.list[Enqueued]]) -> builtins.list[Enqueued]:
        if connection is not None:
            return work(executor_for(connection))
        with own_transaction(self.engine) as executor:
            return work(executor)

    # -- delivering ------------------------------------------------------------------------------------------------

    def worker(self, channels: Sequence[str] | None = None) -> Worker:
        """A worker for these channels (default: the settings', else all). ``.run()`` it in a process of its own."""
        self.require_schema()
        return Worker(
            self.store,
            self.registry,
            self.settings.worker,
            channels=channels,
            listener=self._listener,
            fetch=self._fetch_runner if self.settings.worker.fetchers and self.registry.fetchers else None,
        )

    def drain(
        self,
        limit: int | None = None,
        channels: Sequence[str] | None = None,
        budget: float | timedelta | None = None,
        *,
        on_progress: Callable[[int], None] | None = None,
        handle_signals: bool = False,
    ) -> DrainReport:
        """Deliver what is due, in this process, until nothing is, or ``limit`` rows or ``budget`` seconds are used up.

        Nothing new is started in the last fifth of the budget. ``handle_signals`` is for a process that does nothing
        else: SIGTERM and SIGINT then end the drain as they end a worker, with what was not started given back.
        """
        for name, value in (("limit", limit), ("budget", budget)):
            if value is not None and not (seconds(value) > 0):
                raise ConfigurationError(f"{name} must be above 0 (got {value})")
        self.require_schema()
        allowed = None if budget is None else seconds(budget)
        drain = Drain(
            self.store,
            self.registry,
            self.settings.worker,
            channels=channels,
            limit=limit,
            budget=allowed,
            on_progress=on_progress,
        )
        drain.deliver(handle_signals=handle_signals)
        names = [spec.name for spec in drain.specs]
        counts = self.store.read(reports.channel_counts)
        return drain.report(sum(reports.due_rows(counts.get(name, {})) for name in names))

    def fetch(self, name: str, *, dry_run: bool = False) -> FetchReport:
        """Run one fetcher now, whether its tick has come or not. A dry run writes nothing."""
        return self._fetch_runner(lambda: False).run(name, force=True, dry_run=dry_run)

    def _fetch_runner(self, stopping: Callable[[], bool]) -> FetchRunner:
        return FetchRunner(
            self.store,
            self.registry,
            self.settings.core.default_channels,
            lease=self.settings.worker.lease,
            stopping=stopping,
        )

    def _listener(self, wake: Callable[[str | None], None]) -> Listener | None:
        if not self.store.is_postgresql:
            return None
        url = parse_url(self.settings.core.listen_url) if self.settings.core.listen_url else self.engine.url
        conninfo, options = psycopg_conninfo(url)
        return Listener(conninfo, options, wake)

    # -- people ----------------------------------------------------------------------------------------------------

    def cancel(self, notification_id: UUID | str) -> builtins.list[CancelOutcome]:
        """Cancel what has not left yet; an honest answer for each row. NotFound where there is no such notification."""
        key = _uuid(notification_id, "notification_id")
        outcomes = self.store.run(lambda connection: acts.cancel(connection, key))
        if not outcomes:
            raise NotFound("notification", key)
        return outcomes

    def requeue(
        self,
        ids: Sequence[UUID | str] | None = None,
        *,
        channel: str | None = None,
        verdict: str | None = None,
        reason: str | None = None,
        since: datetime | None = None,
        ttl: float | timedelta | None = None,
        dry_run: bool = False,
    ) -> int:
        """Give dead rows a new life: a full budget and a new idempotency key, due now. How many (would be) requeued.

        By ids (dead, cancelled, or expired with a new ``ttl``), or by what they have in common (``reason`` is a part
        of the text, ``since`` when they ended). Raises :class:`~sendoff.errors.NotPossible` for an id that cannot be
        requeued, and then changes nothing.
        """
        chosen = RequeueFilter(
            ids=None if ids is None else [_uuid(id, "ids") for id in ids],
            channel=channel,
            verdict=verdict,
            reason=reason,
            since=since,
            ttl=None if ttl is None else seconds(ttl),
        )
        return requeue(self.store, chosen, dry_run=dry_run)

    def show(self, outgoing_id: UUID | str) -> OutgoingView:
        """One row with its timeline."""
        key = _uuid(outgoing_id, "outgoing_id")
        return self.store.read(lambda connection: reports.show(connection, key))

    def list(
        self,
        *,
        recipient: str | None = None,
        status: str | None = None,
        verdict: str | None = None,
        channel: str | None = None,
        type: str | None = None,
        since: datetime | None = None,
        notification_id: UUID | None = None,
        before: UUID | None = None,
        limit: int = 50,
    ) -> builtins.list[OutgoingView]:
        """Rows, newest first; ``before`` is the id of the last row of the page before."""
        if limit < 1:
            raise ConfigurationError(f"limit must be a whole number of at least 1 (got {limit})")
        chosen = RowFilter(
            recipient=recipient,
            status=status,
            verdict=verdict,
            channel=channel,
            type=type,
            since=since,
            notification_id=notification_id,
            before=before,
            limit=limit,
        )
        return self.store.read(lambda connection: reports.find_rows(connection, chosen))

    def status(self) -> Status:
        """What waits, what is under way and who works."""
        return health.status(self.store, self.registry)

    def check(self) -> builtins.list[CheckItem]:
        """Everything that ``sendoff doctor`` looks at."""
        return health.check(self)

    # -- the schema ------------------------------------------------------------------------------------------------

    def migrate(
        self, connection: Connection | None = None, *, on_step: Any = None, timeout: float = 60.0
    ) -> builtins.list[Any]:
        """Bring the core's and every plugin's tables up to date; safe from many processes at once. With
        ``connection``, in the caller's own transaction (test databases)."""
        from sendoff import migrate

        engine = self.engine if connection is None else None
        return list(
            migrate.migrate(engine, self.registry.migrations(), connection=connection, timeout=timeout, on_step=on_step)
        )

    def migration_sql(self) -> str:
        """What :meth:`migrate` would run on an empty database, as SQL."""
        from sendoff import migrate

        return migrate.sql(self.engine.dialect.name, self.registry.migrations())

    def require_schema(self) -> None:
        """:class:`~sendoff.errors.NotMigrated`, naming the command, unless the tables are as this version needs."""
        from sendoff import migrate

        sets = self.registry.migrations()
        self.store.read(lambda connection: migrate.check_schema(connection, sets))


def _uuid(value: UUID | str, field: str) -> UUID:
    if isinstance(value, UUID):
        return value
    try:
        return UUID(str(value))
    except ValueError:
        raise ConfigurationError(f"{field}: {str(value)[:60]!r} is not an id; ids look like 0190b3c4-…-…") from None
