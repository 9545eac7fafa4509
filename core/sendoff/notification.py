"""What applications hand in (:class:`Notification`), what they get back, and what a channel receives."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import partial
from typing import Any, Literal, TypeAlias
from uuid import UUID

from attrs import field, frozen

from sendoff.errors import InvalidNotification, nearest
from sendoff.jsonsafe import check_json, check_text

__all__ = ["Delivery", "Enqueued", "EnqueuedRow", "Notification", "Priority", "Rejected", "Step", "When"]

#: Longest recipient, type, channel and key: they are index columns, and PostgreSQL refuses entries over 2,704 bytes.
MAX_KEY = 512
MAX_KEY_BYTES = 1024
#: Moments and sums of them that both databases and Python can tell.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
LONGEST_SPAN = timedelta(days=36_525)

#: The payload's version travels inside it; a worker that knows only older ones releases the row.
PAYLOAD_VERSION_KEY = "$v"

When: TypeAlias = Literal["finished", "sent", "no_target", "dead", "unseen"]
WHENS: tuple[When, ...] = ("finished", "sent", "no_target", "dead", "unseen")


class Priority(IntEnum):
    """The lane a row waits in. Lower is sooner; bulk keeps a share so that it never starves."""

    URGENT = 0
    NORMAL = 1
    BULK = 2


def _key_text(value: object, name: str) -> str:
    text = check_text(value, name)
    if not text.strip():
        raise InvalidNotification(name, "is empty; give the id the application knows it by", value=value)
    if len(text) > MAX_KEY or (not text.isascii() and len(text.encode()) > MAX_KEY_BYTES):
        raise InvalidNotification(
            name,
            f"is {len(text)} characters ({len(text.encode())} bytes); the limit is {MAX_KEY} ({MAX_KEY_BYTES})",
            kind="str",
        )
    return text


def _moment(value: object, name: str) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidNotification(name, "must be a datetime with a time zone", value=value)
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidNotification(
            name, "has no time zone; use datetime.now(timezone.utc) or .astimezone()", kind="naive datetime"
        )
    if not EARLIEST <= value <= LATEST:
        raise InvalidNotification(name, f"must lie between {EARLIEST.year} and {LATEST.year}", value=value)
    return value


def _span(value: object, name: str) -> timedelta | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            value = timedelta(seconds=value)
        except (ValueError, OverflowError):
            raise InvalidNotification(name, "is not a usable number of seconds", value=value) from None
    if not isinstance(value, timedelta):
        raise InvalidNotification(name, "must be a timedelta or a number of seconds", value=value)
    if value < timedelta():
        raise InvalidNotification(name, "is negative", value=value)
    if value > LONGEST_SPAN:
        raise InvalidNotification(name, "is more than 100 years; leave it out", value=value)
    return value


@frozen
class Step:
    """One channel of a notification that waits for another one.

    ``after`` names the predecessor channel of the same notification, ``when`` which outcome releases this step
    (``finished, sent, no_target, dead, unseen``), ``delay`` how long after the predecessor's end it becomes due.
    Without ``after`` the channel goes at once, also beside one that leads.
    """

    channel: str
    after: str | None = None
    when: When = "finished"
    delay: timedelta = timedelta()

    def __attrs_post_init__(self) -> None:
        _key_text(self.channel, "channels.channel")
        if self.after is not None:
            _key_text(self.after, "channels.after")
        if self.when not in WHENS:
            guess = nearest(str(self.when), WHENS)
            known = ", ".join(WHENS)
            raise InvalidNotification(
                "channels.when", f"{self.when!r} is not one of {known}" + (f"; {guess!r}?" if guess else "")
            )
        delay = _span(self.delay, "channels.delay")
        object.__setattr__(self, "delay", delay if delay is not None else timedelta())
        if self.after is None and self.delay:
            raise InvalidNotification(
                "channels.delay", "needs after=, the channel it counts from; to wait for a time, use not_before"
            )
        if self.after is None and self.when != "finished":
            raise InvalidNotification("channels.when", "needs after=, the channel whose outcome it means")


@frozen(kw_only=True, hash=False)
class Notification:
    """What an application wants one recipient to know.

    Everything is checked here, before a database is touched: :class:`~sendoff.InvalidNotification` names the field,
    the value's kind and the way out.

    ``channels`` are names or :class:`Step`; None takes the settings' default. ``data`` is JSON for the client,
    ``options[channel]`` is channel-specific content which that channel's ``prepare`` checks. ``addresses[channel]``
    overrides the look-up. ``dedup_key`` is unique per recipient and channel. ``ttl`` counts from the due time.
    ``sensitive`` blanks the stored payload once the row is final. ``meta`` (locale, tenant, traceparent) travels along.
    """

    recipient: str
    type: str
    channels: Sequence[str | Step] | None = None
    title: str | None = None
    body: str | None = None
    data: Mapping[str, Any] = field(factory=dict, repr=False)
    options: Mapping[str, Mapping[str, Any]] = field(factory=dict, repr=False)
    addresses: Mapping[str, Sequence[str]] = field(factory=dict, repr=False)
    dedup_key: str | None = None
    collapse_key: str | None = None
    priority: Priority = Priority.NORMAL
    not_before: datetime | None = None
    expires_at: datetime | None = None
    ttl: timedelta | None = None
    sensitive: bool = False
    meta: Mapping[str, Any] = field(factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        _key_text(self.recipient, "recipient")
        _key_text(self.type, "type")
        if self.dedup_key is not None:
            _key_text(self.dedup_key, "dedup_key")
        if self.collapse_key is not None:
            _key_text(self.collapse_key, "collapse_key")
        if self.title is not None:
            check_text(self.title, "title")
        if self.body is not None:
            check_text(self.body, "body")
        put("channels", _channels(self.channels))
        put("data", _object(self.data, "data"))
        put("options", _object(self.options, "options"))
        for name, options in self.options.items():
            _object(options, f"options.{name}")
        put("addresses", _addresses(self.addresses))
        put("meta", _object(self.meta, "meta"))
        put("priority", _priority(self.priority))
        _moment(self.not_before, "not_before")
        _moment(self.expires_at, "expires_at")
        if self.ttl is not None:
            put("ttl", _span(self.ttl, "ttl"))
        if self.ttl is not None and self.expires_at is not None:
            raise InvalidNotification("ttl", "is given together with expires_at; give one of them", value=self.ttl)
        if self.ttl == timedelta():
            raise InvalidNotification("ttl", "is zero: it would expire before its first try", value=self.ttl)
        if self.not_before and self.expires_at and self.expires_at <= self.not_before:
            raise InvalidNotification("expires_at", "is not later than not_before", value=self.expires_at)
        if not isinstance(self.sensitive, bool):
            raise InvalidNotification("sensitive", "must be True or False", value=self.sensitive)


def _channels(value: object) -> tuple[str | Step, ...] | None:
    if value is None:
        return None
    if isinstance(value, str | Step):
        raise InvalidNotification("channels", f'must be a list; write ["{value}"]', value=value)
    if not isinstance(value, Iterable):
        raise InvalidNotification("channels", "must be a list of channel names or steps", value=value)
    channels = tuple(value)
    if not channels:
        raise InvalidNotification("channels", "is empty; name at least one, or None for the default", value=value)
    names: set[str] = set()
    for index, channel in enumerate(channels):
        if not isinstance(channel, Step):
            _key_text(channel, f"channels[{index}]")
        name = channel.channel if isinstance(channel, Step) else channel
        if name in names:
            raise InvalidNotification(f"channels[{index}]", f"names {name!r} a second time", value=channel)
        names.add(name)
    return channels


def _object(value: object, name: str) -> dict[str, Any]:
    if value == {}:
        return {}
    if type(value) is not dict and not isinstance(value, Mapping):
        raise InvalidNotification(name, "must be a mapping", value=value)
    checked: dict[str, Any] = check_json(value, name)
    return checked


def _addresses(value: object) -> dict[str, list[str]]:
    if value == {}:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidNotification("addresses", 'must map channels to lists, {"email": ["a@example.org"]}', value=value)
    checked: dict[str, list[str]] = {}
    for channel, addresses in value.items():
        name = f"addresses.{channel}"
        _key_text(channel, "addresses (key)")
        if isinstance(addresses, str) or not isinstance(addresses, Sequence):
            raise InvalidNotification(name, "must be a list of addresses", value=addresses)
        checked[channel] = [check_text(address, f"{name}[{index}]") for index, address in enumerate(addresses)]
    return checked


def _priority(value: object) -> Priority:
    if isinstance(value, str):
        try:
            return Priority[value.upper()]
        except KeyError:
            pass
    elif isinstance(value, int) and not isinstance(value, bool):
        try:
            return Priority(value)
        except ValueError:
            pass
    raise InvalidNotification("priority", "must be a Priority: URGENT (0), NORMAL (1) or BULK (2)", value=value)


@frozen
class EnqueuedRow:
    """What became of one channel of a notification."""

    channel: str
    outcome: Literal["created", "duplicate", "suppressed"]
    outgoing_id: UUID | None
    reason: str | None = None


@frozen
class Enqueued:
    """The answer of ``enqueue``: one row for each channel, in the order asked for."""

    notification_id: UUID
    rows: tuple[EnqueuedRow, ...]

    def row(self, channel: str) -> EnqueuedRow:
        """The row of ``channel``; KeyError where the notification did not go there."""
        for row in self.rows:
            if row.channel == channel:
                return row
        raise KeyError(channel)


@frozen
class Rejected:
    """The answer of ``enqueue_many`` for a notification that could never be delivered: nothing was written for it."""

    index: int
    field: str
    error: str


@frozen(eq=False, kw_only=True, slots=False)  # without slots, a frozen class is made in half the time
class Delivery:
    """A leased row as a channel sees it. Its repr omits the payload and the addresses.

    ``idempotency_key`` is the same for every try and new after a requeue. ``attempt`` counts from 1. ``progress`` is
    what the channel's last ``Retryable`` left. Times come from the database's clock at the claim and run on by a
    monotonic clock: no channel needs a wall clock.
    """

    id: UUID
    notification_id: UUID
    recipient: str
    channel: str
    type: str
    payload: Mapping[str, Any] = field(repr=False)
    addresses: Sequence[str] = field(default=(), repr=False)
    attempt: int = 1
    idempotency_key: str = ""
    collapse_key: str | None = None
    priority: Priority = Priority.NORMAL
    progress: Mapping[str, Any] | None = field(default=None, repr=False)
    meta: Mapping[str, Any] = field(factory=dict, repr=False)
    created_at: datetime
    deadline: float = field(repr=False)
    expiry: float | None = field(default=None, repr=False)

    def remaining(self) -> float:
        """Seconds until the channel's answer is no longer waited for; never negative."""
        return max(0.0, self.deadline - time.monotonic())

    def ttl(self) -> float | None:
        """Seconds until the row expires, 0.0 when it has, None when it never does."""
        return None if self.expiry is None else max(0.0, self.expiry - time.monotonic())
