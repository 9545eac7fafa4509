"""The first source: what the CSV says must happen, by rules of its own.

Nothing here is shared with the example's loader, its fetcher or a channel: an agreement between the accounts' sources
is only worth something when nobody copied from anybody. The rules, in words: an order counts by its last line;
``shipped`` and ``refunded`` go to inbox and e-mail, ``delayed`` to those and SMS, ``ready`` to inbox and SMS,
``delivered`` to the inbox; any other status is no news. What goes to the inbox goes to the customer's phones too, if
there is a push channel. An order whose customer does not exist goes to the inbox of the shop's desk, whatever its
channels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from attrs import frozen

from sendoff.demo.facts import Outcome, Promise
from sendoff.demo.phones import Phones
from sendoff.demo.sheets import sheet

__all__ = ["Truth", "per_channel", "read_truth"]

DESK = "shop-desk"
PUSH = "fcm"
CHANNELS: Mapping[str, tuple[str, ...]] = {
    "shipped": ("inbox", "email"),
    "refunded": ("inbox", "email"),
    "delayed": ("inbox", "email", "sms"),
    "ready": ("inbox", "sms"),
    "delivered": ("inbox",),
}
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
PHONE = frozenset("+0123456789 .-()")


@frozen
class Truth:
    """What the files say, and what became of each of their lines."""

    promises: tuple[Promise, ...]
    #: Lines of orders.csv with something in them.
    lines: int
    #: Lines without an order id: nothing can be promised about them.
    unusable: int
    #: Lines that a later line of the same order replaces.
    replaced: int
    orders: tuple[str, ...]
    #: Orders whose status is no news.
    quiet: frozenset[str]
    #: Orders without a customer, which the shop's desk hears of.
    orphaned: frozenset[str]
    #: Orders of which a channel has no usable address.
    partial: frozenset[str]

    def counts(self, *, without: AbstractSet[str] = frozenset()) -> dict[str, int]:
        """Every order in exactly one place, except for those that are counted elsewhere."""
        told = set(self.orders) - self.quiet - self.orphaned - self.partial
        return {
            "told on every channel": len(told - without),
            "told where there is an address": len(self.partial - without),
            "no customer, so the desk was told": len(self.orphaned - without),
            "no news in its status": len(self.quiet - without),
        }


def read_truth(folder: Path, phones: Phones | None = None) -> Truth:
    """Read customers.csv and orders.csv. ``phones``: there is a push channel, and these have to get what it sends."""
    customers = {fields[0].strip(): fields for fields in sheet(folder / "customers.csv")}
    lines = list(sheet(folder / "orders.csv"))
    last = {fields[0].strip().upper(): fields for fields in lines}
    unusable = sum(not fields[0].strip() for fields in lines)
    last.pop("", None)
    promises: list[Promise] = []
    quiet, orphaned, partial = set(), set(), set()
    for order, fields in last.items():
        customer, status = fields[1].strip(), fields[3].strip().lower()
        channels = CHANNELS.get(status, ())
        if not channels:
            quiet.add(order)
        elif customer not in customers:
            orphaned.add(order)
            promises.append(Promise(order, "inbox", DESK, "written", (DESK,)))
        else:
            made = [_promise(order, channel, customer, customers[customer]) for channel in channels]
            if phones is not None:
                made.append(_owed(order, PUSH, customer, phones.live(customer)))
            promises += made
            if any(promise.outcome != "written" for promise in made):
                partial.add(order)
    return Truth(
        promises=tuple(promises),
        lines=len(lines),
        unusable=unusable,
        replaced=len(lines) - unusable - len(last),
        orders=tuple(last),
        quiet=frozenset(quiet),
        orphaned=frozenset(orphaned),
        partial=frozenset(partial),
    )


def per_channel(truth: Truth) -> Counter[str]:
    """How many rows there have to be, for the progress display."""
    return Counter(promise.channel for promise in truth.promises)


def _promise(order: str, channel: str, customer: str, fields: list[str]) -> Promise:
    match channel:
        case "email":
            to = _email(fields[2])
        case "sms":
            to = _phone(fields[3])
        case _:
            to = customer
    return _owed(order, channel, customer, () if to is None else (to,))


def _owed(order: str, channel: str, customer: str, to: tuple[str, ...]) -> Promise:
    outcome: Outcome = "written" if to else "no_target"
    return Promise(order, channel, customer, outcome, to)


def _email(text: str) -> str | None:
    """The address where there is one @ between a local part and a domain of two labels or more."""
    address = text.strip()
    if address.count("@") != 1 or any(character.isspace() for character in address):
        return None
    local, domain = address.split("@")
    labels = domain.lower().split(".")
    return address if local and len(labels) > 1 and all(_is_label(label) for label in labels) else None


def _is_label(label: str) -> bool:
    return bool(label) and label[0] in LETTERS and label[-1] in LETTERS and set(label) <= LETTERS | {"-"}


def _phone(text: str) -> str | None:
    """A number with its country, 8 to 15 digits, in the form +33639981234."""
    text = text.strip()
    digits = "".join(character for character in text if character.isdigit())
    if not set(text) <= PHONE or text.count("+") > 1 or not text.startswith(("+", "00")):
        return None
    digits = digits.removeprefix("00") if not text.startswith("+") else digits
    return f"+{digits}" if 8 <= len(digits) <= 15 and digits[0] != "0" else None
