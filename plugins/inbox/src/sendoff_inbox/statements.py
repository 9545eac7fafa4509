"""The feed's statements, once for both databases.

A recipient's part of an index is asked for as a range of ``(recipient, id)`` and in that order, not as
``recipient = :recipient ORDER BY id``: then only an index that begins with the recipient can give the order, and no
statistics, however old, make PostgreSQL walk the primary key past everybody else's entries. ``ALL`` as a LIMIT keeps
it off sequential scans: the planner does not know that it is no limit, takes it for a tenth of the rows, and the index
has the first of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from attrs import frozen

from sendoff.plugin import Executor
from sendoff_inbox.tables import DELETED

__all__ = ["ALL", "BELOW", "FROM", "SETTLED", "change", "rows_of", "sweep"]

#: Of a recipient, from ``:after`` on (the id itself included or not), and up to an id.
BELOW = "(recipient, id) < (:recipient, {before}) AND recipient >= :recipient"
FROM = "(recipient, id) > (:recipient, {after}) AND recipient <= :recipient"
ALL = "LIMIT (SELECT 9223372036854775807)"

#: How long an outgoing row has to be sent, and an entry deleted, before the tombstone goes: longer than any worker that
#: took the row before may still be about to write.
SETTLED = "1 day"


@frozen
class _Spelling:
    """What the two databases spell differently."""

    now: str
    #: A parameter that is an id, a list of ids, or a moment in microseconds since 1970.
    id: str
    ids: str
    moment: str
    #: A column that is an id or JSON as text, a moment as microseconds since 1970.
    as_text: str
    as_micros: str
    settled: str


_SPELLINGS = {
    "postgresql": _Spelling(
        now="statement_timestamp()",
        id="CAST(:{} AS uuid)",
        ids="SELECT CAST(value AS uuid) FROM json_array_elements_text(CAST(:{} AS json))",
        moment="(timestamptz 'epoch' + :{} * interval '1 microsecond')",
        as_text="CAST({} AS text)",
        as_micros="CAST(round(extract(epoch FROM {}) * 1000000) AS bigint)",
        settled=f"(statement_timestamp() - interval '{SETTLED}')",
    ),
    "sqlite": _Spelling(
        now="(SELECT sendoff_now())",
        id=":{}",
        ids="SELECT value FROM json_each(:{})",
        moment=":{}",
        as_text="{}",
        as_micros="{}",
        settled="((SELECT sendoff_now()) - 86400000000)",
    ),
}

_TEXTS = ("recipient", "type", "title", "body", "link")
_MOMENTS = ("created_at", "seen_at", "read_at", "archived_at")
_ENTRY = ("id", "outgoing_id", "notification_id", "recipient", "type", "title", "body", "data", "link", "options")


@lru_cache
def columns(dialect: str) -> str:
    """What :func:`.entry.entry_of` reads. Beside these, ORDER BY says ``sendoff_inbox.id``: ``id`` is the text."""
    by = _SPELLINGS[dialect]
    texts = [name if name in _TEXTS else by.as_text.format(name) for name in _ENTRY]
    return ", ".join([*texts, *(by.as_micros.format(name) for name in _MOMENTS)])


@lru_cache
def spelt(sql: str, dialect: str) -> str:
    """``sql`` with ``{now}``, ``{settled}``, ``{now_micros}``, ``{columns}``, and the parameters ``{before}``,
    ``{after}``, ``{up_to}`` (ids), ``{ids}``, ``{seen}`` (JSON lists of ids), ``{moment}`` as this database says."""
    by = _SPELLINGS[dialect]
    return sql.format(
        now=by.now,
        settled=by.settled,
        now_micros=by.as_micros.format(by.now),
        columns=columns(dialect),
        moment=by.moment.format("moment"),
        **{name: by.id.format(name) for name in ("before", "after", "up_to")},
        **{name: by.ids.format(name) for name in ("ids", "seen")},
    )


def rows_of(executor: Executor, sql: str, parameters: Mapping[str, Any]) -> list[Any]:
    """The rows of one statement."""
    return list(executor.execute(spelt(sql, executor.dialect), parameters))


#: Entries are locked in the order of their ids first: two phones that mark the same ones wait for each other instead
#: of deadlocking. A row that changed while this waited is looked at again, so that nothing counts twice. ``changed``
#: names the outgoing rows, for receipts to be written by the same statement.
_CHANGE = """
    WITH chosen AS MATERIALIZED (
        SELECT id FROM sendoff_inbox WHERE {which} ORDER BY recipient, id {limit} FOR NO KEY UPDATE
    ), changed AS (
        UPDATE sendoff_inbox SET {values} WHERE id = ANY(ARRAY(SELECT id FROM chosen)) RETURNING outgoing_id
    )
    SELECT count(*) FROM changed
"""


def change(executor: Executor, values: str, which: str, parameters: Mapping[str, Any]) -> int:
    """Set ``values`` where ``which`` holds; how many entries that were."""
    if executor.dialect == "postgresql":
        # Put together before it is spelt: which and values hold placeholders of their own.
        sql = _CHANGE.replace("{which}", which).replace("{values}", values).replace("{limit}", ALL)
        [(count,)] = rows_of(executor, sql, parameters)
    else:
        rows_of(executor, f"UPDATE sendoff_inbox SET {values} WHERE {which}", parameters)  # noqa: S608 - constants of this package
        [(count,)] = rows_of(executor, "SELECT changes()", {})
    return int(count)


#: Tombstones that no redelivery can meet any more: the outgoing row is sent or gone, for long enough that no worker
#: that had taken it earlier still runs. A row that is dead, cancelled or expired may be requeued by a person, so its
#: tombstone stays as long as the row.
_BURIED = f"""
    SELECT e.id FROM sendoff_inbox e LEFT JOIN sendoff_outgoing o ON o.id = e.outgoing_id
    WHERE e.{DELETED} AND e.deleted_at < {{settled}} AND {{whose}}
      AND (o.id IS NULL OR (o.status IN ('sent', 'delivered') AND o.finished_at < {{settled}}))
    ORDER BY e.recipient, e.id LIMIT :limit
"""  # noqa: S608 - constants of this package
_SWEEP = {
    # Whoever else sweeps takes others.
    "postgresql": """
        WITH gone AS (
            DELETE FROM sendoff_inbox WHERE id = ANY(ARRAY({buried} FOR UPDATE OF e SKIP LOCKED)) RETURNING id
        )
        SELECT count(*) FROM gone
    """,
    "sqlite": "DELETE FROM sendoff_inbox WHERE id IN ({buried})",
}


def sweep(executor: Executor, recipient: str | None, limit: int) -> int:
    """Remove up to ``limit`` tombstones that nothing needs any more; how many. Of everybody, with ``None``."""
    whose = "true" if recipient is None else "e.recipient = :recipient"
    parameters = {"limit": limit, **({} if recipient is None else {"recipient": recipient})}
    sql = _SWEEP[executor.dialect].replace("{buried}", _BURIED.replace("{whose}", whose))
    found = rows_of(executor, sql, parameters)
    if executor.dialect == "sqlite":
        found = rows_of(executor, "SELECT changes()", {})
    return int(found[0][0])
