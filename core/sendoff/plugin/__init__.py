"""What plugin authors import, and all they need to."""

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

__all__ = [
    "BatchChannel",
    "Channel",
    "Context",
    "Delivery",
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
    "hookimpl",
    "http_verdict",
    "retry_after",
    "scrub",
]
