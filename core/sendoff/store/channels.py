"""The sendoff_channel rows: pauses, the breaker, and who is listening."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy import Connection

from sendoff.breaker import Breaker
from sendoff.store.sql import db_now, plus, seconds_between
from sendoff.tables import channel

__all__ = ["close_breaker", "ensure_channels", "keep_listening", "open_breaker", "paused"]

#: A listener's flag is written this far ahead, whenever less than ``LISTEN_LEFT`` of it is left. Seconds.
LISTEN_AHEAD = 1.5
LISTEN_LEFT = 1.0


def ensure_channels(connection: Connection, names: Iterable[str]) -> None:
    """Make the rows of these channels where they are missing."""
    for name in sorted(names):
        missing = ~sa.exists().where(channel.c.name == name)
        found = sa.select(sa.literal(name)).where(missing)
        with connection.begin_nested() as savepoint:
            try:
                connection.execute(channel.insert().from_select(["name"], found))
            except sa.exc.IntegrityError:
                savepoint.rollback()


def keep_listening(connection: Connection, names: Iterable[str]) -> None:
    """Say that a worker wants to be notified of new rows on these channels; nobody ever clears it."""
    ahead = plus(db_now(), LISTEN_LEFT)
    connection.execute(
        channel.update()
        .where(
            channel.c.name.in_(list(names)),
            sa.or_(channel.c.listening_until.is_(None), channel.c.listening_until < ahead),
        )
        .values(listening_until=plus(db_now(), LISTEN_AHEAD))
    )


def open_breaker(connection: Connection, name: str, breaker: Breaker, reason: str) -> bool:
    """Pause the channel; False where it is open already, so that ninety outages in flight move the level once."""
    changed = connection.execute(
        channel.update()
        .where(
            channel.c.name == name,
            sa.or_(channel.c.breaker_until.is_(None), channel.c.breaker_until <= db_now()),
        )
        .values(
            breaker_level=channel.c.breaker_level + 1,
            breaker_until=plus(db_now(), _pause(breaker)),
            breaker_reason=reason,
        )
    )
    return changed.rowcount > 0


def _pause(breaker: Breaker) -> sa.ColumnElement[float]:
    """The pause for the row's own level: doubling from the first to the longest, never below the floor."""
    levels = breaker.pauses()
    return sa.case(dict(enumerate(levels)), value=channel.c.breaker_level, else_=levels[-1])


def close_breaker(connection: Connection, name: str) -> None:
    """The channel answers again."""
    connection.execute(
        channel.update()
        .where(channel.c.name == name, channel.c.breaker_level > 0)
        .values(breaker_level=0, breaker_until=None, breaker_reason=None, probe_until=None, probe_token=None)
    )


def paused(connection: Connection) -> dict[str, tuple[str, float | None]]:
    """Channels that are paused now: the reason for people, and seconds left (None until resumed)."""
    row = channel.c
    by_people = sa.and_(row.paused_by.is_not(None), sa.or_(row.paused_until.is_(None), row.paused_until > db_now()))
    by_breaker = row.breaker_until > db_now()
    found = connection.execute(
        sa.select(
            row.name,
            by_people,
            row.paused_by,
            row.pause_reason,
            seconds_between(db_now(), row.paused_until),
            row.breaker_reason,
            seconds_between(db_now(), row.breaker_until),
        ).where(sa.or_(by_people, by_breaker))
    )
    answer: dict[str, tuple[str, float | None]] = {}
    for name, people, by, why, left, breaker_reason, breaker_left in found:
        if people:
            answer[name] = (f"paused by {by}" + (f": {why}" if why else ""), left)
        else:
            answer[name] = (f"outage: {breaker_reason}", breaker_left)
    return answer
