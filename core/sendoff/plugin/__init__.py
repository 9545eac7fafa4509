"""What plugin authors import, and all they need to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sendoff.errors import InvalidNotification, SecretError
from sendoff.limits import Limits, Retry
from sendoff.notification import Delivery, Notification, Priority
from sendoff.plugin.channel import BatchChannel, Channel, classify_error
from sendoff.plugin.context import Context
from sendoff.plugin.fetcher import FetchContext, Fetcher, Page
from sendoff.plugin.hookspecs import Migrations, hookimpl
from sendoff.secret import Secret, scrub
from sendoff.settlement import Settlement
from sendoff.types import Json, UtcTime, Uuid
from sendoff.verdict import (
    NoTarget,
    Outage,
    Permanent,
    Retryable,
    Sent,
    Verdict,
    http_verdict,
    retry_after,
)

if TYPE_CHECKING:
    from sendoff.store.connections import Executor, executor_for

__all__ = [
    "BatchChannel",
    "Channel",
    "Context",
    "Delivery",
    "Executor",
    "FetchContext",
    "Fetcher",
    "InvalidNotification",
    "Json",
    "Limits",
    "Migrations",
    "NoTarget",
    "Notification",
    "Outage",
    "Page",
    "Permanent",
    "Priority",
    "Retry",
    "Retryable",
    "Secret",
    "SecretError",
    "Sent",
    "Settlement",
    "UtcTime",
    "Uuid",
    "Verdict",
    "classify_error",
    "executor_for",
    "hookimpl",
    "http_verdict",
    "retry_after",
    "scrub",
]


def __getattr__(name: str) -> Any:
    # For plugins with functions that applications call in a transaction of theirs; channels need no store to load.
    if name in {"Executor", "executor_for"}:
        from sendoff.store import connections

        return getattr(connections, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
