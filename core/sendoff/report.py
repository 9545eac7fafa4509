"""What sendoff tells about itself: rows, timelines, counts. Plain values, ready for a table or for JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from attrs import field, frozen

__all__ = [
    "ChannelStatus",
    "CheckItem",
    "DrainReport",
    "EventView",
    "FetchReport",
    "FetcherStatus",
    "OutgoingView",
    "PluginView",
    "Status",
    "WorkerStatus",
]


@frozen(kw_only=True)
class OutgoingView:
    """One outgoing row. ``state`` is the status as people know it: pending rows show as due, scheduled, retrying or
    leased."""

    id: UUID
    notification_id: UUID
    broadcast_id: UUID | None
    channel: str
    recipient: str
    type: str
    priority: int
    status: str
    state: str
    attempt_count: int
    try_count: int
    claim_count: int
    lost_leases: int
    requeue_count: int
    first_due_at: datetime | None
    due_at: datetime | None
    next_attempt_at: datetime | None
    claimed_until: datetime | None
    claimed_by: str | None
    cancel_requested_at: datetime | None
    verdict: str | None
    reason: str | None
    provider_ref: str | None
    dedup_key: str | None
    collapse_key: str | None
    expires_at: datetime | None
    after_id: UUID | None
    after_when: str | None
    created_at: datetime
    sent_at: datetime | None
    delivered_at: datetime | None
    opened_at: datetime | None
    read_at: datetime | None
    finished_at: datetime | None
    #: Filled by ``show`` only.
    events: tuple[EventView, ...] = ()


@frozen(kw_only=True)
class EventView:
    """One entry of a row's timeline."""

    at: datetime
    kind: str
    detail: dict[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class ChannelStatus:
    """One channel's queue. Counts are rows; ``oldest_due`` is seconds since the oldest due row became due."""

    name: str
    loaded: bool
    due: int = 0
    scheduled: int = 0
    retrying: int = 0
    leased: int = 0
    waiting: int = 0
    sent: int = 0
    delivered: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    oldest_due: float | None = None
    paused: str | None = None
    paused_until: datetime | None = None
    #: Workers seen within the last 30 seconds that serve it.
    workers: int = 0
    #: A sentence where something needs a person: nobody serves it, its plugin is missing.
    warning: str | None = None


@frozen(kw_only=True)
class WorkerStatus:
    """One worker process; ``seen`` is seconds since its last sign of life."""

    id: UUID
    host: str
    pid: int
    version: str
    channels: tuple[str, ...]
    started_at: datetime
    seen: float


@frozen(kw_only=True)
class FetcherStatus:
    """One fetcher's last run and its next."""

    name: str
    loaded: bool
    next_run_at: datetime | None = None
    last_started_at: datetime | None = None
    last_finished_at: datetime | None = None
    last_error: str | None = None
    last_enqueued: int | None = None
    last_rejected: int | None = None
    running: bool = False


@frozen(kw_only=True)
class Status:
    """The whole of ``sendoff status``."""

    now: datetime
    channels: tuple[ChannelStatus, ...]
    workers: tuple[WorkerStatus, ...]
    fetchers: tuple[FetcherStatus, ...]
    broken_plugins: tuple[PluginView, ...]


@frozen(kw_only=True)
class PluginView:
    """One plugin as ``sendoff plugins`` shows it; ``error`` is why a broken one was not loaded."""

    name: str
    source: str
    version: str | None = None
    channels: tuple[str, ...] = ()
    fetchers: tuple[str, ...] = ()
    error: str | None = None


@frozen(kw_only=True)
class CheckItem:
    """One line of ``sendoff doctor``. ``level`` is ok, warning or error; ``hint`` is the way out."""

    name: str
    level: str
    message: str
    hint: str | None = None


@frozen(kw_only=True)
class DrainReport:
    """What a drain did. ``tries`` is the number of verdicts; ``remaining`` due rows were left when it stopped."""

    tries: int = 0
    sent: int = 0
    no_target: int = 0
    retried: int = 0
    dead: int = 0
    outage: int = 0
    released: int = 0
    cancelled: int = 0
    expired: int = 0
    lost: int = 0
    remaining: int = 0


@frozen(kw_only=True)
class FetchReport:
    """What one run of a fetcher did. ``ran`` is False where another worker holds it or it is not due."""

    name: str
    ran: bool
    pages: int = 0
    enqueued: int = 0
    duplicates: int = 0
    rejected: int = 0
    #: The first rejections, as ``field: problem``.
    problems: tuple[str, ...] = ()
    error: str | None = None
