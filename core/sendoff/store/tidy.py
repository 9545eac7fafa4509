"""Tidying: what becomes due or final by time or by a predecessor's end, without a try."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa
from attrs import frozen
from sqlalchemy import ColumnElement, Connection

from sendoff.store.events import append_events
from sendoff.store.sql import db_now, plus
from sendoff.tables import FINAL, outgoing

__all__ = ["Tidied", "expire", "resolve_steps", "tidy"]

LIMIT = 1000
STEP_NOT_NEEDED = "step_not_needed"


@frozen
class Tidied:
    """What a tidy did: rows expired, steps released and cancelled, the channels that have new due rows, and whether
    more was left over."""

    expired: int = 0
    released: int = 0
    cancelled: int = 0
    channels: frozenset[str] = frozenset()
    more: bool = False
    waiting: bool = False


def tidy(connection: Connection, after: Sequence[UUID] | None = None) -> Tidied:
    """Expire what is past its time and resolve the steps whose predecessor is final; with ``after`` only the steps
    behind those rows."""
    expired = 0 if after is not None else expire(connection)
    released, cancelled, channels = resolve_steps(connection, after)
    more = expired == LIMIT or released + cancelled == LIMIT
    waiting = bool(connection.scalar(sa.select(sa.exists().where(outgoing.c.status == "waiting"))))
    return Tidied(expired, released, cancelled, channels, more, waiting)


def expire(connection: Connection) -> int:
    """Pending and waiting rows past ``expires_at`` become expired, on paused channels too. A leased row is left to the
    verdict of its try."""
    row = outgoing.c
    chosen = (
        sa.select(row.id)
        .where(
            row.status.in_(["pending", "waiting"]),
            row.expires_at <= db_now(),
            sa.or_(row.claimed_until.is_(None), row.claimed_until < db_now()),
        )
        .limit(LIMIT)
        .with_for_update(skip_locked=True)
        # As a CTE it is run once; a plain subselect may be run again for each row, with other rows within its limit.
        .cte("chosen")
    )
    ids = _ids(
        connection,
        outgoing.update()
        .where(row.id.in_(sa.select(chosen.c.id)), row.status.in_(["pending", "waiting"]))
        .values(
            status="expired",
            reason="expired before it could be sent",
            finished_at=db_now(),
            next_attempt_at=None,
            claimed_until=None,
            claimed_by=None,
            payload=_blanked(),
        ),
    )
    append_events(connection, ids, "expired")
    return len(ids)


def resolve_steps(connection: Connection, after: Sequence[UUID] | None = None) -> tuple[int, int, frozenset[str]]:
    """Waiting rows whose predecessor is final become pending, or cancelled where the outcome is another than theirs."""
    row, before = outgoing.c, outgoing.alias("predecessor")
    found = (
        sa.select(row.id, row.channel, _wanted(before).label("wanted"))
        .select_from(outgoing.outerjoin(before, before.c.id == row.after_id))
        .where(row.status == "waiting", sa.or_(before.c.id.is_(None), before.c.status.in_(FINAL)))
        .limit(LIMIT)
        .with_for_update(skip_locked=True, of=outgoing)
    )
    if after is not None:
        found = found.where(row.after_id.in_(after))
    steps = connection.execute(found).all()
    go = [id for id, _, wanted in steps if wanted]
    drop = [id for id, _, wanted in steps if not wanted]
    if go:
        ended = sa.select(before.c.finished_at).where(before.c.id == row.after_id).scalar_subquery()
        released = plus(sa.func.coalesce(ended, db_now()), sa.func.coalesce(row.after_delay, 0.0))
        due = sa.case((row.due_at > released, row.due_at), else_=released)
        connection.execute(
            outgoing.update()
            .where(row.id.in_(go), row.status == "waiting")
            .values(status="pending", first_due_at=due, due_at=due, next_attempt_at=due)
        )
    if drop:
        connection.execute(
            outgoing.update()
            .where(row.id.in_(drop), row.status == "waiting")
            .values(
                status="cancelled",
                reason=STEP_NOT_NEEDED,
                finished_at=db_now(),
                next_attempt_at=None,
                payload=_blanked(),
            )
        )
        append_events(connection, drop, "cancelled", {"reason": STEP_NOT_NEEDED})
    return len(go), len(drop), frozenset(channel for _, channel, wanted in steps if wanted)


def _wanted(before: sa.FromClause) -> ColumnElement[bool]:
    """Whether the predecessor ended the way the step waits for. A pruned predecessor counts as finished."""
    row, end = outgoing.c, before.c
    no_target = sa.func.coalesce(end.verdict, "") == "no_target"
    sibling = outgoing.alias("sibling")
    seen = sa.exists().where(
        sibling.c.notification_id == row.notification_id,
        sa.or_(sibling.c.opened_at.is_not(None), sibling.c.read_at.is_not(None)),
    )
    return sa.case(
        (row.after_when == "sent", sa.and_(end.status.in_(["sent", "delivered"]), ~no_target)),
        (row.after_when == "no_target", no_target),
        (row.after_when == "dead", sa.and_(end.status.in_(["dead", "expired"]), ~no_target)),
        (row.after_when == "unseen", ~seen),
        else_=sa.true(),
    )


def _blanked() -> ColumnElement[str]:
    """A sensitive payload does not outlive its row's end."""
    row = outgoing.c
    return sa.case((row.sensitive, sa.literal({}, row.payload.type)), else_=row.payload)


def _ids(connection: Connection, update: sa.Update) -> list[UUID]:
    return list(connection.scalars(update.returning(outgoing.c.id)))
