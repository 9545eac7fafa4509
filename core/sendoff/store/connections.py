"""The caller's connection, whatever library it comes from, as one small thing that runs a statement.

Statements are written with ``:name`` parameters. ``enqueue`` runs inside the caller's transaction, so nothing here
commits, rolls back or closes.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, TextClause

from sendoff.errors import ConfigurationError
from sendoff.store.engine import prepare_sqlite, store_errors, translate_driver_error

__all__ = ["Executor", "SqlAlchemyExecutor", "executor_for", "own_transaction"]

_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


class Executor(Protocol):
    """Runs statements on somebody's connection."""

    dialect: str

    def execute(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """The rows of one statement with ``:name`` parameters. Raises :class:`~sendoff.errors.StoreError`."""
        ...


@lru_cache(maxsize=256)
def _text(sql: str) -> TextClause:
    return sa.text(sql)


@lru_cache(maxsize=256)
def _pyformat(sql: str) -> str:
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


class SqlAlchemyExecutor:
    """A SQLAlchemy Connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = connection.dialect.name
        if self.dialect not in {"postgresql", "sqlite"}:
            raise ConfigurationError(f"sendoff works with PostgreSQL and SQLite, not with {self.dialect!r}")
        if self.dialect == "sqlite":
            driver = connection.connection.driver_connection
            if isinstance(driver, sqlite3.Connection):
                prepare_sqlite(driver)

    def execute(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        with store_errors():
            result = self.connection.execute(_text(sql), dict(parameters))
            return result.fetchall() if result.returns_rows else []


class DriverExecutor:
    """A raw psycopg or sqlite3 connection, or Django's ``connection``: anything with a DB-API ``cursor()``."""

    def __init__(self, connection: Any, dialect: str, *, pyformat: bool, cursor_options: Mapping[str, Any]) -> None:
        self.connection = connection
        self.dialect = dialect
        self._pyformat = pyformat
        self._cursor_options = cursor_options

    def execute(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        cursor = self.connection.cursor(**self._cursor_options)
        if isinstance(cursor, sqlite3.Cursor):
            cursor.row_factory = None  # the application's rows may be dictionaries
        try:
            cursor.execute(_pyformat(sql) if self._pyformat else sql, dict(parameters))
            return list(cursor.fetchall()) if cursor.description else []
        except Exception as error:
            translated = translate_driver_error(error)
            if translated is None:
                raise
            raise translated from None
        finally:
            cursor.close()


def executor_for(connection: Any) -> Executor:
    """The executor for what the caller handed in, or a :class:`~sendoff.errors.ConfigurationError` naming its type."""
    if isinstance(connection, Connection):
        return SqlAlchemyExecutor(connection)
    if isinstance(connection, sqlite3.Connection):
        prepare_sqlite(connection)
        return DriverExecutor(connection, "sqlite", pyformat=False, cursor_options={})
    module = type(connection).__module__
    if isinstance(connection, Engine):
        raise ConfigurationError(
            "connection is an Engine, which has no transaction: pass a Connection or Session, or None for a "
            "transaction of sendoff's own"
        )
    if module.startswith("sqlalchemy.ext.asyncio"):
        raise ConfigurationError(
            "connection is asynchronous: call it inside `await connection.run_sync(lambda sync: so.enqueue(n, sync))`"
        )
    if callable(getattr(connection, "connection", None)) and hasattr(connection, "get_bind"):
        return SqlAlchemyExecutor(connection.connection())
    if module.startswith("psycopg"):
        return _psycopg(connection)
    if module.startswith("django.") and hasattr(connection, "vendor"):
        return _django(connection)
    raise ConfigurationError(
        f"connection is a {module}.{type(connection).__name__}: pass an SQLAlchemy Connection or Session, a psycopg "
        "or Django connection, or None for a transaction of sendoff's own"
    )


def _psycopg(connection: Any) -> Executor:
    from psycopg import Connection as PsycopgConnection
    from psycopg.rows import tuple_row

    if not isinstance(connection, PsycopgConnection):
        raise ConfigurationError(
            f"connection is a {type(connection).__module__}.{type(connection).__name__}: pass a synchronous "
            "psycopg 3 connection"
        )
    return DriverExecutor(connection, "postgresql", pyformat=True, cursor_options={"row_factory": tuple_row})


def _django(connection: Any) -> Executor:
    vendor = str(connection.vendor)
    if vendor not in {"postgresql", "sqlite"}:
        raise ConfigurationError(f"sendoff works with PostgreSQL and SQLite, not with Django's {vendor!r} backend")
    if vendor == "sqlite":
        connection.ensure_connection()
        prepare_sqlite(connection.connection)
    return DriverExecutor(connection, vendor, pyformat=True, cursor_options={})


@contextmanager
def own_transaction(engine: Engine) -> Iterator[SqlAlchemyExecutor]:
    """A transaction of our own: committed at the end of the block, rolled back when it raises."""
    with store_errors(), engine.begin() as connection:
        yield SqlAlchemyExecutor(connection)
