"""Who works here: the sendoff_worker rows. For people, never for logic."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import Connection

from sendoff.store.sql import db_now, plus
from sendoff.tables import worker

__all__ = ["arrive", "leave", "still_here"]

#: Rows of workers that died without a word are dropped after a day.
FORGET = 86_400.0


def arrive(connection: Connection, id: UUID, host: str, pid: int, version: str, channels: Sequence[str]) -> None:
    """A worker starts."""
    connection.execute(worker.delete().where(worker.c.seen_at < plus(db_now(), -FORGET)))
    connection.execute(
        worker.insert().values(
            id=id,
            host=host,
            pid=pid,
            version=version,
            channels=list(channels),
            started_at=db_now(),
            seen_at=db_now(),
        )
    )


def still_here(connection: Connection, id: UUID) -> None:
    """A sign of life."""
    connection.execute(sa.update(worker).where(worker.c.id == id).values(seen_at=db_now()))


def leave(connection: Connection, id: UUID) -> None:
    """A worker stops."""
    connection.execute(worker.delete().where(worker.c.id == id))
