"""What the three sources of the demo's accounts say, in words that all three can be translated into."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

__all__ = ["Outcome", "Promise", "Row", "Writing"]

#: ``written``: the channel has it. ``no_target``: there is no address, or none that anybody could have.
Outcome: TypeAlias = Literal["written", "no_target"]


@frozen
class Promise:
    """First source, the CSV: this order has to end like this on this channel."""

    order: str
    channel: str
    recipient: str
    outcome: Outcome
    #: Where it has to arrive; for the inbox the recipient.
    to: str | None


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
