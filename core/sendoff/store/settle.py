"""Settling: verdicts become states. One statement a batch, behind the fence, events included.

The fence: ``pending``, the ``claim_count`` that was handed out, and ``claimed_until`` not null. Settling sets that
null, so that a repeated write changes nothing. The one exception is a late ``sent``, which needs only ``pending``,
because the provider has accepted the message; on a final row it still fills a null ``sent_at`` and ``provider_ref``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa
from attrs import define
from sqlalchemy import Connection

from sendoff.jsonsafe import MAX_DEPTH, as_text, clean_text, dumps
from sendoff.policy import Transition
from sendoff.secret import scrub

__all__ = ["Settle", "Settled", "settle_postgresql", "settle_sqlite"]


# Not frozen: attrs sets each field of a frozen class through a call, and one is made for every row.
@define(eq=False)
class Settle:
    """One verdict to write: which row, under which lease, and the transition it means."""

    id: UUID
    claim_count: int
    requeue_count: int
    transition: Transition

    def record(self) -> dict[str, Any]:
        """As the JSON object that the statements read; texts made storable."""
        change = self.transition
        reason = None if change.reason is None else clean_text(scrub(change.reason))
        detail: dict[str, Any] = {} if change.details is None else {"details": storable(change.details)}
        if reason is not None:
            detail["reason"] = reason
        if change.kind == "dead" and change.verdict is not None:
            detail["verdict"] = change.verdict
        if change.provider_ref is not None:
            detail["provider_ref"] = clean_text(str(change.provider_ref))
        if change.delay is not None:
            detail["delay"] = round(change.delay, 3)
        return {
            "id": self.id,
            "claim_count": self.claim_count,
            "requeue_count": self.requeue_count,
            "kind": change.kind,
            "status": change.status,
            "verdict": change.verdict,
            "reason": reason,
            "provider_ref": detail.get("provider_ref"),
            "progress": None if change.progress is None else storable(change.progress),
            "delay": change.delay,
            "moves_due": change.moves_due,
            "counted": change.counted,
            "tried": change.tried,
            "detail": detail or None,
        }


#: What a verdict's details may hold, and its progress: characters, a few more for every item.
MOST_STORED = 100_000
_ITEM = 8


@define(eq=False)
class _Room:
    left: int = MOST_STORED

    def take(self, size: int) -> bool:
        self.left -= size + _ITEM
        return self.left >= 0


def storable(value: Any, *, depth: int = 0, room: _Room | None = None) -> Any:
    """What a channel handed over for storing, as JSON that every database takes: unknown objects as text, texts
    cleaned, what goes on for ever cut, so that one odd detail never costs a verdict."""
    room = room or _Room()
    if depth > MAX_DEPTH:
        return "…"
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, room)
        case int():
            return value if -(2**63) <= value < 2**63 else _text(as_text(value), room)
        case float():
            return value if math.isfinite(value) else str(value)
        case dict() | Mapping():
            found = {}
            for key, item in value.items():
                name = clean_text(as_text(key))
                if not room.take(len(name)):
                    break
                found[name] = storable(item, depth=depth + 1, room=room)
            return found
        case list() | tuple():
            items = []
            for item in value:
                if not room.take(0):
                    break
                items.append(storable(item, depth=depth + 1, room=room))
            return items
        case _:
            return _text(as_text(value), room)


def _text(text: str, room: _Room) -> str:
    cleaned = clean_text(scrub(text), limit=10_000)
    return cleaned if room.take(len(cleaned)) else "…"


@define(eq=False)
class Settled:
    """What a settle did to one row. ``lost``: another claim, a person or a receipt had ended the lease before."""

    id: UUID
    outcome: Literal["applied", "lost"]
    status: str | None = None
    kind: str | None = None


_INPUT = (
    "id uuid, claim_count int, requeue_count int, kind text, status text, verdict text, reason text, "
    "provider_ref text, progress json, delay double precision, moves_due boolean, counted int, tried int, detail json"
)
_CANCELS = "(l.cancel_requested_at IS NOT NULL AND i.kind <> 'sent' AND coalesce(i.verdict, '') <> 'no_target')"
_FITS = (
    "(l.status = 'pending' AND ((l.claim_count = i.claim_count AND l.claimed_until IS NOT NULL)"
    " OR (i.kind = 'sent' AND l.requeue_count = i.requeue_count)))"
)
_FILLS = (
    "(l.status NOT IN ('pending', 'waiting') AND i.kind = 'sent' AND l.requeue_count = i.requeue_count"
    " AND (l.sent_at IS NULL OR (l.provider_ref IS NULL AND i.provider_ref IS NOT NULL)))"
)
#: A repeated write of the same verdict is not a lost lease: its claim is still the last one.
_LOST = "(l.claim_count <> i.claim_count AND i.kind <> 'released')"

# Rows are locked in id order first (two settlers with the same rows in opposite order would deadlock). The status is
# tested on the locked rows, never in the update, which keeps the planner on the primary key and off the due index.
_POSTGRESQL = f"""
WITH input AS MATERIALIZED (
  SELECT * FROM json_to_recordset(CAST(:rows AS json)) AS i({_INPUT})
), locked AS MATERIALIZED (
  SELECT id, status, claim_count, requeue_count, claimed_until, cancel_requested_at, sent_at, provider_ref
  FROM sendoff_outgoing WHERE id = ANY(ARRAY(SELECT id FROM input)) ORDER BY id FOR NO KEY UPDATE
), decided AS MATERIALIZED (
  SELECT i.*, {_CANCELS} AS cancels, {_FITS} AS fits, {_FILLS} AS fills, {_LOST} AS lost,
    CASE WHEN {_CANCELS} THEN 'cancelled' ELSE i.status END AS new_status
  FROM input i JOIN locked l ON l.id = i.id
), updated AS (
  UPDATE sendoff_outgoing o SET
    status = CASE WHEN d.fits THEN d.new_status ELSE o.status END,
    verdict = CASE WHEN d.fits THEN coalesce(d.verdict, o.verdict) ELSE o.verdict END,
    reason = CASE WHEN NOT d.fits OR d.kind = 'released' AND NOT d.cancels THEN o.reason
      WHEN d.cancels THEN concat_ws(': ', 'cancelled', nullif(d.reason, '')) ELSE d.reason END,
    provider_ref = CASE WHEN d.fits THEN coalesce(d.provider_ref, o.provider_ref)
      ELSE coalesce(o.provider_ref, d.provider_ref) END,
    progress = CASE WHEN d.fits THEN coalesce(d.progress, o.progress) ELSE o.progress END,
    attempt_count = o.attempt_count + CASE WHEN d.fits THEN d.counted ELSE 0 END,
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
    payload = CASE WHEN d.fits AND d.new_status <> 'pending' AND o.sensitive THEN json '{{}}' ELSE o.payload END
  FROM decided d WHERE o.id = d.id AND (d.fits OR d.fills)
  RETURNING o.id, o.notification_id, o.recipient, o.channel, o.type, o.status, d.fits, d.detail,
    CASE WHEN NOT d.fits THEN 'lease_lost' WHEN d.cancels THEN 'cancelled' ELSE d.kind END AS kind
), logged AS (
  INSERT INTO sendoff_event (at, outgoing_id, notification_id, recipient, channel, type, kind, detail)
  SELECT statement_timestamp(), id, notification_id, recipient, channel, type, kind,
    CASE WHEN fits THEN detail ELSE json '{{"sent": true}}' END FROM updated
  UNION ALL
  SELECT statement_timestamp(), o.id, o.notification_id, o.recipient, o.channel, o.type, 'lease_lost',
    json_build_object('sent', d.kind = 'sent', 'verdict', d.verdict, 'claim_count', d.claim_count)
  FROM decided d JOIN sendoff_outgoing o ON o.id = d.id WHERE d.lost AND NOT d.fits AND NOT d.fills
)
SELECT id, status, kind FROM updated WHERE fits
"""
_SETTLE_POSTGRESQL = sa.text(_POSTGRESQL)


def settle_postgresql(connection: Connection, verdicts: Sequence[Settle]) -> list[Settled]:
    """Write a batch in which no id stands twice. One round trip; the caller commits or is in autocommit."""
    found = connection.execute(_SETTLE_POSTGRESQL, {"rows": dumps([verdict.record() for verdict in verdicts])}).all()
    applied = {id: Settled(id, "applied", status, kind) for id, status, kind in found}
    return [applied.get(verdict.id) or Settled(verdict.id, "lost") for verdict in verdicts]


_LOAD_SQLITE = sa.text("""
SELECT id, status, claim_count, requeue_count, claimed_until IS NOT NULL, cancel_requested_at IS NOT NULL,
  sent_at IS NULL, provider_ref IS NULL
FROM sendoff_outgoing WHERE id IN (SELECT value FROM json_each(:ids))
""")
# For the driver itself: SQLAlchemy would look at every parameter of every row.
_APPLY_SQLITE = """
UPDATE sendoff_outgoing SET
  status = :status, verdict = coalesce(:verdict, verdict),
  reason = CASE WHEN :keeps_reason THEN reason ELSE :reason END,
  provider_ref = coalesce(:provider_ref, provider_ref), progress = coalesce(:progress, progress),
  attempt_count = attempt_count + :counted, try_count = try_count + :tried,
  lost_leases = CASE WHEN :resets THEN 0 ELSE lost_leases END, claimed_until = NULL, claimed_by = NULL,
  due_at = CASE WHEN :moves_due THEN :now + :delay ELSE due_at END,
  next_attempt_at = CASE WHEN :status <> 'pending' THEN NULL ELSE coalesce(:now + :delay, due_at) END,
  sent_at = CASE WHEN :kind = 'sent' THEN coalesce(sent_at, :now) ELSE sent_at END,
  finished_at = CASE WHEN :status <> 'pending' THEN :now ELSE finished_at END,
  payload = CASE WHEN :status <> 'pending' AND sensitive THEN '{}' ELSE payload END
WHERE id = :id
"""
_FILL_SQLITE = """
UPDATE sendoff_outgoing SET sent_at = coalesce(sent_at, :now), provider_ref = coalesce(provider_ref, :provider_ref)
WHERE id = :id
"""
_EVENT_SQLITE = """
INSERT INTO sendoff_event (at, outgoing_id, notification_id, recipient, channel, type, kind, detail)
SELECT :now, id, notification_id, recipient, channel, type, :kind, :detail FROM sendoff_outgoing WHERE id = :id
"""
_NOW_SQLITE = sa.text("SELECT sendoff_now()")


def settle_sqlite(connection: Connection, verdicts: Sequence[Settle]) -> list[Settled]:
    """As :func:`settle_postgresql`, inside one BEGIN IMMEDIATE."""
    now = connection.execute(_NOW_SQLITE).scalar_one()
    ids = dumps([verdict.id for verdict in verdicts])
    rows = {row[0]: row[1:] for row in connection.execute(_LOAD_SQLITE, {"ids": ids})}
    applied: list[dict[str, Any]] = []
    filled: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    answers: list[Settled] = []
    for verdict in verdicts:
        record = verdict.record()
        key = record["id"] = str(verdict.id)
        found = rows.get(key)
        what = _fence(record, found)
        detail = record.pop("detail")
        if what == "applied" and found is not None:
            _for_sqlite(record, now, cancels=bool(found[4]) and _cancels(record))
            applied.append(record)
            events.append({"id": key, "now": now, "kind": record["kind"], "detail": detail and dumps(detail)})
            answers.append(Settled(verdict.id, "applied", record["status"], record["kind"]))
            continue
        answers.append(Settled(verdict.id, "lost"))
        if what == "fills":
            filled.append({"id": key, "now": now, "provider_ref": record["provider_ref"]})
            events.append({"id": key, "now": now, "kind": "lease_lost", "detail": dumps({"sent": True})})
        elif what == "lost":
            lost = {
                "sent": record["kind"] == "sent",
                "verdict": record["verdict"],
                "claim_count": verdict.claim_count,
            }
            events.append({"id": key, "now": now, "kind": "lease_lost", "detail": dumps(lost)})
    for statement, parameters in ((_APPLY_SQLITE, applied), (_FILL_SQLITE, filled), (_EVENT_SQLITE, events)):
        if parameters:
            connection.exec_driver_sql(statement, parameters)
    return answers


def _fence(record: dict[str, Any], found: Sequence[Any] | None) -> Literal["applied", "fills", "lost", "nothing"]:
    if found is None:
        return "nothing"
    status, claim_count, requeue_count, leased, _, sent_at_null, ref_null = found
    is_sent = record["kind"] == "sent" and requeue_count == record["requeue_count"]
    holds = bool(leased) and claim_count == record["claim_count"]
    if status == "pending" and (holds or is_sent):
        return "applied"
    fills = sent_at_null or (ref_null and record["provider_ref"] is not None)
    if status not in {"pending", "waiting"} and is_sent and fills:
        return "fills"
    return "lost" if claim_count != record["claim_count"] and record["kind"] != "released" else "nothing"


def _cancels(record: dict[str, Any]) -> bool:
    return bool(record["kind"] != "sent" and record["verdict"] != "no_target")


def _for_sqlite(record: dict[str, Any], now: int, *, cancels: bool) -> None:
    record["now"] = now
    record["resets"] = record["status"] == "pending" or record["verdict"] is not None
    record["keeps_reason"] = record["kind"] == "released" and not cancels
    record["delay"] = None if record["delay"] is None else round(record["delay"] * 1_000_000)
    record["progress"] = None if record["progress"] is None else dumps(record["progress"])
    if cancels:
        record["status"] = record["kind"] = "cancelled"
        record["reason"] = ": ".join(filter(None, ["cancelled", record["reason"]]))
