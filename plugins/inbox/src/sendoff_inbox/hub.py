"""Hearing of new entries: one thread and one connection for all listeners of a process on one engine.

On PostgreSQL the thread listens, and keeps the rows of ``sendoff_inbox_listener`` alive that make a batch notify. On
SQLite it watches the file's change counter. What it hears only makes listeners look, so a ring too many costs a query
and a ring that got lost the time until the next look.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

import orjson
import sqlalchemy as sa

from sendoff_inbox.bell import Bell
from sendoff_inbox.store import NOTIFY, hashed

__all__ = ["Hub", "join"]

logger = logging.getLogger("sendoff.inbox")

#: Seconds that a listener is announced for, and between two renewals: batches notify a while for who has left, and
#: never stop for who is there.
ANNOUNCED, RENEWED = 60.0, 20.0
#: Seconds between two tries to reach a database that is away.
RETRY_FIRST, RETRY_LONGEST = 0.1, 5.0
#: Seconds between two looks at the change counter of an SQLite file.
TICK = 0.1

#: In the order of the keys, because other processes announce the same recipients. Rows of listeners long gone go too.
_ANNOUNCE = f"""
    WITH old AS (
        DELETE FROM sendoff_inbox_listener WHERE recipient IN (
            SELECT recipient FROM sendoff_inbox_listener WHERE until < statement_timestamp() - interval '1 hour'
            LIMIT 1000 FOR UPDATE SKIP LOCKED
        )
    )
    INSERT INTO sendoff_inbox_listener (recipient, until)
    SELECT value, statement_timestamp() + interval '{ANNOUNCED} seconds'
    FROM json_array_elements_text(CAST(%(recipients)s AS json)) ORDER BY value COLLATE "C"
    ON CONFLICT (recipient) DO UPDATE SET until = excluded.until
    WHERE sendoff_inbox_listener.until < excluded.until - interval '{RENEWED / 2} seconds'
"""  # noqa: S608 - numbers of this file


class Hub:
    """The listeners of one engine. It begins with the first and ends with the last."""

    def __init__(self, engine: sa.Engine, url: sa.URL | None) -> None:
        self._engine = engine
        self._url = url
        self._lock = threading.Lock()
        self._bells: dict[str, set[Bell]] = {}
        self._new: set[Bell] = set()
        self._abandoned: deque[Bell] = deque()
        self._ended = False
        # A pair of sockets wakes the thread from its select() on every platform.
        self._ear, self._mouth = socket.socketpair()
        self._ear.setblocking(False)
        self._mouth.setblocking(False)
        run = self._watch_file if engine.dialect.name == "sqlite" else self._listen
        self._thread = threading.Thread(target=self._run, args=[run], name="sendoff-inbox", daemon=True)
        self._thread.start()

    def add(self, bell: Bell) -> bool:
        """Ring it whenever there may be something for its recipient. False when this hub has ended."""
        with self._lock:
            if self._ended:
                return False
            self._bells.setdefault(hashed(bell.recipient), set()).add(bell)
            self._new.add(bell)
        self._poke()
        return True

    def remove(self, bell: Bell) -> None:
        """Leave it alone from now on. The last one ends the thread, which closes its connection."""
        with self._lock:
            key = hashed(bell.recipient)
            bells = self._bells.get(key, set())
            bells.discard(bell)
            self._new.discard(bell)
            if not bells:
                self._bells.pop(key, None)
            self._ended = not self._bells
        self._poke()

    def abandon(self, bell: Bell) -> None:
        """The same from a finalizer, which may run while any lock is held and so takes none."""
        self._abandoned.append(bell)
        self._poke()

    def _poke(self) -> None:
        with contextlib.suppress(OSError):  # full: it is awake anyway; closed: it has ended
            self._mouth.send(b"!")

    def _everybody(self) -> set[Bell]:
        with self._lock:
            return {bell for bells in self._bells.values() for bell in bells}

    def _run(self, hear: Any) -> None:
        pause = RETRY_FIRST
        try:
            while not self._ended:
                began = time.monotonic()
                try:
                    hear()
                except Exception as error:  # noqa: BLE001 - whatever breaks the connection, the answer is a new one
                    logger.info("inbox listeners lost their connection (%s); they look again", type(error).__name__)
                if time.monotonic() - began > RETRY_LONGEST:
                    pause = RETRY_FIRST
                self._rest(pause)
                pause = min(pause * 2, RETRY_LONGEST)
        finally:
            _forget(self)
            self._ear.close()
            self._mouth.close()

    def _rest(self, seconds: float) -> None:
        """Sleep, but not through the end."""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            while not self._ended and (left := deadline - time.monotonic()) > 0:
                if selector.select(left):
                    self._hear_pokes()

    def _hear_pokes(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._ear.recv(4096):
                pass
        while self._abandoned:
            self.remove(self._abandoned.popleft())

    # -- PostgreSQL ------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        connection = _connect(self._engine, self._url)
        try:
            connection.add_notify_handler(self._heard)
            connection.execute(f"LISTEN {NOTIFY}")
            renew_at = 0.0
            with self._lock:
                self._new = {bell for bells in self._bells.values() for bell in bells}
            with selectors.DefaultSelector() as selector:
                selector.register(self._ear, selectors.EVENT_READ)
                selector.register(connection.fileno(), selectors.EVENT_READ)
                while not self._ended:
                    if time.monotonic() >= renew_at:
                        renew_at = time.monotonic() + RENEWED
                        self._announce(connection, self._everybody())
                    self._announce_new(connection)
                    ready = selector.select(max(0.0, renew_at - time.monotonic()))
                    self._hear_pokes()
                    if any(key.fileobj is not self._ear for key, _ in ready):
                        # Takes what has arrived to the handler, or finds the connection broken.
                        connection.execute("SELECT 1")
        finally:
            with contextlib.suppress(Exception):
                connection.close()

    def _heard(self, notification: Any) -> None:
        with self._lock:
            bells = [*self._bells.get(notification.payload, ())]
        for bell in bells:
            bell.ring()

    def _announce_new(self, connection: Any) -> None:
        with self._lock:
            new, self._new = self._new, set()
        self._announce(connection, new)
        # From here on every batch rings; what was written before, or while nothing was heard, is there to be found.
        for bell in new:
            bell.ring(announced=True)

    @staticmethod
    def _announce(connection: Any, bells: Iterable[Bell]) -> None:
        recipients = sorted({bell.recipient for bell in bells})
        if recipients:
            connection.execute(_ANNOUNCE, {"recipients": orjson.dumps(recipients).decode()})

    # -- SQLite ----------------------------------------------------------------------------------------------------

    def _watch_file(self) -> None:
        """Every commit of another connection changes ``data_version``, and this connection commits nothing."""
        connection = _own(self._engine)
        try:
            last = None
            while not self._ended:
                [(version,)] = connection.execute("PRAGMA data_version").fetchall()
                if version != last:
                    last = version
                    for bell in self._everybody():
                        bell.ring()
                self._rest(TICK)
        finally:
            connection.close()


def _own(engine: sa.Engine) -> Any:
    """A driver's connection as the engine makes them, whatever its arguments and events say, and never one that was
    idle in its pool: that may have died with the server."""
    # An engine learns about its database from its first connection, and only its own pool makes others wait for that.
    engine.raw_connection().close()
    fairy = engine.pool.recreate().connect()
    connection = fairy.driver_connection
    fairy.detach()
    return connection


def _connect(engine: sa.Engine, url: sa.URL | None) -> Any:
    """A psycopg connection of our own, in autocommit."""
    if url is None and engine.dialect.driver == "psycopg":
        connection = _own(engine)
        connection.autocommit = True
        return connection
    import psycopg

    direct = (url or engine.url).set(drivername="postgresql+psycopg")
    _, options = direct.get_dialect()().create_connect_args(direct)
    keepalives = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "connect_timeout": 10}
    return psycopg.connect(autocommit=True, **{**keepalives, **options})


_hubs: dict[tuple[sa.Engine, str | None], Hub] = {}
_hubs_lock = threading.Lock()


def join(engine: sa.Engine, listen_url: str | None, bell: Bell) -> Hub:
    """The engine's hub in this process, with this bell in it."""
    key = (engine, listen_url)
    with _hubs_lock:
        hub = _hubs.get(key)
        if hub is None or not hub.add(bell):
            hub = _hubs[key] = Hub(engine, None if listen_url is None else sa.make_url(listen_url))
            hub.add(bell)
        return hub


def _forget(hub: Hub) -> None:
    with _hubs_lock:
        for key in [key for key, other in _hubs.items() if other is hub]:
            del _hubs[key]


def _after_fork() -> None:
    """A child has none of its parent's threads, and may have been made while another one held the lock."""
    global _hubs_lock  # noqa: PLW0603 - it is the module's
    _hubs_lock = threading.Lock()
    _hubs.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
