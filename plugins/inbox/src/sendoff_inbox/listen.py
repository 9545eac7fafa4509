"""New entries as they arrive: an iterator for threads and for event loops."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import orjson
import sqlalchemy as sa
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sendoff import ConfigurationError, StoreUnavailable
from sendoff.plugin import Executor, executor_for
from sendoff_inbox import checks
from sendoff_inbox.bell import Bell
from sendoff_inbox.checks import Position
from sendoff_inbox.entry import Entry, entry_of
from sendoff_inbox.hub import Hub, join
from sendoff_inbox.statements import FROM, rows_of
from sendoff_inbox.tables import FEED

__all__ = ["Listening", "listen"]

logger = logging.getLogger("sendoff.inbox")

#: Transactions commit in another order than their entries' ids. Entries are looked for among the ids of so long before
#: the newest: longer than a worker takes to write a batch, by its lease.
OVERLAP = timedelta(seconds=60)
#: Seconds after which to look again without having been told, besides every ``poll``: a batch that was being written
#: when this listener was announced did not see it, and commits a moment later.
EARLY_LOOKS = (0.25, 1.0)
POLL = 30.0
RETRY_FIRST, RETRY_LONGEST = 0.1, 5.0
PAGE = 500
MILLISECOND = timedelta(milliseconds=1)

_NOW = "SELECT {now_micros}"
_IDS = f"SELECT id FROM sendoff_inbox WHERE {FROM} AND {FEED}"  # noqa: S608 - constants of this package
_NEW = f"""
    SELECT {{columns}} FROM sendoff_inbox WHERE {FROM} AND {FEED} AND id NOT IN ({{seen}})
    ORDER BY sendoff_inbox.recipient, sendoff_inbox.id LIMIT {PAGE}
"""  # noqa: S608 - constants of this package


def listen(
    recipient: str,
    source: Any,
    *,
    after: Position | None = None,
    poll: float = POLL,
    listen_url: str | None = None,
) -> Listening:
    """A recipient's new entries as they arrive, oldest first, until it is closed.

    ::

        with inbox.listen("u1", so) as arriving:
            for entry in arriving: ...

        async with inbox.listen("u1", so) as arriving:
            async for entry in arriving: ...

    It begins where the ``with`` does: enter it, then :func:`.inbox.list` what is there already. An entry that is
    deleted or archived before it was looked for does not arrive.

    Any number of listeners of a process share one thread and one connection that listens. Each has the pool's
    connections only while it looks. A database that goes away is waited for; nothing that arrived meanwhile is missed.

    :param source: a ``Sendoff`` or an SQLAlchemy Engine; not asynchronous, also on an event loop: looking takes a
        thread, waiting none.
    :param after: go on behind this entry instead of beginning now (an event stream's ``Last-Event-ID``).
    :param poll: seconds after which to look without having been told, in case that was lost.
    :param listen_url: a direct URL for the connection that listens, where the source's goes through PgBouncer; a
        ``Sendoff`` knows its own from its settings.
    """
    engine = getattr(source, "engine", None)
    if not isinstance(engine, sa.Engine):
        raise ConfigurationError(f"source is a {type(source).__name__}: pass a Sendoff or an SQLAlchemy Engine")
    if engine.dialect.name == "sqlite" and isinstance(engine.pool, sa.StaticPool):
        raise ConfigurationError("an in-memory SQLite database has one connection, which cannot be listened on")
    settings = getattr(source, "settings", None)
    if listen_url is None and settings is not None:
        listen_url = settings.core.listen_url
    return Listening(
        checks.text("recipient", recipient),
        engine,
        after=None if after is None else checks.position("after", after),
        poll=checks.seconds("poll", poll),
        listen_url=listen_url,
    )


class Listening:
    """An iterator over entries, for one consumer; made by :func:`listen`.

    ``for`` and :meth:`wait` block a thread, ``async for`` and :meth:`wait_async` do not block the loop and may be
    cancelled (``asyncio.wait_for``) without losing an entry. It ends when it is closed, by any thread.
    """

    def __init__(
        self, recipient: str, engine: sa.Engine, *, after: UUID | None, poll: float, listen_url: str | None
    ) -> None:
        self.recipient = recipient
        self._engine = engine
        self._listen_url = listen_url
        self._poll = poll
        self._bell = Bell(recipient)
        self._hub: Hub | None = None
        self._closed = False
        self._found: deque[Entry] = deque()
        #: Held while looking: a look whose task was cancelled goes on in its thread.
        self._looking = threading.Lock()
        self._began = False
        #: What is up to here is behind us, and of what is beyond it these.
        self._floor = after
        self._seen: set[UUID] = set()
        self._look_at = 0.0
        self._early: list[float] = []
        self._pause = RETRY_FIRST

    def close(self) -> None:
        """End it; whoever waits stops waiting. Again is nothing."""
        self._closed = True
        self._bell.ring()
        if self._hub is not None:
            self._hub.remove(self._bell)

    def __del__(self) -> None:
        hub: Hub | None = getattr(self, "_hub", None)
        if hub is not None and not self._closed:
            hub.abandon(self._bell)

    # -- in a thread -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Entry:
        entry = self.wait()
        if entry is None:
            raise StopIteration
        return entry

    def wait(self, seconds: float | None = None) -> Entry | None:
        """The next entry; None when none came within so many seconds, or it is closed."""
        self._begin()
        deadline = float("inf") if seconds is None else time.monotonic() + seconds
        while not self._closed:
            if self._found:
                return self._found.popleft()
            if self._due():
                self._look()
                continue
            now = time.monotonic()
            if now >= deadline:
                break
            self._bell.wait(min(deadline, self._look_at) - now)
        return None

    # -- on an event loop ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._begin)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        entry = await self.wait_async()
        if entry is None:
            raise StopAsyncIteration
        return entry

    async def wait_async(self, seconds: float | None = None) -> Entry | None:
        """As :meth:`wait`."""
        if not self._began:
            await asyncio.to_thread(self._begin)
        deadline = float("inf") if seconds is None else time.monotonic() + seconds
        while not self._closed:
            if self._found:
                return self._found.popleft()
            if self._due():
                await self._look_async()
                continue
            now = time.monotonic()
            if now >= deadline:
                break
            await self._bell.wait_async(min(deadline, self._look_at) - now)
        return None

    # -- looking ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Join the hub, then take the position, in this order: what comes in between rings."""
        with self._looking:
            if self._began:
                return
            self._hub = join(self._engine, self._listen_url, self._bell)
            try:
                if self._floor is None:
                    self._floor = self._now()
                self._began = True
            finally:
                if self._closed or not self._began:
                    self._hub.remove(self._bell)

    def _now(self) -> UUID:
        """Where the overlap begins that ends now; what is in it has been seen."""
        with _reading(self._engine) as on:
            [(micros,)] = rows_of(on, _NOW, {})
            floor = _id_at(int(micros) // 1000 - OVERLAP // MILLISECOND)
            rows = rows_of(on, _IDS, {"recipient": self.recipient, "after": str(floor)})
        self._seen = {UUID(str(id)) for (id,) in rows}
        return floor

    def _due(self) -> bool:
        return self._bell.rung or time.monotonic() >= self._look_at

    async def _look_async(self) -> None:
        given_up = threading.Event()
        try:
            await asyncio.to_thread(self._look, given_up)
        except asyncio.CancelledError:
            # Its thread goes on, and what it finds is for whoever waits next: rung now, and again when it is done.
            given_up.set()
            self._bell.ring()
            raise

    def _look(self, given_up: threading.Event | None = None) -> None:
        """Find what is new, a page at most; when to look again. A database that is away is asked again later."""
        try:
            self._look_once()
        except BaseException:
            self._bell.ring()  # what made this look has not been found
            raise
        if given_up is not None and given_up.is_set():
            self._bell.ring()

    def _look_once(self) -> None:
        with self._looking:
            if self._bell.muffle():
                self._early = [*EARLY_LOOKS]
            try:
                full = self._take()
            except StoreUnavailable as error:
                logger.info("looking for new inbox entries failed (%s); again in %.1f s", error, self._pause)
                self._look_at = time.monotonic() + self._pause
                self._pause = min(self._pause * 2, RETRY_LONGEST)
                return
            self._pause = RETRY_FIRST
            wait = 0.0 if full else min(self._early.pop(0) if self._early else self._poll, self._poll)
            self._look_at = time.monotonic() + wait

    def _take(self) -> bool:
        assert self._floor is not None  # it has begun
        seen = orjson.dumps([*self._seen]).decode()
        with _reading(self._engine) as on:
            rows = rows_of(on, _NEW, {"recipient": self.recipient, "after": str(self._floor), "seen": seen})
        entries = [entry_of(row) for row in rows]
        self._found.extend(entries)
        if entries:
            newest = max(entries[-1].id, *self._seen) if self._seen else entries[-1].id
            self._floor = max(self._floor, _id_at((newest.int >> 80) - OVERLAP // MILLISECOND))
            self._seen = {id for id in (*self._seen, *(entry.id for entry in entries)) if id > self._floor}
        return len(entries) == PAGE


def _id_at(millis: int) -> UUID:
    """Below every id of that millisecond since 1970 and later."""
    return UUID(int=max(0, millis) << 80)


@contextmanager
def _reading(engine: sa.Engine) -> Iterator[Executor]:
    """A connection on which each statement is by itself. :class:`StoreUnavailable` where there is none."""
    try:
        if engine.dialect.name == "sqlite":
            # Not through SQLAlchemy, whose BEGIN may be one that takes the lock of writers.
            fairy = engine.raw_connection()
            try:
                yield executor_for(fairy.driver_connection)
            finally:
                fairy.close()
        else:
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                yield executor_for(connection)
    except (OperationalError, InterfaceError, PoolTimeout) as error:
        raise StoreUnavailable(f"the database cannot be reached ({type(error).__name__})") from None
