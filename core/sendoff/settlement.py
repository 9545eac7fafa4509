"""What became of a row at the end of a try, as observers see it."""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

__all__ = ["Settlement"]


@frozen
class Settlement:
    """One verdict as it was recorded. ``status`` is the row's after the write, ``kind`` the event's."""

    outgoing_id: UUID
    notification_id: UUID
    recipient: str
    channel: str
    type: str
    status: str
    kind: str
    reason: str | None
