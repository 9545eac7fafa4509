"""Statements on the caller's connection, in the caller's transaction: nothing here commits, rolls back or closes.

Statements are written with ``:name`` parameters and give the same columns whatever the library. ``{now}`` in them is
the database's clock at the statement; SQLite has none but its process's.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

__all__ = ["Executable", "moment", "run"]

#: An SQLAlchemy Connection or Session, or a connection of psycopg 3 or sqlite3.
Executable = Any

NOW = {"postgresql": "statement_timestamp()", "sqlite": ":now"}
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def run(connection: Executable, sql: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """The rows of one statement; of one that returns none, none.

    :raises TypeError: for any other connection, an asynchronous one or an Engine among them.
    """
    if isinstance(connection, sqlite3.Connection):
        return _on_driver(connection.cursor(), sql, _on("sqlite", parameters), dialect="sqlite")
    if type(connection).__module__.startswith("psycopg") and not hasattr(connection, "get_bind"):
        return _on_psycopg(connection, sql, parameters)
    sync = isinstance(connection, sa.Connection) or (
        callable(getattr(connection, "connection", None)) and hasattr(connection, "get_bind")
    )
    if not sync or type(connection).__module__.startswith("sqlalchemy.ext.asyncio"):
        raise TypeError(
            f"connection is a {type(connection).__module__}.{type(connection).__name__}: pass an SQLAlchemy "
            "Connection or Session (of an asynchronous one inside run_sync), or a psycopg 3 or sqlite3 connection"
        )
    inner: sa.Connection = connection if isinstance(connection, sa.Connection) else connection.connection()
    dialect = inner.dialect.name
    result = inner.execute(sa.text(sql.format(now=NOW[dialect])), _on(dialect, parameters))
    return result.fetchall() if result.returns_rows else []


def _on(dialect: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    if dialect != "sqlite":
        return dict(parameters)
    # Microseconds since 1970, as UtcTime stores moments there.
    return {**parameters, "now": time.time_ns() // 1000}


def _on_psycopg(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    from psycopg import Connection
    from psycopg.rows import tuple_row

    if not isinstance(connection, Connection):
        raise TypeError("connection is asynchronous: pass a synchronous psycopg 3 connection")
    return _on_driver(connection.cursor(row_factory=tuple_row), sql, parameters, dialect="postgresql")


def _on_driver(cursor: Any, sql: str, parameters: Mapping[str, Any], *, dialect: str) -> Sequence[Sequence[Any]]:
    statement = sql.format(now=NOW[dialect])
    if dialect == "postgresql":
        statement = _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%"))
    else:
        cursor.row_factory = None  # the application's rows may be dictionaries
    try:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall()) if cursor.description else []
    finally:
        cursor.close()


def moment(value: Any) -> datetime | None:
    """A stored moment, aware and in UTC: PostgreSQL gives it so, SQLite as microseconds since 1970."""
    if value is None:
        return None
    return value.astimezone(UTC) if isinstance(value, datetime) else _EPOCH + timedelta(microseconds=int(value))
