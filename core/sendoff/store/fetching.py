"""The sendoff_fetcher rows: the schedule, the lease and the cursor of each fetcher."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from attrs import frozen
from sqlalchemy import Connection

from sendoff.store.sql import db_now, plus, seconds_between
from sendoff.tables import fetcher

__all__ = [
    "FetchLease",
    "advance",
    "begin",
    "ensure_fetcher",
    "fail",
    "finish",
    "hand_over",
    "page_was_saved",
    "saved_cursor",
]


@frozen
class FetchLease:
    """A worker's claim on one run. ``page_no`` and ``claim_count`` fence each page."""

    name: str
    cursor: Any
    page_no: int
    claim_count: int
    now: datetime
    tick: datetime


def ensure_fetcher(connection: Connection, name: str) -> None:
    """Make the row where it is missing; the first run is due at once."""
    if connection.scalar(sa.select(sa.exists().where(fetcher.c.name == name))):
        return
    with connection.begin_nested() as savepoint:
        try:
            connection.execute(fetcher.insert().values(name=name, next_run_at=db_now()))
        except sa.exc.IntegrityError:
            savepoint.rollback()


def begin(connection: Connection, name: str, *, lease: float, force: bool = False) -> FetchLease | None:
    """Lease the run that is due; None where it is not due or another worker has it. ``force`` runs before its time."""
    row = fetcher.c
    is_free = sa.or_(row.claimed_until.is_(None), row.claimed_until < db_now())
    is_due = sa.or_(row.next_run_at.is_(None), row.next_run_at <= db_now(), sa.literal(force))
    found = connection.execute(
        fetcher.update()
        .where(row.name == name, is_free, is_due)
        .values(claimed_until=plus(db_now(), lease), claim_count=row.claim_count + 1, last_started_at=db_now())
        .returning(row.cursor, row.page_no, row.claim_count, row.last_started_at, row.next_run_at)
    ).one_or_none()
    if found is None:
        return None
    cursor, page_no, claim_count, now, due = found
    return FetchLease(name, cursor, page_no, claim_count, now, due if due is not None and not force else now)


def advance(connection: Connection, lease: FetchLease, page_no: int, cursor: Any, *, seconds: float) -> bool:
    """Save the cursor behind a page, in the page's own transaction, and extend the lease. False where the lease was
    lost or the page was committed before: the caller rolls its page back."""
    row = fetcher.c
    saved = connection.execute(
        fetcher.update()
        .where(row.name == lease.name, row.claim_count == lease.claim_count, row.page_no == page_no)
        .values(cursor=cursor, page_no=page_no + 1, claimed_until=plus(db_now(), seconds))
    )
    return saved.rowcount == 1


def page_was_saved(connection: Connection, lease: FetchLease, page_no: int) -> bool:
    """Whether a page whose commit's answer was lost is in."""
    row = fetcher.c
    return bool(
        connection.scalar(
            sa.select(
                sa.exists().where(
                    row.name == lease.name, row.claim_count == lease.claim_count, row.page_no == page_no + 1
                )
            )
        )
    )


def finish(connection: Connection, lease: FetchLease, *, every: float, enqueued: int, rejected: int) -> None:
    """End a run well. The next tick keeps the rhythm of the last one; ticks missed meanwhile are one run."""
    row = fetcher.c
    late = seconds_between(sa.func.coalesce(row.next_run_at, db_now()), db_now())
    on_time = plus(row.next_run_at, every)
    connection.execute(
        fetcher.update()
        .where(row.name == lease.name, row.claim_count == lease.claim_count)
        .values(
            claimed_until=None,
            failures=0,
            last_finished_at=db_now(),
            last_error=None,
            last_enqueued=enqueued,
            last_rejected=rejected,
            next_run_at=sa.case(
                (late < 0, row.next_run_at),  # a run before its time, which moves no tick
                (sa.or_(row.next_run_at.is_(None), late >= every), plus(db_now(), every)),
                else_=on_time,
            ),
        )
    )


def hand_over(connection: Connection, lease: FetchLease) -> None:
    """Give up the lease between two pages; the run is due at once and resumes at the saved cursor."""
    row = fetcher.c
    connection.execute(
        fetcher.update()
        .where(row.name == lease.name, row.claim_count == lease.claim_count)
        .values(claimed_until=None, next_run_at=db_now())
    )


def fail(connection: Connection, lease: FetchLease, *, error: str, delay: float) -> None:
    """End a run badly: its pages stay, the rest is tried again after ``delay`` seconds."""
    row = fetcher.c
    connection.execute(
        fetcher.update()
        .where(row.name == lease.name, row.claim_count == lease.claim_count)
        .values(
            claimed_until=None,
            failures=row.failures + 1,
            last_finished_at=db_now(),
            last_error=error,
            next_run_at=plus(db_now(), delay),
        )
    )


def saved_cursor(connection: Connection, name: str) -> Any:
    """The cursor of the last committed page; None before the first."""
    return connection.execute(sa.select(fetcher.c.cursor).where(fetcher.c.name == name)).scalar_one_or_none()
