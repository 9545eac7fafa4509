"""The feed: what an application puts behind its own endpoints.

::

    from sendoff_inbox import inbox

    inbox.list("u1", db, limit=20)          # newest first
    inbox.unread_count("u1", db)
    inbox.mark_read("u1", db, [entry.id])   # or without ids: all that is there now

Every function runs in the caller's transaction, on an SQLAlchemy Connection or Session, or on a psycopg 3, sqlite3 or
Django connection, and never commits. With an AsyncSession: ``await db.run_sync(lambda db: inbox.list("u1", db))``.

Each is bound to one recipient: an id of somebody else's entry is not found, just like one that nobody has, and the
answer is the same. What changes entries says how many it changed; doing it again changes none.

:class:`InvalidInput` (a ``ValueError``) is an argument that means nothing, :class:`sendoff.ConfigurationError` a
connection that is none, :class:`sendoff.StoreError` what the database says.
"""

from __future__ import annotations

import builtins
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from sendoff_inbox import checks
from sendoff_inbox.checks import Ids, InvalidInput, Position
from sendoff_inbox.entry import Entry, entry_of
from sendoff_inbox.listen import Listening, listen
from sendoff_inbox.statements import ALL, BELOW, FROM, change, rows_of, sweep
from sendoff_inbox.tables import ARCHIVE, FEED, UNREAD

__all__ = [
    "Entry",
    "InvalidInput",
    "Listening",
    "archive",
    "delete",
    "list",
    "listen",
    "mark_read",
    "mark_seen",
    "mark_unread",
    "purge",
    "unarchive",
    "unread_count",
    "unseen_count",
]

_FIRST, _LAST = UUID(int=0), UUID(int=2**128 - 1)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
#: Tombstones that a delete takes along. More than it leaves, so that they do not grow in number.
_SWEPT = 100


def list(  # noqa: A001 - read as inbox.list; builtins.list where the type is meant
    recipient: str,
    connection: Any,
    *,
    before: Position | None = None,
    limit: int = 50,
    unread: bool | None = None,
    archived: bool = False,
    type: str | None = None,
) -> builtins.list[Entry]:
    """A page of a recipient's feed, newest first.

    :param before: the last entry of the page before, or its id; entries that arrive meanwhile do not move pages.
    :param limit: how many at most, 1 to 500. A page with fewer is the last.
    :param unread: only those that are unread, or with ``False`` only those that are read.
    :param archived: the archive instead of the feed.
    :param type: only notifications of this type. Looks through all of the recipient's until it has found enough.
    """
    on = checks.executor(connection)
    parameters: dict[str, Any] = {
        "recipient": checks.text("recipient", recipient),
        "before": str(_LAST if before is None else checks.position("before", before)),
        "limit": checks.limit(limit),
    }
    where = [BELOW, ARCHIVE if checks.flag("archived", archived) else FEED]
    if unread is not None:
        where.append("read_at IS NULL" if checks.flag("unread", unread) else "read_at IS NOT NULL")
    if type is not None:
        where.append("type = :type")
        parameters["type"] = checks.text("type", type)
    sql = f"""
        SELECT {{columns}} FROM sendoff_inbox WHERE {" AND ".join(where)}
        ORDER BY sendoff_inbox.recipient DESC, sendoff_inbox.id DESC LIMIT :limit
    """  # noqa: S608 - constants of this package
    return [entry_of(row) for row in rows_of(on, sql, parameters)]


def unread_count(recipient: str, connection: Any) -> int:
    """How many entries of the feed are unread; the archive does not count."""
    return _count(recipient, connection, UNREAD)


def unseen_count(recipient: str, connection: Any) -> int:
    """How many entries of the feed have never been shown (:func:`mark_seen`) nor read: the number on the bell."""
    return _count(recipient, connection, f"{UNREAD} AND seen_at IS NULL")


def _count(recipient: str, connection: Any, part: str) -> int:
    parameters = {"recipient": checks.text("recipient", recipient), "after": str(_FIRST)}
    sql = f"""
        SELECT count(*) FROM (
            SELECT 1 FROM sendoff_inbox WHERE {FROM} AND {part} ORDER BY recipient, id {ALL}
        ) AS counted
    """  # noqa: S608 - constants of this package
    [(count,)] = rows_of(checks.executor(connection), sql, parameters)
    return int(count)


def mark_seen(
    recipient: str, connection: Any, ids: Ids | None = None, *, up_to: datetime | Position | None = None
) -> int:
    """These have been shown, or all of the feed up to a moment; as :func:`mark_read`."""
    return _mark(recipient, connection, ids, up_to, "seen_at = {now}", "seen_at IS NULL")


def mark_read(
    recipient: str, connection: Any, ids: Ids | None = None, *, up_to: datetime | Position | None = None
) -> int:
    """These have been read, and so seen; without ``ids`` all of the feed. How many were unread.

    What arrives meanwhile stays unread: all means all that was committed when the statement began.

    :param ids: an id or an entry, or several (10,000 at most); archived ones too.
    :param up_to: instead of ids, all up to a moment by the database's clock (``Entry.created_at``), or better, up to
        an entry: the newest that the client was showing.
    """
    values = "read_at = {now}, seen_at = coalesce(seen_at, {now})"
    return _mark(recipient, connection, ids, up_to, values, "read_at IS NULL")


def mark_unread(recipient: str, connection: Any, ids: Ids) -> int:
    """These are unread again; they stay seen. How many were read."""
    return _change(recipient, connection, ids, "read_at = NULL", "read_at IS NOT NULL")


def archive(recipient: str, connection: Any, ids: Ids) -> int:
    """Move these from the feed to the archive, read or not. How many."""
    return _change(recipient, connection, ids, "archived_at = {now}", "archived_at IS NULL")


def unarchive(recipient: str, connection: Any, ids: Ids) -> int:
    """Move these back to their place in the feed. How many."""
    return _change(recipient, connection, ids, "archived_at = NULL", "archived_at IS NOT NULL")


def delete(recipient: str, connection: Any, ids: Ids) -> int:
    """Delete these for good, archived ones too. How many.

    Their content goes at once. Their ids stay as a tombstone, so that the notification does not come back when its
    outgoing row is delivered once more: a worker that was believed dead may still be about to write. Each call also
    removes up to 100 older tombstones of the recipient that nothing needs any more; :func:`purge` those of everybody.
    """
    values = "deleted_at = {now}, title = NULL, body = NULL, data = NULL, link = NULL, options = NULL"
    deleted = _change(recipient, connection, ids, values, "true")
    sweep(checks.executor(connection), recipient, _SWEPT)
    return deleted


def purge(connection: Any, *, limit: int = 10_000) -> int:
    """Remove up to ``limit`` tombstones of deleted entries that nothing needs any more; how many.

    Those whose outgoing row was sent a day ago or is gone. For a job that runs now and then; call it until it says 0.
    """
    return sweep(checks.executor(connection), None, checks.limit(limit, 1_000_000))


def _mark(
    recipient: str,
    connection: Any,
    ids: Ids | None,
    up_to: datetime | Position | None,
    values: str,
    condition: str,
) -> int:
    if ids is not None:
        if up_to is not None:
            raise InvalidInput("up_to", "is for all entries; give ids or up_to")
        return _change(recipient, connection, ids, values, condition)
    parameters: dict[str, Any] = {"recipient": checks.text("recipient", recipient), "after": str(_FIRST)}
    # What is unseen is unread too, so that its small index serves both.
    where = [FROM, UNREAD, condition]
    if up_to is not None:
        match checks.moment("up_to", up_to):
            case datetime() as moment:
                where.append("created_at <= {moment}")
                parameters["moment"] = (moment - _EPOCH) // (_EPOCH.resolution)
            case entry:
                where.append("id <= {up_to}")
                parameters["up_to"] = str(entry)
    return change(checks.executor(connection), values, " AND ".join(where), parameters)


def _change(recipient: str, connection: Any, ids: Ids, values: str, condition: str) -> int:
    on = checks.executor(connection)
    chosen = checks.ids(ids)
    parameters = {
        "recipient": checks.text("recipient", recipient),
        "ids": orjson.dumps(chosen).decode(),
    }
    if not chosen:
        return 0
    # An array, not a join: the planner takes the primary key for a few ids, whatever it believes about the recipient.
    mine = "id = ANY(ARRAY({ids}))" if on.dialect == "postgresql" else "id IN ({ids})"
    return change(on, values, f"recipient = :recipient AND {mine} AND deleted_at IS NULL AND {condition}", parameters)
