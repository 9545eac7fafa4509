"""The limit: sendoff's statements issued raw through psycopg, one after the other, on the same tables.

The texts stand here a second time, so that the measure stays what it is when sendoff's own statements change. They are
as good as sendoff's: events, dedup keys and the fence are on, and the parameters are as few as they can be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import psycopg
import uuid_utils

from benchmarks.plugin import CHANNEL, content

__all__ = ["connect", "drain", "enqueue", "records"]

BATCH = 500

INSERT = b"""
WITH input AS MATERIALIZED (
  SELECT i.*, greatest(statement_timestamp(), timestamptz 'epoch' + i.not_before * interval '1 microsecond') AS due
  FROM json_to_recordset(CAST(%(rows)s AS json)) AS i(
    ord int, id uuid, notification_id uuid, broadcast_id uuid, channel text, recipient text, type text, payload json,
    addresses json, meta json, sensitive boolean, priority smallint, status text, dedup_key text, collapse_key text,
    not_before bigint, expires_at bigint, ttl double precision, after_id uuid, after_when text,
    after_delay double precision, lease double precision, claimed_by text)
), inserted AS (
  INSERT INTO sendoff_outgoing (id, notification_id, broadcast_id, channel, recipient, type, payload, addresses, meta,
    sensitive, priority, status, claim_count, first_due_at, due_at, next_attempt_at, claimed_until, claimed_by,
    dedup_key, collapse_key, expires_at, after_id, after_when, after_delay, created_at)
  SELECT id, notification_id, broadcast_id, channel, recipient, type, payload, addresses, meta, sensitive, priority,
    status, CASE WHEN lease IS NULL THEN 0 ELSE 1 END, due, due,
    CASE WHEN lease IS NULL THEN due ELSE statement_timestamp() + lease * interval '1 second' END,
    statement_timestamp() + lease * interval '1 second', claimed_by, dedup_key, collapse_key,
    coalesce(timestamptz 'epoch' + expires_at * interval '1 microsecond', due + ttl * interval '1 second'),
    after_id, after_when, after_delay, statement_timestamp()
  FROM input ORDER BY recipient, channel, dedup_key, ord
  ON CONFLICT (recipient, channel, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING
  RETURNING id, notification_id, recipient, channel, type, status, claimed_until
), logged AS (
  INSERT INTO sendoff_event (at, outgoing_id, notification_id, recipient, channel, type, kind)
  SELECT statement_timestamp(), id, notification_id, recipient, channel, type, 'created' FROM inserted
), woken AS (
  SELECT count(pg_notify('sendoff', c.name)) AS n FROM sendoff_channel c
  WHERE c.listening_until > statement_timestamp() AND c.name IN (
    SELECT channel FROM inserted WHERE status = 'pending' AND claimed_until IS NULL)
)
SELECT i.ord FROM input i JOIN inserted x ON x.id = i.id, woken WHERE woken.n >= 0
"""

CLAIM = b"""
WITH due AS MATERIALIZED (
  SELECT o.id, o.next_attempt_at
  FROM (VALUES
    (0::smallint, %(at0)s::timestamptz, %(id0)s::uuid),
    (1::smallint, %(at1)s::timestamptz, %(id1)s::uuid),
    (2::smallint, %(at2)s::timestamptz, %(id2)s::uuid)
  ) AS l(lane, after_at, after_id)
  CROSS JOIN LATERAL (
    SELECT q.id, q.next_attempt_at
    FROM sendoff_outgoing q
    WHERE q.status = 'pending' AND q.channel = %(channel)s AND q.priority = l.lane
      AND (q.next_attempt_at, q.id) > (l.after_at, l.after_id)
      AND q.next_attempt_at <= statement_timestamp()
      AND (q.expires_at IS NULL OR q.expires_at > statement_timestamp())
      AND NOT EXISTS (
        SELECT FROM sendoff_channel c WHERE c.name = %(channel)s AND (
          (c.paused_by IS NOT NULL AND (c.paused_until IS NULL OR c.paused_until > statement_timestamp()))
          OR c.breaker_until > statement_timestamp()))
    ORDER BY q.next_attempt_at, q.id
    LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
  ) AS o
  LIMIT %(limit)s
), claimed AS (
  UPDATE sendoff_outgoing o SET
    claimed_until = statement_timestamp() + %(lease)s * interval '1 second',
    next_attempt_at = statement_timestamp() + %(lease)s * interval '1 second',
    claim_count = o.claim_count + 1,
    lost_leases = o.lost_leases + CASE WHEN o.claimed_until IS NULL THEN 0 ELSE 1 END,
    claimed_by = %(claimed_by)s
  WHERE o.id = ANY(ARRAY(SELECT id FROM due))
  RETURNING o.id, o.notification_id, o.channel, o.recipient, o.type, o.payload::text AS payload,
    o.addresses::text AS addresses, o.meta::text AS meta, o.priority, o.attempt_count, o.try_count,
    o.claim_count, o.lost_leases, o.requeue_count, o.collapse_key, o.progress::text AS progress,
    o.cancel_requested_at IS NOT NULL AS cancel_requested, o.created_at,
    extract(epoch FROM o.first_due_at)::double precision AS first_due_at,
    extract(epoch FROM o.expires_at - statement_timestamp())::double precision AS expires_in,
    extract(epoch FROM statement_timestamp())::double precision AS now
)
SELECT c.*, d.next_attempt_at FROM claimed c JOIN due d ON d.id = c.id
"""
_ID, _PRIORITY, _CLAIM_COUNT, _REQUEUE_COUNT, _DUE = 0, 8, 11, 13, 21

SETTLE = b"""
WITH input AS MATERIALIZED (
  SELECT * FROM json_to_recordset(CAST(%(rows)s AS json)) AS i(
    id uuid, claim_count int, requeue_count int, kind text, status text, verdict text, reason text, provider_ref text,
    progress json, delay double precision, moves_due boolean, counted int, tried int, detail json)
), locked AS MATERIALIZED (
  SELECT id, status, claim_count, requeue_count, claimed_until, cancel_requested_at, sent_at, provider_ref
  FROM sendoff_outgoing WHERE id = ANY(ARRAY(SELECT id FROM input)) ORDER BY id FOR NO KEY UPDATE
), decided AS MATERIALIZED (
  SELECT i.*,
    (l.cancel_requested_at IS NOT NULL AND i.kind <> 'sent' AND coalesce(i.verdict, '') <> 'no_target') AS cancels,
    (l.status = 'pending' AND ((l.claim_count = i.claim_count AND l.claimed_until IS NOT NULL)
      OR (i.kind = 'sent' AND l.requeue_count = i.requeue_count))) AS fits,
    (l.status NOT IN ('pending', 'waiting') AND i.kind = 'sent' AND l.requeue_count = i.requeue_count
      AND (l.sent_at IS NULL OR (l.provider_ref IS NULL AND i.provider_ref IS NOT NULL))) AS fills,
    (l.claim_count <> i.claim_count AND i.kind <> 'released') AS lost,
    CASE WHEN l.cancel_requested_at IS NOT NULL AND i.kind <> 'sent' AND coalesce(i.verdict, '') <> 'no_target'
      THEN 'cancelled' ELSE i.status END AS new_status
  FROM input i JOIN locked l ON l.id = i.id
), updated AS (
  UPDATE sendoff_outgoing o SET
    status = CASE WHEN d.fits THEN d.new_status ELSE o.status END,
    verdict = CASE WHEN d.fits THEN coalesce(d.verdict, o.verdict) ELSE o.verdict END,
    reason = CASE WHEN NOT d.fits OR d.kind = 'released' AND NOT d.cancels THEN o.reason
      WHEN d.cancels THEN concat_ws(': ', 'cancelled', d.reason) ELSE d.reason END,
    provider_ref = CASE WHEN d.fits THEN coalesce(d.provider_ref, o.provider_ref)
      ELSE coalesce(o.provider_ref, d.provider_ref) END,
    progress = CASE WHEN d.fits THEN coalesce(d.progress, o.progress) ELSE o.progress END,
    attempt_count = o.attempt_count + CASE WHEN d.fits THEN coalesce(d.counted, 0) ELSE 0 END,
    try_count = o.try_count + CASE WHEN d.fits THEN d.tried ELSE 0 END,
    lost_leases = CASE WHEN d.fits AND (d.status = 'pending' OR d.verdict IS NOT NULL) THEN 0 ELSE o.lost_leases END,
    claimed_until = CASE WHEN d.fits THEN NULL ELSE o.claimed_until END,
    claimed_by = CASE WHEN d.fits THEN NULL ELSE o.claimed_by END,
    due_at = CASE WHEN d.fits AND d.moves_due
      THEN statement_timestamp() + d.delay * interval '1 second' ELSE o.due_at END,
    next_attempt_at = CASE WHEN NOT d.fits THEN o.next_attempt_at WHEN d.new_status <> 'pending' THEN NULL
      ELSE coalesce(statement_timestamp() + d.delay * interval '1 second', o.due_at) END,
    sent_at = CASE WHEN d.kind = 'sent' THEN coalesce(o.sent_at, statement_timestamp()) ELSE o.sent_at END,
    finished_at = CASE WHEN d.fits AND d.new_status <> 'pending' THEN statement_timestamp() ELSE o.finished_at END,
    payload = CASE WHEN d.fits AND d.new_status <> 'pending' AND o.sensitive THEN json '{}' ELSE o.payload END
  FROM decided d WHERE o.id = d.id AND (d.fits OR d.fills)
  RETURNING o.id, o.notification_id, o.recipient, o.channel, o.type, o.status, d.fits, d.detail,
    CASE WHEN NOT d.fits THEN 'lease_lost' WHEN d.cancels THEN 'cancelled' ELSE d.kind END AS kind
), logged AS (
  INSERT INTO sendoff_event (at, outgoing_id, notification_id, recipient, channel, type, kind, detail)
  SELECT statement_timestamp(), id, notification_id, recipient, channel, type, kind,
    CASE WHEN fits THEN detail ELSE json '{"sent": true}' END FROM updated
  UNION ALL
  SELECT statement_timestamp(), o.id, o.notification_id, o.recipient, o.channel, o.type, 'lease_lost',
    json_build_object('sent', d.kind = 'sent', 'verdict', d.verdict, 'claim_count', d.claim_count)
  FROM decided d JOIN sendoff_outgoing o ON o.id = d.id WHERE d.lost AND NOT d.fits AND NOT d.fills
)
SELECT id, status, kind FROM updated WHERE fits
"""

_START = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))
_SENT = {"kind": "sent", "status": "sent", "verdict": "sent", "tried": 1}


def connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection on which every statement is a transaction of its own."""
    return psycopg.connect(url, autocommit=True, prepare_threshold=0)


def records(start: int, count: int, run: str) -> list[dict[str, Any]]:
    """The rows of as many notifications as :func:`benchmarks.plugin.notifications` makes, ready to insert."""
    return [
        {
            "ord": number - start,
            "id": str(uuid_utils.uuid7()),
            "notification_id": str(uuid_utils.uuid7()),
            "channel": CHANNEL,
            "recipient": f"user-{number % 10_000}",
            "type": "order.shipped",
            "payload": {"$v": 1, **content(number)},
            "sensitive": False,
            "priority": 1,
            "status": "pending",
            "dedup_key": f"{run}:{number}:shipped",
        }
        for number in range(start, start + count)
    ]


def enqueue(connection: psycopg.Connection[tuple[Any, ...]], rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows with their events, in one statement."""
    inserted = connection.execute(INSERT, {"rows": orjson.dumps(rows).decode()}).fetchall()
    if len(inserted) != len(rows):
        raise RuntimeError(f"{len(inserted)} of {len(rows)} rows were inserted")


def drain(connection: psycopg.Connection[tuple[Any, ...]], done: Callable[[int, float], None]) -> None:
    """Claim and settle until nothing is due; ``done`` is told how many rows were settled, and when."""
    positions = dict.fromkeys((0, 1, 2), _START)
    while rows := _claim(connection, positions):
        verdicts = [
            {"id": row[_ID], "claim_count": row[_CLAIM_COUNT], "requeue_count": row[_REQUEUE_COUNT], **_SENT}
            for row in rows
        ]
        settled = connection.execute(SETTLE, {"rows": orjson.dumps(verdicts).decode()}).fetchall()
        done(len(settled), time.monotonic())
        for lane in positions:
            positions[lane] = max([positions[lane], *((row[_DUE], row[_ID]) for row in rows if row[_PRIORITY] == lane)])


def _claim(
    connection: psycopg.Connection[tuple[Any, ...]], positions: dict[int, tuple[datetime, UUID]]
) -> list[tuple[Any, ...]]:
    parameters: dict[str, Any] = {"channel": CHANNEL, "limit": BATCH, "lease": 60.0, "claimed_by": "raw"}
    for lane, (at, id) in positions.items():
        parameters |= {f"at{lane}": at, f"id{lane}": id}
    return connection.execute(CLAIM, parameters).fetchall()
