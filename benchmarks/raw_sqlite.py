"""The limit on SQLite: claim and settle through the standard library's sqlite3, one after the other."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from benchmarks.plugin import CHANNEL

__all__ = ["connect", "drain"]

BATCH = 500

_NOW = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
_OPEN = f"""
SELECT {_NOW}, NOT EXISTS (
  SELECT 1 FROM sendoff_channel c WHERE c.name = :channel AND (
    (c.paused_by IS NOT NULL AND (c.paused_until IS NULL OR c.paused_until > {_NOW})) OR c.breaker_until > {_NOW}))
"""
_DUE = """
SELECT id, next_attempt_at FROM sendoff_outgoing
WHERE status = 'pending' AND channel = :channel AND priority = :lane AND next_attempt_at <= :now
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY next_attempt_at, id LIMIT :limit
"""
_LEASE = """
UPDATE sendoff_outgoing SET claimed_until = :now + 60000000, next_attempt_at = :now + 60000000,
  claim_count = claim_count + 1, lost_leases = lost_leases + (claimed_until IS NOT NULL), claimed_by = 'raw'
WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id, notification_id, channel, recipient, type, payload, addresses, meta, priority, attempt_count, try_count,
  claim_count, lost_leases, requeue_count, collapse_key, progress, cancel_requested_at, created_at, first_due_at,
  expires_at
"""
_CLAIM_COUNT = 11
_SETTLE = """
UPDATE sendoff_outgoing SET status = 'sent', verdict = 'sent', reason = NULL, try_count = try_count + 1,
  lost_leases = 0, claimed_until = NULL, claimed_by = NULL, next_attempt_at = NULL, sent_at = coalesce(sent_at, :now),
  finished_at = :now, payload = CASE WHEN sensitive THEN '{}' ELSE payload END
WHERE id = :id AND status = 'pending' AND claim_count = :claim_count AND claimed_until IS NOT NULL
"""
_EVENT = """
INSERT INTO sendoff_event (at, outgoing_id, notification_id, recipient, channel, type, kind)
SELECT :now, id, notification_id, recipient, channel, type, 'sent' FROM sendoff_outgoing WHERE id = :id
"""


def connect(file: Path) -> sqlite3.Connection:
    """A connection with the same pragmas as sendoff's."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def drain(connection: sqlite3.Connection, done: Callable[[int, float], None]) -> None:
    """Claim and settle until nothing is due; ``done`` is told how many rows were settled, and when."""
    while rows := _claim(connection):
        connection.execute("BEGIN IMMEDIATE")
        (now,) = connection.execute(f"SELECT {_NOW}").fetchone()
        verdicts = [{"id": row[0], "claim_count": row[_CLAIM_COUNT], "now": now} for row in rows]
        settled = connection.executemany(_SETTLE, verdicts).rowcount
        connection.executemany(_EVENT, verdicts)
        connection.execute("COMMIT")
        done(settled, time.monotonic())


def _claim(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    connection.execute("BEGIN IMMEDIATE")
    now, is_open = connection.execute(_OPEN, {"channel": CHANNEL}).fetchone()
    due: list[str] = []
    for lane in (0, 1, 2) if is_open else ():
        parameters = {"channel": CHANNEL, "lane": lane, "now": now, "limit": BATCH - len(due)}
        due += [id for id, _ in connection.execute(_DUE, parameters)]
    rows = connection.execute(_LEASE, {"now": now, "ids": orjson.dumps(due).decode()}).fetchall() if due else []
    connection.execute("COMMIT")
    return rows
