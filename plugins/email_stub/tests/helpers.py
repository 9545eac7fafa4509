"""Deliveries as the core would make them, and messages as a mail reader sees them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any
from uuid import UUID

from sendoff.plugin import Delivery
from sendoff_email_stub.plugin import EmailStubChannel, EmailStubConfig

OUTGOING = UUID("01890000-0000-7000-8000-000000000001")
NOTIFICATION = UUID("01890000-0000-7000-8000-000000000002")


def delivery(*addresses: str, attempt: int = 1, key: str = str(OUTGOING), **payload: Any) -> Delivery:
    return Delivery(
        id=OUTGOING,
        notification_id=NOTIFICATION,
        recipient="u1",
        channel="email",
        type="order.shipped",
        payload={"text": "x", **payload},
        addresses=addresses,
        attempt=attempt,
        idempotency_key=key,
        created_at=datetime(2026, 12, 1, 9, 30, tzinfo=UTC),
        deadline=time.monotonic() + 20,
    )


def channel(directory: Path, **config: Any) -> EmailStubChannel:
    return EmailStubChannel("email", EmailStubConfig(directory=directory, **config))


def read(message: bytes) -> EmailMessage:
    parsed = message_from_bytes(message, policy=SMTP)
    assert isinstance(parsed, EmailMessage)
    return parsed
