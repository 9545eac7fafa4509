"""What the demo says in the end, as plain values: for the tables and for ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import frozen

from sendoff.demo.accounts import Accounts
from sendoff.report import OutgoingView

__all__ = ["Kill", "Lines", "Outage", "Push", "Report"]


@frozen(kw_only=True)
class Lines:
    """What became of the lines of orders.csv."""

    total: int
    #: Without an order id: nothing can be promised about them. Each is named in ``problems`` of the load.
    unusable: int
    #: Replaced by a later line of the same order.
    replaced: int
    orders: int
    unusable_lines: tuple[str, ...]


@frozen(kw_only=True)
class Kill:
    """The worker that was killed."""

    worker: str
    pid: int
    at: datetime
    #: The rows that it had leased, by the database, while it was frozen for the look; then it was killed.
    held: tuple[str, ...]
    #: How many of them are final now.
    recovered: int
    #: Messages that a channel has twice because of the kill.
    repeats: int


@frozen(kw_only=True)
class Outage:
    """FCM was down."""

    seconds: float
    #: Requests that it answered with 503, the rows they were for, and how many of these used their budget.
    requests: int
    rows: int
    paid: int


@frozen(kw_only=True)
class Push:
    """The devices, and what FCM's own log has."""

    devices: int
    #: Of these: take what they are sent; refused by FCM for good; replaced by another token of the same installation.
    live: int
    refused: int
    replaced: int
    #: Devices that were deactivated because FCM refused them; the others' owners were not told of anything.
    deactivated: int
    unusable_lines: tuple[str, ...]
    #: Requests in the log, and those that were accepted.
    requests: int
    accepted: int
    outage: Outage | None


@frozen(kw_only=True)
class Report:
    """All of it."""

    balanced: bool
    #: What does not balance, one sentence each; empty when everything does.
    problems: tuple[str, ...]
    seconds: float
    database: str
    #: None where it was removed.
    folder: str | None
    lines: Lines
    #: Every order in exactly one place.
    orders: Mapping[str, int]
    accounts: Accounts
    kill: Kill | None
    #: None where there is no push channel.
    push: Push | None
    #: The row whose timeline is shown.
    example: OutgoingView | None
