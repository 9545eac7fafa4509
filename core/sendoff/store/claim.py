"""The claim: one statement that finds whose turn it is and leases it. The claim predicate is also the recovery: a
lease that ran out is simply due again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from attrs import define, field, frozen
from sqlalchemy import Connection

from sendoff.jsonsafe import dumps, loads
from sendoff.store.sql import db_now, plus, seconds_between
from sendoff.tables import outgoing
from sendoff.types import from_micros

__all__ = [
    "LANES",
    "ClaimRequest",
    "Claimed",
    "Positions",
    "claim_postgresql",
    "claim_sqlite",
    "held_by",
    "lane_order",
    "take_given",
]

LANES = (0, 1, 2)
_FIRST = (from_micros(0), UUID(int=0))


def lane_order(turn: int) -> tuple[int, ...]:
    """The order in which the ``turn``-th claim looks at the lanes: of every ten, the 8th starts with normal and the
    10th with bulk, so that neither starves under constant urgent load."""
    match turn % 10:
        case 7:
            return (1, 0, 2)
        case 9:
            return (2, 0, 1)
        case _:
            return LANES


# Not frozen: attrs sets each field of a frozen class through a call, and one is made for every row.
@define(eq=False)
class Claimed:
    """A leased row, as the claim returned it. ``now`` is the database's clock at the claim and ``first_due_at`` a
    moment on it, in seconds since 1970; ``expires_in`` is seconds from ``now``."""

    id: UUID
    notification_id: UUID
    channel: str
    recipient: str
    type: str
    payload: dict[str, Any] = field(repr=False)
    addresses: list[str] | None = field(repr=False)
    meta: dict[str, Any] | None = field(repr=False)
    priority: int
    attempt_count: int
    try_count: int
    claim_count: int
    lost_leases: int
    requeue_count: int
    collapse_key: str | None
    progress: dict[str, Any] | None = field(repr=False)
    cancel_requested: bool
    created_at: Any
    first_due_at: float
    expires_in: float | None
    now: float
    position: tuple[Any, UUID]


@define
class Positions:
    """A worker's keyset position in each lane of one channel: it does not step again over the dead index entries of
    rows that it has finished."""

    at: dict[int, tuple[Any, UUID]] = field(factory=dict)

    def of(self, lane: int) -> tuple[Any, UUID]:
        """Where to look on from; the start, when nothing was claimed yet."""
        return self.at.get(lane, _FIRST)

    def rewind(self) -> None:
        """Look from the start again."""
        self.at.clear()

    def advance(self, rows: Sequence[Claimed]) -> None:
        """Move behind the rows just claimed, which are in order. A find before the position moves it back there."""
        self.at.update({row.priority: row.position for row in rows})


@frozen(kw_only=True)
class ClaimRequest:
    """What to claim. ``lease`` in seconds; ``positions`` None looks from the start; ``unleased_only`` leaves rows whose
    lease ran out to the verdicts that may still be on their way."""

    channel: str
    limit: int
    lease: float
    claimed_by: str
    lanes: tuple[int, ...] = LANES
    positions: Positions | None = None
    unleased_only: bool = False


_PLAIN = (
    *("id", "notification_id", "channel", "recipient", "type", "payload", "addresses", "meta", "priority"),
    *("attempt_count", "try_count", "claim_count", "lost_leases", "requeue_count", "collapse_key", "progress"),
)
_RETURNED = ", ".join((*_PLAIN, "cancel_requested_at"))

# The LATERAL ranges under one outer LIMIT, in a MATERIALIZED CTE, lock exactly what they return. `= any(array(...))`
# keeps the update on the primary key whatever the statistics say; a join there flips to a sequential scan.
_POSTGRESQL = """
WITH due AS MATERIALIZED (
  SELECT o.id, o.next_attempt_at
  FROM (VALUES
    (CAST(:lane0 AS smallint), CAST(:at0 AS timestamptz), CAST(:id0 AS uuid)),
    (CAST(:lane1 AS smallint), CAST(:at1 AS timestamptz), CAST(:id1 AS uuid)),
    (CAST(:lane2 AS smallint), CAST(:at2 AS timestamptz), CAST(:id2 AS uuid))
  ) AS l(lane, after_at, after_id)
  CROSS JOIN LATERAL (
    SELECT q.id, q.next_attempt_at
    FROM sendoff_outgoing q
    WHERE q.status = 'pending' AND q.channel = :channel AND q.priority = l.lane
      AND (q.next_attempt_at, q.id) > (l.after_at, l.after_id)
      AND q.next_attempt_at <= statement_timestamp()
      AND (q.expires_at IS NULL OR q.expires_at > statement_timestamp())
      AND (NOT :unleased_only OR q.claimed_until IS NULL)
      AND NOT EXISTS (
        SELECT FROM sendoff_channel c WHERE c.name = :channel AND (
          (c.paused_by IS NOT NULL AND (c.paused_until IS NULL OR c.paused_until > statement_timestamp()))
          OR c.breaker_until > statement_timestamp()))
    ORDER BY q.next_attempt_at, q.id
    LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
  ) AS o
  LIMIT :limit
), claimed AS (
  UPDATE sendoff_outgoing o SET
    claimed_until = statement_timestamp() + :lease * interval '1 second',
    next_attempt_at = statement_timestamp() + :lease * interval '1 second',
    claim_count = o.claim_count + 1,
    lost_leases = o.lost_leases + CASE WHEN o.claimed_until IS NULL THEN 0 ELSE 1 END,
    claimed_by = :claimed_by
  WHERE o.id = ANY(ARRAY(SELECT id FROM due))
  RETURNING o.id, o.notification_id, o.channel, o.recipient, o.type, CAST(o.payload AS text) AS payload,
    CAST(o.addresses AS text) AS addresses, CAST(o.meta AS text) AS meta, o.priority, o.attempt_count, o.try_count,
    o.claim_count, o.lost_leases, o.requeue_count, o.collapse_key, CAST(o.progress AS text) AS progress,
    o.cancel_requested_at IS NOT NULL AS cancel_requested, o.created_at,
    CAST(extract(epoch FROM o.first_due_at) AS double precision) AS first_due_at,
    CAST(extract(epoch FROM o.expires_at - statement_timestamp()) AS double precision) AS expires_in,
    CAST(extract(epoch FROM statement_timestamp()) AS double precision) AS now
)
SELECT c.*, d.next_attempt_at FROM claimed c JOIN due d ON d.id = c.id
"""
_CLAIM_POSTGRESQL = sa.text(_POSTGRESQL)


def claim_postgresql(connection: Connection, request: ClaimRequest) -> list[Claimed]:
    """Lease up to ``request.limit`` rows, in the order of lanes and then due time."""
    parameters: dict[str, Any] = {
        "channel": request.channel,
        "limit": request.limit,
        "lease": request.lease,
        "claimed_by": request.claimed_by,
        "unleased_only": request.unleased_only,
    }
    positions = request.positions or Positions()
    for index, lane in enumerate(request.lanes):
        at, id = positions.of(lane)
        parameters |= {f"lane{index}": lane, f"at{index}": at, f"id{index}": id}
    rows = [
        _claimed(
            *row[:5],
            loads(row[5]),
            None if row[6] is None else loads(row[6]),
            None if row[7] is None else loads(row[7]),
            *row[8:15],
            None if row[15] is None else loads(row[15]),
            row[16],
            row[17].astimezone(UTC),
            *row[18:21],
            (row[21], row[0]),
        )
        for row in connection.execute(_CLAIM_POSTGRESQL, parameters).all()
    ]
    return _in_order(rows, request.lanes)


_DUE_SQLITE = sa.text("""
SELECT id, next_attempt_at FROM sendoff_outgoing
WHERE status = 'pending' AND channel = :channel AND priority = :lane AND next_attempt_at <= :now
  AND (expires_at IS NULL OR expires_at > :now) AND (NOT :unleased_only OR claimed_until IS NULL)
ORDER BY next_attempt_at, id LIMIT :limit
""")
_OPEN_SQLITE = sa.text("""
SELECT sendoff_now(), NOT EXISTS (
  SELECT 1 FROM sendoff_channel c WHERE c.name = :channel AND (
    (c.paused_by IS NOT NULL AND (c.paused_until IS NULL OR c.paused_until > sendoff_now()))
    OR c.breaker_until > sendoff_now()))
""")
_LEASE_SQLITE = sa.text(f"""
UPDATE sendoff_outgoing SET claimed_until = :now + :lease, next_attempt_at = :now + :lease,
  claim_count = claim_count + 1, lost_leases = lost_leases + (claimed_until IS NOT NULL), claimed_by = :claimed_by
WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING {_RETURNED}, created_at, first_due_at, expires_at
""")


def claim_sqlite(connection: Connection, request: ClaimRequest) -> list[Claimed]:
    """As :func:`claim_postgresql`, inside one BEGIN IMMEDIATE. Positions are not needed: finished rows leave no dead
    index entries behind."""
    now, is_open = connection.execute(_OPEN_SQLITE, {"channel": request.channel}).one()
    if not is_open:
        return []
    due: dict[str, int] = {}
    for lane in request.lanes:
        left = request.limit - len(due)
        if left > 0:
            parameters = {"channel": request.channel, "lane": lane, "now": now, "limit": left}
            found = connection.execute(_DUE_SQLITE, {**parameters, "unleased_only": request.unleased_only})
            due.update((id, at) for id, at in found)
    if not due:
        return []
    lease = round(request.lease * 1_000_000)
    parameters = {"now": now, "lease": lease, "claimed_by": request.claimed_by, "ids": dumps(list(due))}
    rows = [
        _claimed(
            UUID(row[0]),
            UUID(row[1]),
            *row[2:5],
            loads(row[5]),
            None if row[6] is None else loads(row[6]),
            None if row[7] is None else loads(row[7]),
            *row[8:15],
            None if row[15] is None else loads(row[15]),
            row[16] is not None,
            from_micros(row[17]),
            row[18] / 1e6,
            None if row[19] is None else (row[19] - now) / 1e6,
            now / 1e6,
            (from_micros(due[row[0]]), UUID(row[0])),
        )
        for row in connection.execute(_LEASE_SQLITE, parameters)
    ]
    return _in_order(rows, request.lanes)


def _claimed(*values: Any) -> Claimed:
    """From the columns of a statement, which have no types."""
    return Claimed(*values)


def _in_order(rows: list[Claimed], lanes: Sequence[int]) -> list[Claimed]:
    rank = {lane: index for index, lane in enumerate(lanes)}
    # By the ids' numbers: UUIDs compare in Python, one call for each pair.
    rows.sort(key=lambda row: (rank[row.priority], row.position[0], row.position[1].int))
    return rows


def take_given(connection: Connection, ids: Sequence[UUID], claimed_by: str, leases: dict[str, float]) -> list[Claimed]:
    """Lease these rows where they are due and free, for a first try at once. ``leases`` is seconds by channel."""
    row = outgoing.c
    free = sa.or_(row.claimed_until.is_(None), row.claimed_until < db_now())
    taken: list[UUID] = []
    for channel, lease in leases.items():
        until = plus(db_now(), lease)
        taken += connection.scalars(
            outgoing.update()
            .where(
                row.id.in_(list(ids)),
                row.channel == channel,
                row.status == "pending",
                row.next_attempt_at <= db_now(),
                sa.or_(row.expires_at.is_(None), row.expires_at > db_now()),
                free,
            )
            .values(
                claimed_until=until,
                next_attempt_at=until,
                claim_count=row.claim_count + 1,
                lost_leases=row.lost_leases + sa.case((row.claimed_until.is_(None), 0), else_=1),
                claimed_by=claimed_by,
            )
            .returning(row.id)
        )
    return held_by(connection, taken, claimed_by)


def held_by(connection: Connection, ids: Sequence[UUID], claimed_by: str) -> list[Claimed]:
    """The rows among ``ids`` that ``claimed_by`` holds, such as those it inserted already leased."""
    row = outgoing.c
    plain = [row[name] for name in _PLAIN]
    found = connection.execute(
        sa.select(
            *plain,
            row.cancel_requested_at.is_not(None),
            row.created_at,
            row.first_due_at,
            seconds_between(db_now(), row.expires_at),
            db_now(),
            row.next_attempt_at,
        )
        .where(row.id.in_(list(ids)), row.claimed_by == claimed_by, row.claimed_until.is_not(None))
        .order_by(row.priority, row.id)
    )
    size = len(plain)
    return [
        _claimed(
            *one[: size + 2],
            one[size + 2].timestamp(),
            one[size + 3],
            one[size + 4].timestamp(),
            (one[size + 5], one[0]),
        )
        for one in found
    ]
