"""Deliveries and a context as the core would make them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
import uuid_utils

from sendoff.plugin import Context, Delivery, Sent
from sendoff.settings import Settings
from sendoff_inbox import inbox
from sendoff_inbox.inbox import Entry
from sendoff_inbox.plugin import InboxChannel


def uuid7() -> UUID:
    return UUID(bytes=uuid_utils.uuid7().bytes)


def delivery(recipient: str = "u1", *, outgoing_id: UUID | None = None, **payload: Any) -> Delivery:
    key = outgoing_id or uuid7()
    return Delivery(
        id=key,
        notification_id=uuid4(),
        recipient=recipient,
        channel="inbox",
        type="order.shipped",
        payload=payload or {"title": "On its way"},
        idempotency_key=str(key),
        created_at=datetime.now(UTC),
        deadline=time.monotonic() + 20,
    )


def context_for(engine: Callable[[], sa.Engine], **channels: dict[str, Any]) -> Context:
    return Context(Settings.load({"channels": channels}, environ={}), engine)


def arrive(channel: InboxChannel, *titles: str, recipient: str = "u1", **payload: Any) -> list[Delivery]:
    """Entries with these titles, oldest first, written as a worker does."""
    rows = [delivery(recipient, title=title, **payload) for title in titles]
    assert [Sent()] * len(rows) == list(channel.send_many(rows))
    return rows


def titles(entries: Iterable[Entry]) -> list[str | None]:
    return [entry.title for entry in entries]


class Feed:
    """A recipient's feed: ``feed.list()`` is ``inbox.list("u1", db)``, committed."""

    def __init__(self, engine: sa.Engine, recipient: str) -> None:
        self._engine = engine
        self._recipient = recipient

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with self._engine.begin() as db:
                return getattr(inbox, name)(self._recipient, db, *arguments, **named)

        return call
