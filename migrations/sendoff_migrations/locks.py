"""One migrates, the others wait: how a process gets a database to itself for that, and gives up in time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import sqlalchemy as sa
from attrs import field, frozen
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from sendoff.errors import MigrationTimeout

__all__ = [
    "LOCK",
    "POLL",
    "Patience",
    "begin_immediate",
    "guard",
    "is_busy",
    "limit_lock_waits",
    "prepare_file",
    "take",
]

#: The advisory lock that a migrating process holds on PostgreSQL: "sendoff" in ASCII.
LOCK = 0x73656E646F6666
#: Seconds between two looks at a lock that somebody else holds.
POLL = 0.1
#: Seconds that a revision waits for a table's lock before it steps back: while it waits, everybody who comes after it
#: waits behind it.
LOCK_TIMEOUT = 3.0
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@frozen
class Patience:
    """How long to wait for others, all in all, in seconds; and how much of that is left."""

    seconds: float
    _deadline: float = field(init=False)

    @_deadline.default
    def _from_now(self) -> float:
        return time.monotonic() + self.seconds

    def left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.0)

    def pause(self, seconds: float) -> None:
        time.sleep(min(seconds, self.left()))


# ------------------------------------------------------------------------------------------------------ PostgreSQL


@contextmanager
def guard(engine: Engine, patience: Patience) -> Iterator[None]:
    """Hold the migration lock with a transaction that does nothing else, on a connection of its own.

    A session's lock does not work through PgBouncer's transaction mode, and a lock of the revisions' own transactions
    would be lost in an autocommit block. Between its statements a READ COMMITTED transaction holds no snapshot, so
    CREATE INDEX CONCURRENTLY does not wait for this one.
    """
    with engine.connect() as plain:
        connection = plain.execution_options(isolation_level="READ COMMITTED")
        take(connection, patience, give_way=connection.rollback)
        # It idles for as long as the longest revision takes. (transaction_timeout came with PostgreSQL 17.)
        connection.exec_driver_sql(
            "SELECT set_config(name, '0', true) FROM pg_settings "
            "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
        )
        yield
        connection.rollback()


def take(connection: Connection, patience: Patience, *, give_way: Callable[[], None] = lambda: None) -> None:
    """Take the lock until the end of this transaction.

    Asked for again and again: a request that blocks holds a snapshot; the owner's CREATE INDEX CONCURRENTLY waits for
    that, and it for the owner, for ever.

    :param give_way: called between two attempts.
    :raises MigrationTimeout: names the session that holds it and how to end that.
    """
    key = sa.literal(LOCK, sa.BigInteger())
    while not connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(key))):
        if not patience.left():
            holder = _holder(connection)
            who = "a session that has just ended" if holder is None else f"the database session {holder}"
            end = "" if holder is None else f" or end it with SELECT pg_terminate_backend({holder})"
            raise MigrationTimeout(
                f"{who} has held the migration lock for {patience.seconds:g} s: wait for it{end}, "
                "then run `sendoff migrate` again"
            )
        give_way()
        patience.pause(POLL)


def _holder(connection: Connection) -> int | None:
    holder: int | None = connection.scalar(
        sa.text(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
            " AND classid::bigint = :high AND objid::bigint = :low"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ),
        {"high": LOCK >> 32, "low": LOCK & 0xFFFFFFFF},
    )
    return holder


def limit_lock_waits(connection: Connection, patience: Patience) -> None:
    """For this transaction only: behind PgBouncer the session is not ours to change."""
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        seconds = min(LOCK_TIMEOUT, max(patience.left(), POLL))
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {round(seconds * 1000)}")


# ---------------------------------------------------------------------------------------------------------- SQLite


@contextmanager
def prepare_file(connection: Connection) -> Iterator[None]:
    """Switch a database file to WAL, which it keeps, and let this connection's waits for other writers be short."""
    raw = _raw(connection)
    (usual,) = raw.execute("PRAGMA busy_timeout").fetchone()
    raw.execute(f"PRAGMA busy_timeout = {round(POLL * 1000)}")
    try:
        # Not possible everywhere (memory, network drives), and then the answer is another mode, no error.
        raw.execute("PRAGMA journal_mode = WAL").fetchone()
        yield
    finally:
        raw.execute(f"PRAGMA busy_timeout = {usual}")


def begin_immediate(connection: Connection) -> None:
    """Be in a transaction that holds the write lock; one of the caller's stays as it is.

    The driver, left to itself, runs CREATE TABLE outside transactions. An engine may have been taught to say BEGIN, and
    that may be a deferred one, whose first write after a read fails at once when somebody else has written meanwhile.
    """
    raw = _raw(connection)
    if connection.in_transaction() and raw.in_transaction:
        return
    if not connection.in_transaction():
        connection.begin()
        if raw.in_transaction:
            connection.exec_driver_sql("ROLLBACK")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def is_busy(error: DBAPIError | sqlite3.Error) -> bool:
    """Another process is using the file: the same call may work later."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return (getattr(original, "sqlite_errorcode", 0) & 0xFF) in _BUSY


def _raw(connection: Connection) -> sqlite3.Connection:
    return cast(sqlite3.Connection, connection.connection.dbapi_connection)
