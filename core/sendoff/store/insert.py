"""Inserting rows in the caller's transaction: one statement writes the rows, their events and the wake-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from attrs import frozen

from sendoff.errors import StoreError
from sendoff.jsonsafe import dumps
from sendoff.store.connections import Executor

__all__ = ["NOTIFY", "Existing", "NewRow", "adopt", "insert_rows"]

#: Rows per statement. One JSON parameter stays well below a megabyte of typical payloads.
CHUNK = 500
_ROUNDS = 3
#: The NOTIFY channel; its payload is the sendoff channel's name.
NOTIFY = "sendoff"


@frozen(eq=False, kw_only=True)
class NewRow:
    """One row to insert; its JSON has been checked.

    Moments are microseconds since 1970; ``ttl`` and ``lease`` are seconds from the due time and from now. ``lease``
    inserts the row already leased by ``claimed_by``.
    """

    id: UUID
    notification_id: UUID
    channel: str
    recipient: str
    type: str
    payload: Mapping[str, Any]
    addresses: Sequence[str] | None = None
    meta: Mapping[str, Any] | None = None
    sensitive: bool = False
    priority: int = 1
    status: str = "pending"
    dedup_key: str | None = None
    collapse_key: str | None = None
    not_before: int | None = None
    expires_at: int | None = None
    ttl: float | None = None
    after_id: UUID | None = None
    after_when: str | None = None
    after_delay: float | None = None
    broadcast_id: UUID | None = None
    lease: float | None = None
    claimed_by: str | None = None

    def record(self, ordinal: int) -> dict[str, Any]:
        """As the JSON object that the statements read; what is not there is null to them."""
        record = {name: value for name in _FIELDS if (value := getattr(self, name)) is not None}
        record["ord"] = ordinal
        return record


_FIELDS = tuple(attribute.name for attribute in NewRow.__attrs_attrs__)


@frozen
class Existing:
    """The row that holds a dedup key already."""

    id: UUID
    notification_id: UUID


_COLUMNS = (
    "id, notification_id, broadcast_id, channel, recipient, type, payload, addresses, meta, sensitive, priority, "
    "status, claim_count, first_due_at, due_at, next_attempt_at, claimed_until, claimed_by, dedup_key, collapse_key, "
    "expires_at, after_id, after_when, after_delay, created_at"
)

#: {notified} is empty for callers that must not NOTIFY (two-phase commit).
_POSTGRESQL = f"""
WITH input AS MATERIALIZED (
  SELECT i.*, greatest(statement_timestamp(), timestamptz 'epoch' + i.not_before * interval '1 microsecond') AS due
  FROM json_to_recordset(CAST(:rows AS json)) AS i(
    ord int, id uuid, notification_id uuid, broadcast_id uuid, channel text, recipient text, type text, payload json,
    addresses json, meta json, sensitive boolean, priority smallint, status text, dedup_key text, collapse_key text,
    not_before bigint, expires_at bigint, ttl double precision, after_id uuid, after_when text,
    after_delay double precision, lease double precision, claimed_by text)
), inserted AS (
  INSERT INTO sendoff_outgoing ({_COLUMNS})
  SELECT id, notification_id, broadcast_id, channel, recipient, type, payload, addresses, meta, sensitive, priority,
    status, CASE WHEN lease IS NULL THEN 0 ELSE 1 END, due, due,
    CASE WHEN lease IS NULL THEN due ELSE statement_timestamp() + lease * interval '1 second' END,
    statement_timestamp() + lease * interval '1 second', claimed_by, dedup_key, collapse_key,
    coalesce(timestamptz 'epoch' + expires_at * interval '1 microsecond', due + ttl * interval '1 second'),
    after_id, after_when, after_delay, statement_timestamp()
  FROM input ORDER BY recipient COLLATE "C", channel COLLATE "C", dedup_key COLLATE "C", ord
  ON CONFLICT (recipient, channel, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING
  RETURNING id, notification_id, recipient, channel, type, status, claimed_until
), logged AS (
  INSERT INTO sendoff_event (at, outgoing_id, notification_id, recipient, channel, type, kind)
  SELECT statement_timestamp(), id, notification_id, recipient, channel, type, 'created' FROM inserted
), woken AS (
  SELECT count(pg_notify('{NOTIFY}', c.name)) AS n FROM sendoff_channel c
  WHERE :notify AND c.listening_until > statement_timestamp() AND c.name IN (
    SELECT channel FROM inserted WHERE status = 'pending' AND claimed_until IS NULL)
)
SELECT i.ord FROM input i JOIN inserted x ON x.id = i.id, woken WHERE woken.n >= 0
"""

_SQLITE_INSERT = f"""
INSERT INTO sendoff_outgoing ({_COLUMNS})
SELECT json_extract(r, '$.id'), json_extract(r, '$.notification_id'), json_extract(r, '$.broadcast_id'),
  json_extract(r, '$.channel'), json_extract(r, '$.recipient'), json_extract(r, '$.type'),
  json_extract(r, '$.payload'), json_extract(r, '$.addresses'), json_extract(r, '$.meta'),
  json_extract(r, '$.sensitive'), json_extract(r, '$.priority'), json_extract(r, '$.status'),
  CASE WHEN lease IS NULL THEN 0 ELSE 1 END, due, due, CASE WHEN lease IS NULL THEN due ELSE now + lease END,
  now + lease, json_extract(r, '$.claimed_by'), json_extract(r, '$.dedup_key'), json_extract(r, '$.collapse_key'),
  coalesce(json_extract(r, '$.expires_at'), due + CAST(json_extract(r, '$.ttl') * 1000000 AS INTEGER)),
  json_extract(r, '$.after_id'), json_extract(r, '$.after_when'), json_extract(r, '$.after_delay'), now
FROM (
  SELECT value AS r, now, max(now, coalesce(json_extract(value, '$.not_before'), 0)) AS due,
    CAST(json_extract(value, '$.lease') * 1000000 AS INTEGER) AS lease
  FROM json_each(:rows), (SELECT sendoff_now() AS now)
)
WHERE true
ON CONFLICT (recipient, channel, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING
RETURNING id
"""

_SQLITE_EVENTS = """
INSERT INTO sendoff_event (at, outgoing_id, notification_id, recipient, channel, type, kind)
SELECT created_at, id, notification_id, recipient, channel, type, 'created'
FROM sendoff_outgoing WHERE id IN (SELECT value FROM json_each(:ids))
"""

_EXISTING_POSTGRESQL = """
SELECT i.ord, o.id, o.notification_id
FROM json_to_recordset(CAST(:keys AS json)) AS i(ord int, recipient text, channel text, dedup_key text)
JOIN sendoff_outgoing o ON o.recipient = i.recipient AND o.channel = i.channel AND o.dedup_key = i.dedup_key
"""

_EXISTING_SQLITE = """
SELECT json_extract(i.value, '$.ord'), o.id, o.notification_id
FROM json_each(:keys) AS i
JOIN sendoff_outgoing o ON o.recipient = json_extract(i.value, '$.recipient')
  AND o.channel = json_extract(i.value, '$.channel') AND o.dedup_key = json_extract(i.value, '$.dedup_key')
"""

_ADOPT_POSTGRESQL = """
WITH moved AS (
  UPDATE sendoff_outgoing SET notification_id = CAST(:notification_id AS uuid) WHERE id = CAST(:id AS uuid)
)
UPDATE sendoff_event SET notification_id = CAST(:notification_id AS uuid) WHERE outgoing_id = CAST(:id AS uuid)
"""


def insert_rows(executor: Executor, rows: Sequence[NewRow], *, wake: bool = True) -> dict[int, Existing]:
    """Insert ``rows`` with their events; answer, by position, the rows that exist already under the same key.

    In the caller's transaction, the first statement is the write. Concurrent inserts of one key wait for each other.
    """
    duplicates: dict[int, Existing] = {}
    # In key order over all chunks: two calls with the same keys in opposite order would deadlock.
    ordered = sorted(enumerate(rows), key=_by_key)
    for start in range(0, len(rows), CHUNK):
        todo = dict(ordered[start : start + CHUNK])
        for _ in range(_ROUNDS):
            created = _insert_chunk(executor, todo, wake=wake)
            todo = {ordinal: row for ordinal, row in todo.items() if ordinal not in created}
            found = _existing(executor, todo) if todo else {}
            duplicates.update(found)
            # A row that was there for the insert and not for the look-up has been pruned in between.
            todo = {ordinal: row for ordinal, row in todo.items() if ordinal not in found}
            if not todo:
                break
        else:
            raise StoreError("rows under the same dedup keys keep appearing and vanishing; try again")
    return duplicates


def _by_key(numbered: tuple[int, NewRow]) -> tuple[str, str, str]:
    row = numbered[1]
    return row.recipient, row.channel, row.dedup_key or ""


def _insert_chunk(executor: Executor, rows: Mapping[int, NewRow], *, wake: bool) -> set[int]:
    records = [row.record(ordinal) for ordinal, row in rows.items()]
    if executor.dialect == "postgresql":
        found = executor.execute(_POSTGRESQL, {"rows": dumps(records), "notify": wake})
        return {int(ordinal) for (ordinal,) in found}
    for record in records:
        for name in ("payload", "addresses", "meta"):
            if name in record:
                record[name] = dumps(record[name])
    ids = {str(id) for (id,) in executor.execute(_SQLITE_INSERT, {"rows": dumps(records)})}
    executor.execute(_SQLITE_EVENTS, {"ids": dumps(sorted(ids))})
    return {ordinal for ordinal, row in rows.items() if str(row.id) in ids}


def _existing(executor: Executor, rows: Mapping[int, NewRow]) -> dict[int, Existing]:
    keys = [
        {"ord": ordinal, "recipient": row.recipient, "channel": row.channel, "dedup_key": row.dedup_key}
        for ordinal, row in rows.items()
    ]
    sql = _EXISTING_POSTGRESQL if executor.dialect == "postgresql" else _EXISTING_SQLITE
    found = executor.execute(sql, {"keys": dumps(keys)})
    return {int(at): Existing(UUID(str(id)), UUID(str(notification_id))) for at, id, notification_id in found}


def adopt(executor: Executor, id: UUID, notification_id: UUID) -> None:
    """Give a row just inserted the notification id of the siblings that existed before it."""
    parameters = {"id": str(id), "notification_id": str(notification_id)}
    if executor.dialect == "postgresql":
        executor.execute(_ADOPT_POSTGRESQL, parameters)
        return
    executor.execute("UPDATE sendoff_outgoing SET notification_id = :notification_id WHERE id = :id", parameters)
    executor.execute("UPDATE sendoff_event SET notification_id = :notification_id WHERE outgoing_id = :id", parameters)
