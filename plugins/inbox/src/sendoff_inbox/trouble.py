"""What a database error means for the entries it hit. Pure, and never quotes the driver: its text carries payloads."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sendoff.plugin import Outage, Permanent, Retryable, Verdict

__all__ = ["concerns_all", "verdict_on"]

#: SQLSTATE classes (PostgreSQL, appendix A) that speak about the server or the moment: connections, the end of a
#: transaction by others, resources, operator intervention, system errors. 25006 is a server that is read-only now.
_AWAY_CLASSES = {"08", "40", "53", "55", "57", "58"}
_AWAY = {"25006"}
#: Missing or foreign tables, missing rights, wrong database: the same for every entry until a person acts.
_OURS_CLASSES = {"28", "3D", "3F", "42"}
#: Values that the table does not take: data exceptions, constraints, program limits. Never different.
_VALUE_CLASSES = {"22", "23", "54"}

_SQLITE_AWAY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
}
#: SQLITE_ERROR is what a missing table or column gives; nothing in an entry can cause it.
_SQLITE_OURS = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_AUTH,
}
_SQLITE_VALUE = {sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE}


def verdict_on(error: SQLAlchemyError) -> Verdict:
    """``Retryable(counts=False)`` where the database is busy or away, ``Outage`` where the set-up is wrong,
    ``Permanent`` where it refuses the entry's values, and ``Retryable`` for what nobody foresaw."""
    if isinstance(error, PoolTimeout):
        return _away("no free connection")
    if not isinstance(error, DBAPIError):
        return Retryable(f"the database call failed: {type(error).__name__}")
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite(error.orig)
    return _postgresql(error)


def concerns_all(verdict: Verdict) -> bool:
    """Whether the verdict speaks about the database and so holds for every entry of the batch."""
    return isinstance(verdict, Outage) or (isinstance(verdict, Retryable) and not verdict.counts)


def _postgresql(error: DBAPIError) -> Verdict:
    original: Any = error.orig
    state: str | None = getattr(original, "sqlstate", None)
    if state is None:
        if error.connection_invalidated or isinstance(error, OperationalError | InterfaceError):
            return _away("the connection failed")
        return Retryable(f"the database call failed: {type(original).__name__}")
    if state in _AWAY or state[:2] in _AWAY_CLASSES or error.connection_invalidated:
        return _away(f"SQLSTATE {state}")
    if state[:2] in _OURS_CLASSES:
        return _ours(f"SQLSTATE {state}")
    constraint = getattr(getattr(original, "diag", None), "constraint_name", None)
    what = f"SQLSTATE {state}" + (f", constraint {constraint}" if constraint else "")
    return _refused(what, for_good=state[:2] in _VALUE_CLASSES)


def _sqlite(error: sqlite3.Error) -> Verdict:
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code is None:
        return _refused(name, for_good=False)
    primary = code & 0xFF  # The rest of the code says more of the same (SQLITE_BUSY_SNAPSHOT, SQLITE_IOERR_WRITE).
    if primary in _SQLITE_AWAY:
        return _away(name)
    if primary in _SQLITE_OURS:
        return _ours(name)
    return _refused(name, for_good=primary in _SQLITE_VALUE)


def _away(what: str) -> Verdict:
    return Retryable(f"the database is busy or away ({what})", counts=False)


def _ours(what: str) -> Verdict:
    return Outage(f"the table sendoff_inbox cannot be written ({what}); `sendoff migrate` makes it")


def _refused(what: str, *, for_good: bool) -> Verdict:
    reason = f"the database refused the entry ({what})"
    return Permanent(reason) if for_good else Retryable(reason)
