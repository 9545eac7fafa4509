"""Deliveries and a context as the core would make them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
import uuid_utils

from sendoff.plugin import Context, Delivery
from sendoff.settings import Settings


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
