"""Engines: how sendoff opens its databases, and the errors of drivers as errors of ours."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry

from sendoff.errors import ConfigurationError, NotMigrated, StoreError, StoreUnavailable
from sendoff.settings import mask_url

__all__ = [
    "PluginQueryError",
    "database_now_micros",
    "make_engine",
    "parse_url",
    "plugin_queries",
    "prepare_sqlite",
    "psycopg_conninfo",
    "store_errors",
    "translate_driver_error",
]

#: How long a SQLite writer waits for another one, in seconds.
SQLITE_BUSY = 30.0
#: SQLSTATE classes that mean "the same call may work later": connection, resources, operator intervention, system,
#: transaction rollback (serialization, deadlock); and read-only (a standby, or a failover under way).
_PASSING_CLASSES = {"08", "53", "57", "58", "40", "25"}
#: lock_not_available
_PASSING_STATES = {"55P03"}
_UNDEFINED = {"42P01", "42703"}
NOT_MIGRATED = "the sendoff tables are missing or older than this version needs: run `sendoff migrate`"


def parse_url(url: str) -> URL:
    """A database URL; ``postgresql://`` and ``postgres://`` mean psycopg 3. Errors never show the password."""
    try:
        parsed = make_url(url)
        parsed.get_backend_name()
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            f"the database URL {mask_url(url)!r} cannot be read; write postgresql://user:password@host/name "
            "or sqlite:///file.db, special characters in the password percent-encoded"
        ) from None
    if parsed.drivername in {"postgresql", "postgres"}:
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in {"postgresql", "sqlite"}:
        raise ConfigurationError(
            f"sendoff works with PostgreSQL and SQLite, not with {parsed.get_backend_name()!r}: "
            "write postgresql://... or sqlite:///file.db"
        )
    return parsed


def make_engine(url: str, *, prepare_threshold: int | None = 5, pool_size: int = 5) -> Engine:
    """The engine for a URL; opens nothing until used."""
    parsed = parse_url(url)
    try:
        if parsed.get_backend_name() == "sqlite":
            return _sqlite_engine(parsed, pool_size)
        return _postgres_engine(parsed, prepare_threshold, pool_size)
    except (NoSuchModuleError, ModuleNotFoundError, ImportError) as error:
        raise ConfigurationError(
            f"the database driver of {parsed.drivername!r} cannot be loaded ({type(error).__name__}); "
            "install sendoff[binary] for psycopg"
        ) from None


def _postgres_engine(url: URL, prepare_threshold: int | None, pool_size: int) -> Engine:
    connect_args: dict[str, Any] = {}
    if url.get_driver_name() == "psycopg":
        connect_args = {
            "prepare_threshold": prepare_threshold,
            "connect_timeout": 10,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
            "application_name": "sendoff",
        }
        connect_args = {key: value for key, value in connect_args.items() if key not in url.query}
    return sa.create_engine(
        url,
        connect_args=connect_args,
        pool_size=pool_size,
        max_overflow=10,
        pool_timeout=10,
        pool_pre_ping=False,
        json_serializer=json.dumps,
    )


def _sqlite_engine(url: URL, pool_size: int) -> Engine:
    in_memory = not url.database or url.database == ":memory:" or "mode=memory" in str(url)
    options: dict[str, Any] = (
        {"poolclass": sa.StaticPool} if in_memory else {"pool_size": pool_size, "max_overflow": 10}
    )
    engine = sa.create_engine(url, connect_args={"timeout": SQLITE_BUSY, "check_same_thread": False}, **options)

    path = None if in_memory or str(url.database).startswith("file:") else Path(str(url.database)).absolute()

    @event.listens_for(engine, "checkout")
    def _on_checkout(connection: sqlite3.Connection, record: ConnectionPoolEntry, _proxy: object) -> None:
        # A file that was deleted or replaced lives on for whoever has it open: they would talk to nobody.
        if path is not None and record.info.setdefault("file", _identity(path)) != _identity(path):
            raise DisconnectionError("the database file was replaced")

    @event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        prepare_sqlite(connection)
        if not in_memory:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "checkin")
    def _on_checkin(connection: sqlite3.Connection | None, _record: object) -> None:
        # A plugin may have closed a connection that only reads: whoever gets it next may write.
        if connection is not None:
            connection.execute("PRAGMA query_only = OFF")

    @event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        # A deferred transaction that reads first and writes later fails at once with BUSY_SNAPSHOT, whatever the
        # timeout: ours take the write lock when they begin.
        read_only = connection.get_execution_options().get("sendoff_read_only", False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def prepare_sqlite(connection: sqlite3.Connection) -> None:
    """Register ``sendoff_now()``, the clock of every SQLite statement of ours, on a raw connection."""
    connection.create_function("sendoff_now", 0, database_now_micros)


def database_now_micros() -> int:
    """SQLite's clock: the machine's, since the database is a file on it. Microseconds since 1970."""
    return time.time_ns() // 1000


@contextmanager
def store_errors() -> Iterator[None]:
    """Re-raise driver errors as :class:`~sendoff.errors.StoreError` with SQLSTATE and constraint only: a driver's
    message and parameters carry payloads."""
    try:
        yield
    except DBAPIError as error:
        raise _translated(error) from None
    except PoolTimeout:
        raise StoreUnavailable("no database connection became free in time") from None


class PluginQueryError(Exception):
    """A query that a plugin made, on our connection or on one of its own, was refused or not answered."""


@contextmanager
def plugin_queries(connection: sa.Connection) -> Iterator[None]:
    """Around what a plugin does with ``connection``. A database error in there is the plugin's (its own database may be
    away, its SQL wrong) unless it broke our connection; taken for ours, it would stop the whole worker."""
    try:
        yield
    except DBAPIError as error:
        if connection.invalidated:
            raise
        trouble = _translated(error)
        # The table that is missing is the plugin's own: `sendoff migrate` would not make it.
        what = f"a table or column is missing ({trouble.sqlstate})" if isinstance(trouble, NotMigrated) else trouble
        raise PluginQueryError(f"{type(error).__name__}: {what}") from None


def translate_driver_error(error: BaseException) -> StoreError | None:
    """A raw driver's error as one of ours; None where it is no database error at all."""
    if isinstance(error, sqlite3.Error):
        return _translated_sqlite(error)
    names = {base.__name__: base.__module__.partition(".")[0] for base in type(error).__mro__}
    cause = error.__cause__
    if names.get("DatabaseError") == "django" or names.get("InterfaceError") == "django":
        return (translate_driver_error(cause) if cause is not None else None) or StoreError(
            f"the database refused a statement ({type(error).__name__})"
        )
    if names.get("Error") != "psycopg":
        return None
    away = "OperationalError" in names or "InterfaceError" in names
    return _by_sqlstate(error, away=away, invalidated=False)


def _translated(error: DBAPIError) -> StoreError:
    original = error.orig
    if isinstance(original, sqlite3.Error):
        return _translated_sqlite(original)
    away = isinstance(error, OperationalError | InterfaceError)
    return _by_sqlstate(original, away=away, invalidated=error.connection_invalidated)


def _by_sqlstate(original: BaseException | None, *, away: bool, invalidated: bool) -> StoreError:
    sqlstate: str | None = getattr(original, "sqlstate", None)
    constraint: str | None = getattr(getattr(original, "diag", None), "constraint_name", None)
    if sqlstate in _UNDEFINED:
        return NotMigrated(NOT_MIGRATED, sqlstate=sqlstate)
    if sqlstate is None and away:
        return StoreUnavailable(f"the database cannot be reached ({_why_unreachable(original)})")
    if invalidated or (sqlstate and (sqlstate[:2] in _PASSING_CLASSES or sqlstate in _PASSING_STATES)):
        return StoreUnavailable(f"the database cannot answer now (SQLSTATE {sqlstate})", sqlstate=sqlstate)
    where = f", constraint {constraint}" if constraint else ""
    return StoreError(
        f"the database refused a statement ({type(original).__name__}, SQLSTATE {sqlstate}{where})",
        sqlstate=sqlstate,
        constraint=constraint,
    )


#: What libpq and servers say when no connection comes about, which has no SQLSTATE, and what to make of it. Their own
#: text stays out: it has the address and the user.
_UNREACHABLE = {
    "connection refused": "connection refused; is the server running, are host and port right?",
    "could not translate host name": "its host name is unknown",
    "failed to resolve host": "its host name is unknown",
    "no such file or directory": "no server listens on this socket",
    "authentication failed": "user or password refused",
    "no password supplied": "it wants a password",
    "no pg_hba.conf entry": "it does not let this user in from here",
    "role": "it has no such user",
    "database": "it has no such database",
    "timeout": "no answer in time",
    "certificate": "its certificate is refused",
    "too many clients": "it has no connection left",
    "starting up": "it is starting up",
    "shutting down": "it is shutting down",
    "server closed the connection": "the connection was closed",
}


def _why_unreachable(original: BaseException | None) -> str:
    text = str(original).lower()
    for said, means in _UNREACHABLE.items():
        if said in text and (said not in {"role", "database"} or "does not exist" in text):
            return means
    return type(original).__name__


def _translated_sqlite(original: sqlite3.Error) -> StoreError:
    name: str = getattr(original, "sqlite_errorname", None) or type(original).__name__
    text = str(original)
    if text.startswith(("no such table: sendoff_", "no such column: ")) or "has no column named" in text:
        return NotMigrated(NOT_MIGRATED, sqlstate=name)
    if name.startswith(
        ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_FULL")
    ):
        why = "; do its folder and it exist, and may this user write there?" if name == "SQLITE_CANTOPEN" else ""
        return StoreUnavailable(f"the database file cannot be used now ({name}){why}", sqlstate=name)
    if name == "SQLITE_NOTADB":
        return StoreError("the database file is no SQLite database (SQLITE_NOTADB)", sqlstate=name)
    return StoreError(f"the database refused a statement ({name})", sqlstate=name)


def psycopg_conninfo(url: URL) -> tuple[str, dict[str, Any]]:
    """A URL for psycopg itself, with the keepalives of our connections: for the one that listens."""
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    keepalives = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "connect_timeout": 10}
    return plain, {key: value for key, value in keepalives.items() if key not in url.query}
