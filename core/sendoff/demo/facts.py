"""What the sources of the demo's accounts say, in words that all of them can be translated into."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

__all__ = ["Device", "Outcome", "Phone", "Promise", "Request", "Row", "Writing"]

#: ``written``: the channel has it. ``no_target``: there is no address, or none that anybody could have.
Outcome: TypeAlias = Literal["written", "no_target"]


@frozen
class Promise:
    """First source, the CSV: this order has to end like this on this channel."""

    order: str
    channel: str
    recipient: str
    outcome: Outcome
    #: Where it has to arrive, at each of them; for the inbox the recipient.
    to: tuple[str, ...]


@frozen
class Writing:
    """Second source, the channel: this is what it has, and where to look."""

    order: str
    channel: str
    to: str
    #: The id of the outgoing row, and the idempotency key, as the channel was given them.
    row: str
    key: str
    place: str


@frozen
class Row:
    """Third source, the outgoing table and its events."""

    id: str
    order: str
    channel: str
    recipient: str
    status: str
    verdict: str | None
    #: How many verdicts it got.
    tries: int
    #: Leases that ended without a verdict or a release, and answers that were not waited for: after each, the channel
    #: may have the message although nobody could record it.
    doubts: int
    #: As often, at most, the channel was called for it: without an address it is not.
    calls: int
    #: Failures that used its budget.
    counted: int = 0


@frozen
class Request:
    """Fourth source, the local FCM: one request that it read, and whether the phone has the message."""

    token: str
    status: int | None
    accepted: bool
    order: str
    row: str
    key: str
    place: str


@frozen
class Phone:
    """First source, devices.csv: whose it is, and what FCM has to say of it (``code`` where it is refused)."""

    token: str
    owner: str
    state: Literal["live", "dead", "replaced"]
    code: str | None


@frozen
class Device:
    """The table of devices: ``reason`` where it is not active."""

    token: str
    owner: str
    reason: str | None
