"""What a try told us: exactly one of five verdicts, and the helpers that read one off an HTTP answer.

A verdict says what happened; what it means for the row is decided in :mod:`sendoff.policy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

from attrs import field, frozen

from sendoff.jsonsafe import as_text

__all__ = [
    "RETRY_AFTER_CAP",
    "NoTarget",
    "Outage",
    "Permanent",
    "Retryable",
    "Sent",
    "Verdict",
    "http_verdict",
    "retry_after",
]

RETRY_AFTER_CAP = timedelta(hours=24)


def _span(value: timedelta | float | None) -> timedelta | None:
    """Seconds are welcome where a timedelta is meant."""
    return value if value is None or isinstance(value, timedelta) else timedelta(seconds=value)


# A channel may put anything into a verdict, an exception as its reason for one. What it knows is still recorded.


def _text(value: str) -> str:
    return value if type(value) is str else as_text(value)


def _optional_text(value: str | None) -> str | None:
    return None if value is None else _text(value)


def _mapping(value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    given: Any = value
    return given if given is None or isinstance(given, Mapping) else {"value": given}


@frozen(hash=False)
class Sent:
    """At least one address accepted. ``provider_ref`` is the provider's own id, ``details`` goes into the event."""

    provider_ref: str | None = field(default=None, converter=_optional_text)
    details: Mapping[str, Any] | None = field(default=None, converter=_mapping)


@frozen(hash=False)
class NoTarget:
    """The recipient cannot be reached on this channel (no address, or none that still works). Never retried."""

    reason: str = field(converter=_text)
    details: Mapping[str, Any] | None = field(default=None, converter=_mapping)


@frozen(hash=False)
class Retryable:
    """Not accepted now, perhaps later.

    ``retry_after`` is a floor under the backoff (capped at 24 h). ``maybe_sent`` says that the provider may have
    accepted it (a timeout after the request was written). ``counts=False`` is for failures that speak about the
    provider and not about this message: the row waits, its budget untouched. ``progress`` is the channel's memo for
    the next try and must be JSON.
    """

    reason: str = field(converter=_text)
    retry_after: timedelta | None = field(default=None, converter=_span)
    maybe_sent: bool = field(default=False, converter=bool)
    counts: bool = field(default=True, converter=bool)
    progress: Mapping[str, Any] | None = field(default=None, converter=_mapping)
    details: Mapping[str, Any] | None = field(default=None, converter=_mapping)


@frozen(hash=False)
class Permanent:
    """This message will never be accepted: the row is dead."""

    reason: str = field(converter=_text)
    details: Mapping[str, Any] | None = field(default=None, converter=_mapping)


@frozen(hash=False)
class Outage:
    """The channel is down or misconfigured: it pauses and no row pays for it."""

    reason: str = field(converter=_text)
    retry_after: timedelta | None = field(default=None, converter=_span)
    details: Mapping[str, Any] | None = field(default=None, converter=_mapping)


Verdict: TypeAlias = Sent | NoTarget | Retryable | Permanent | Outage


def retry_after(headers: Mapping[str, str], *, now: datetime | None = None) -> timedelta | None:
    """The ``Retry-After`` header (RFC 9110 section 10.2.3: seconds or an HTTP date), or None where absent or absurd.

    ``now`` is only needed for dates; where it is not given, the answer's own ``Date`` header is used, so that no
    local clock enters the decision. Never negative, never above 24 h.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    raw = lowered.get("retry-after", "").strip()
    if not raw:
        return None
    if raw.isascii() and raw.isdigit():
        seconds = float(raw) if len(raw) < 12 else RETRY_AFTER_CAP.total_seconds()
        return min(timedelta(seconds=min(seconds, RETRY_AFTER_CAP.total_seconds())), RETRY_AFTER_CAP)
    until = _http_date(raw)
    since = now or _http_date(lowered.get("date", ""))
    if until is None or since is None:
        return None
    if since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    return min(max(until - since, timedelta()), RETRY_AFTER_CAP)


def _http_date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


HTTP_REQUEST_TIMEOUT = 408
HTTP_TOO_EARLY = 425
HTTP_TOO_MANY = 429
#: The address is gone for good (RFC 9110 section 15.5.11).
HTTP_GONE = 410
#: Our credential, our plan or our URL is wrong; every other message would meet the same answer.
HTTP_OURS = {401, 402, 403, 404, 405, 407}


def http_verdict(status: int, headers: Mapping[str, str] | None = None, text: str = "") -> Verdict:
    """The verdict that an HTTP answer deserves when the provider's documentation says nothing better.

    2xx is sent; 410 no target; 408, 425, 429 and 5xx speak about the provider and do not use the budget; 401, 402,
    403, 404, 405, 407 and redirects are our own misconfiguration and an outage; every other 4xx is this message's
    fault and permanent. ``text`` is quoted in the reason, at most 200 characters of it.
    """
    headers = headers or {}
    quoted = " ".join(text.split())[:200]
    reason = f"HTTP {status}: {quoted}" if quoted else f"HTTP {status}"
    if 200 <= status < 300:
        return Sent()
    if status == HTTP_GONE:
        return NoTarget(reason)
    if status in {HTTP_REQUEST_TIMEOUT, HTTP_TOO_EARLY, HTTP_TOO_MANY} or status >= 500:
        return Retryable(reason, retry_after=retry_after(headers), counts=False)
    if status in HTTP_OURS or 300 <= status < 400:
        return Outage(reason, retry_after=retry_after(headers))
    if 400 <= status < 500:
        return Permanent(reason)
    return Retryable(f"{reason}: not an HTTP status", maybe_sent=True)
