"""Reading: one row, many rows, the counts of ``sendoff status``. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from attrs import evolve, field, frozen
from sqlalchemy import ColumnElement, Connection

from sendoff.errors import NotFound
from sendoff.report import EventView, FetcherStatus, OutgoingView, WorkerStatus
from sendoff.store.channels import paused
from sendoff.store.sql import db_now, seconds_between
from sendoff.tables import event, fetcher, outgoing, worker
from sendoff.types import aware

__all__ = [
    "RowFilter",
    "channel_counts",
    "database_now",
    "due_rows",
    "fetchers",
    "find_rows",
    "find_rows_by_id",
    "show",
    "timeline",
    "workers",
]

SEEN_WITHIN = 30.0
_VIEW = [outgoing.c[attribute.name] for attribute in OutgoingView.__attrs_attrs__ if attribute.name in outgoing.c]


@frozen(kw_only=True)
class RowFilter:
    """Conditions that add up; ``before`` is the id of the last row of the page before."""

    recipient: str | None = None
    status: str | None = None
    verdict: str | None = None
    channel: str | None = None
    type: str | None = None
    since: datetime | None = field(default=None, validator=aware)
    notification_id: UUID | None = None
    before: UUID | None = None
    limit: int = 50

    def where(self) -> list[ColumnElement[bool]]:
        """As conditions on the outgoing table."""
        row = outgoing.c
        names = ("recipient", "status", "verdict", "channel", "type", "notification_id")
        conditions = [row[name] == getattr(self, name) for name in names if getattr(self, name) is not None]
        if self.since is not None:
            conditions.append(row.created_at >= self.since)
        if self.before is not None:
            conditions.append(row.id < self.before)
        return conditions


def _state() -> ColumnElement[str]:
    """The status as people know it."""
    row = outgoing.c
    pending = sa.case(
        (row.claimed_until > db_now(), "leased"),
        (row.try_count > 0, "retrying"),
        (row.next_attempt_at > db_now(), "scheduled"),
        else_="due",
    )
    return sa.case((row.status == "pending", pending), else_=row.status)


def find_rows(connection: Connection, chosen: RowFilter) -> list[OutgoingView]:
    """Rows, newest first."""
    query = sa.select(*_VIEW, _state().label("state")).where(*chosen.where())
    found = connection.execute(query.order_by(outgoing.c.id.desc()).limit(chosen.limit))
    return [OutgoingView(**dict(row._mapping)) for row in found]


def find_rows_by_id(connection: Connection, ids: list[UUID]) -> dict[UUID, OutgoingView]:
    """Rows by their id; unknown ids are left out."""
    query = sa.select(*_VIEW, _state().label("state")).where(outgoing.c.id.in_(ids))
    return {row.id: OutgoingView(**dict(row._mapping)) for row in connection.execute(query)}


def timeline(connection: Connection, outgoing_id: UUID) -> tuple[EventView, ...]:
    """A row's events, oldest first."""
    row = event.c
    found = connection.execute(
        sa.select(row.at, row.kind, row.detail).where(row.outgoing_id == outgoing_id).order_by(row.id)
    )
    return tuple(EventView(at=at, kind=kind, detail=detail or {}) for at, kind, detail in found)


def database_now(connection: Connection) -> datetime:
    """The database's clock."""
    now: datetime = connection.execute(sa.select(db_now())).scalar_one()
    return now


def channel_counts(connection: Connection) -> dict[str, dict[str, Any]]:
    """For each channel that has rows or a pause: rows by state, ``oldest_due`` in seconds, and the pause."""
    state = _state().label("state")
    found = connection.execute(
        sa.select(
            outgoing.c.channel,
            state,
            sa.func.count(),
            sa.func.max(seconds_between(outgoing.c.next_attempt_at, db_now())),
            sa.func.sum(sa.case((outgoing.c.next_attempt_at <= db_now(), 1), else_=0)),
        ).group_by(outgoing.c.channel, state)
    )
    counts: dict[str, dict[str, Any]] = {}
    for channel, name, number, age, overdue in found:
        row = counts.setdefault(channel, {"oldest_due": None})
        row[name] = number
        row["overdue"] = row.get("overdue", 0) + (overdue or 0 if name in {"due", "retrying"} else 0)
        # A retry whose time has come waits like any due row.
        if name in {"due", "retrying"} and overdue and age is not None:
            row["oldest_due"] = max(row["oldest_due"] or 0.0, age)
    for channel, (reason, left) in paused(connection).items():
        counts.setdefault(channel, {"oldest_due": None})["paused"] = (reason, left)
    return counts


def workers(connection: Connection) -> list[WorkerStatus]:
    """Workers seen lately, the most recent first."""
    row = worker.c
    age = seconds_between(row.seen_at, db_now()).label("age")
    found = connection.execute(
        sa.select(row.id, row.host, row.pid, row.version, row.channels, row.started_at, age)
        .where(age < SEEN_WITHIN)
        .order_by(age, row.id)
    )
    return [
        WorkerStatus(
            id=id,
            host=host or "",
            pid=pid or 0,
            version=version or "",
            channels=tuple(channels or ()),
            started_at=started,
            seen=seen,
        )
        for id, host, pid, version, channels, started, seen in found
    ]


def fetchers(connection: Connection) -> Mapping[str, FetcherStatus]:
    """Every fetcher that has ever run here."""
    row = fetcher.c
    found = connection.execute(
        sa.select(
            row.name,
            row.next_run_at,
            row.last_started_at,
            row.last_finished_at,
            row.last_error,
            row.last_enqueued,
            row.last_rejected,
            sa.func.coalesce(row.claimed_until > db_now(), sa.false()).label("running"),
        ).order_by(row.name)
    )
    return {row.name: FetcherStatus(loaded=False, **{**row._mapping, "running": bool(row.running)}) for row in found}


def show(connection: Connection, outgoing_id: UUID) -> OutgoingView:
    """One row with its timeline; :class:`~sendoff.errors.NotFound` where there is none."""
    found = find_rows_by_id(connection, [outgoing_id])
    if outgoing_id not in found:
        raise NotFound("outgoing row", outgoing_id)
    return evolve(found[outgoing_id], events=timeline(connection, outgoing_id))


def due_rows(counts: Mapping[str, Any]) -> int:
    """Rows of one channel's counts whose time has come."""
    return int(counts.get("overdue", 0))
