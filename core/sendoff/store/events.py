"""Appending events for rows that a statement of ours has just changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import Connection

from sendoff.store.sql import db_now
from sendoff.tables import event, outgoing

__all__ = ["append_events"]

CHUNK = 1000


def append_events(connection: Connection, ids: Iterable[UUID], kind: str, detail: dict[str, Any] | None = None) -> None:
    """One event of ``kind`` for each row."""
    todo = list(ids)
    columns = ["at", "outgoing_id", "notification_id", "recipient", "channel", "type", "kind", "detail"]
    row = outgoing.c
    for start in range(0, len(todo), CHUNK):
        chosen = sa.select(
            db_now(),
            row.id,
            row.notification_id,
            row.recipient,
            row.channel,
            row.type,
            sa.literal(kind),
            sa.literal(detail, event.c.detail.type),
        ).where(row.id.in_(todo[start : start + CHUNK]))
        connection.execute(event.insert().from_select(columns, chosen))
