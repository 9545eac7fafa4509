"""What people do to rows: cancel and requeue. Each state change is one named function."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa
from attrs import field, frozen
from sqlalchemy import ColumnElement, Connection

from sendoff.store.events import append_events
from sendoff.store.sql import db_now, plus
from sendoff.tables import outgoing
from sendoff.types import aware

__all__ = ["CancelOutcome", "RequeueFilter", "cancel", "requeue", "requeueable"]

REQUEUE_CHUNK = 1000


@frozen
class CancelOutcome:
    """The honest answer for one row: ``cancelled``; ``in_flight``, a worker holds it, so the provider may accept it
    yet (any other outcome ends it as cancelled); ``final``, it had ended before."""

    outgoing_id: UUID
    channel: str
    outcome: Literal["cancelled", "in_flight", "final"]
    status: str


def cancel(connection: Connection, notification_id: UUID) -> list[CancelOutcome]:
    """Cancel every row of a notification that has not ended."""
    row = outgoing.c
    mine = row.notification_id == notification_id
    found = sa.select(row.id).where(mine).order_by(row.id).with_for_update()
    ids = list(connection.scalars(found))
    cancelled = list(
        connection.scalars(
            outgoing.update()
            .where(row.id.in_(ids), row.status.in_(["pending", "waiting"]), row.claimed_until.is_(None))
            .values(
                status="cancelled",
                reason="cancelled on request",
                finished_at=db_now(),
                next_attempt_at=None,
                payload=sa.case((row.sensitive, sa.literal({}, row.payload.type)), else_=row.payload),
            )
            .returning(row.id)
        )
    )
    append_events(connection, cancelled, "cancelled", {"reason": "cancelled on request"})
    in_flight = list(
        connection.scalars(
            outgoing.update()
            .where(row.id.in_(ids), row.status == "pending", row.claimed_until.is_not(None))
            .values(cancel_requested_at=sa.func.coalesce(row.cancel_requested_at, db_now()))
            .returning(row.id)
        )
    )
    outcomes = []
    for id, channel, status in connection.execute(
        sa.select(row.id, row.channel, row.status).where(row.id.in_(ids)).order_by(row.id)
    ):
        outcome: Literal["cancelled", "in_flight", "final"] = (
            "cancelled" if id in cancelled else "in_flight" if id in in_flight else "final"
        )
        outcomes.append(CancelOutcome(id, channel, outcome, status))
    return outcomes


@frozen(kw_only=True)
class RequeueFilter:
    """Which dead, cancelled or expired rows to requeue; the conditions add up. ``reason`` is a part of the text,
    ``since`` the moment from which they ended, ``ttl`` new seconds to live (required for expired rows)."""

    ids: Sequence[UUID] | None = None
    channel: str | None = None
    verdict: str | None = None
    reason: str | None = None
    since: datetime | None = field(default=None, validator=aware)
    ttl: float | None = None

    def where(self) -> list[ColumnElement[bool]]:
        """As conditions on the outgoing table."""
        row = outgoing.c
        expired = sa.and_(row.expires_at.is_not(None), row.expires_at <= db_now())
        conditions: list[ColumnElement[bool]] = [
            sa.or_(
                row.status == "dead",
                sa.and_(row.status == "expired", sa.literal(self.ttl is not None)),
                sa.and_(row.status == "cancelled", sa.func.coalesce(row.reason, "") != "step_not_needed"),
            ),
            sa.or_(sa.literal(self.ttl is not None), ~expired),
            # A sensitive payload was blanked when its row ended: there is nothing left to send.
            ~row.sensitive,
        ]
        if self.ids is not None:
            conditions.append(row.id.in_(list(self.ids)))
        else:
            conditions.append(row.status.in_(["dead"] if self.ttl is None else ["dead", "expired"]))
        if self.channel is not None:
            conditions.append(row.channel == self.channel)
        if self.verdict is not None:
            conditions.append(row.verdict == self.verdict)
        if self.reason is not None:
            conditions.append(row.reason.icontains(self.reason, autoescape=True))
        if self.since is not None:
            conditions.append(row.finished_at >= self.since)
        return conditions


def requeueable(connection: Connection, chosen: RequeueFilter) -> int:
    """How many rows :func:`requeue` would requeue now."""
    return connection.scalar(sa.select(sa.func.count()).select_from(outgoing).where(*chosen.where())) or 0


def requeue(connection: Connection, chosen: RequeueFilter) -> list[UUID]:
    """Give up to 1,000 of the chosen rows a new life: a full budget, a new idempotency key, due now."""
    row = outgoing.c
    # As a CTE it is run once; a plain subselect may be run again for each row, with other rows within its limit.
    first = sa.select(row.id).where(*chosen.where()).order_by(row.id).limit(REQUEUE_CHUNK)
    picked = first.with_for_update(skip_locked=True).cte("picked")
    values: dict[str, Any] = {
        "status": "pending",
        "attempt_count": 0,
        "try_count": 0,
        "lost_leases": 0,
        "requeue_count": row.requeue_count + 1,
        "verdict": None,
        "reason": None,
        "progress": None,
        "finished_at": None,
        "cancel_requested_at": None,
        "claimed_until": None,
        "claimed_by": None,
        "first_due_at": db_now(),
        "due_at": db_now(),
        "next_attempt_at": db_now(),
    }
    if chosen.ttl is not None:
        values["expires_at"] = plus(db_now(), chosen.ttl)
    ids = list(
        connection.scalars(
            outgoing.update()
            .where(row.id.in_(sa.select(picked.c.id)), *chosen.where())
            .values(**values)
            .returning(row.id)
        )
    )
    append_events(connection, ids, "requeued")
    return ids
