"""An entry of the feed, as it comes out of either database through any driver."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from attrs import frozen

__all__ = ["Entry", "entry_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen(kw_only=True)
class Entry:
    """One notification as its recipient sees it.

    ``id`` grows with the order of the feed; ``outgoing_id`` and ``notification_id`` are what other channels of the
    same notification carry, so that a push that is tapped finds its entry. ``options`` are ``icon``, ``image`` and
    ``actions``, those that were given. Moments are UTC, by the database's clock. ``attrs.asdict(entry)`` is what a
    JSON encoder that knows uuids and moments (orjson, FastAPI's) takes.
    """

    id: UUID
    outgoing_id: UUID
    notification_id: UUID
    recipient: str
    type: str
    title: str | None
    body: str | None
    data: dict[str, Any] | None
    link: str | None
    options: dict[str, Any] | None
    created_at: datetime
    seen_at: datetime | None
    read_at: datetime | None
    archived_at: datetime | None


def entry_of(row: Sequence[Any]) -> Entry:
    """From the columns in the order of the attributes: ids and JSON as text, moments as microseconds since 1970."""
    id, outgoing_id, notification_id, recipient, type, title, body, data, link, options, *moments = row
    created_at, seen_at, read_at, archived_at = map(_moment, moments)
    assert created_at is not None  # the column is not null
    return Entry(
        id=UUID(id),
        outgoing_id=UUID(outgoing_id),
        notification_id=UUID(notification_id),
        recipient=recipient,
        type=type,
        title=title,
        body=body,
        data=None if data is None else orjson.loads(data),
        link=link,
        options=None if options is None else orjson.loads(options),
        created_at=created_at,
        seen_at=seen_at,
        read_at=read_at,
        archived_at=archived_at,
    )


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=int(micros))
