"""The accounts: do the CSV, the channels and the outgoing table tell the same story? Pure: facts in, balances out.

For every order and channel that the CSV promises there must be one row; the row must be final with the promised
outcome; the channel must have it, addressed as promised, from that row; and it must have it once, unless a lease of
that row was lost: then the channel may have been called before the worker died, and again afterwards, with the same
idempotency key. The inbox never has it twice. A push has to be on each of the customer's phones, by the same rule for
each, and costs a row nothing of its budget while the provider is away. Whatever a channel or the table has beyond that
is a fault too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from sendoff.demo.facts import Outcome, Promise, Row, Writing

__all__ = ["Accounts", "ChannelBalance", "Fault", "settle_accounts"]

#: The outcome that a final row stands for, by (status, verdict). A ``NoTarget`` is ``dead`` or ``sent``: the setting's
#: choice, the same fact.
OUTCOMES: Mapping[tuple[str, str | None], Outcome] = {
    ("sent", "sent"): "written",
    ("delivered", "sent"): "written",
    ("sent", "no_target"): "no_target",
    ("dead", "no_target"): "no_target",
}
#: Channels that keep one entry for a row however often they are called.
ONCE = frozenset({"inbox"})
#: Channels whose failures, in this demo, are their provider's: no row may pay for one, but for a try that ended in
#: doubt.
FREE = frozenset({"fcm"})


@frozen
class Fault:
    """One thing that does not balance."""

    kind: str
    channel: str
    order: str
    text: str

    def __str__(self) -> str:
        return f"{self.channel}: {self.order}: {self.text}"


@frozen
class ChannelBalance:
    """One channel's line of the table."""

    channel: str
    promised: int
    rows: int
    sent: int
    no_target: int
    dead: int
    unfinished: int
    retried: int
    #: As often, at most, the channel was called: its verdicts, and the tries that ended in doubt.
    calls: int
    #: All that the channel has, repeats included; the same without repeats (an order for two phones is two); and the
    #: orders among it.
    written: int
    distinct: int
    orders: int
    #: Repeats that a row's doubts (lost leases, answers not waited for) account for, and those that nothing does.
    repeats: int
    unexplained: int
    faults: int

    @property
    def balanced(self) -> bool:
        """Nothing is missing, nothing is left over."""
        return not self.faults


@frozen
class Accounts:
    """The whole result."""

    channels: tuple[ChannelBalance, ...]
    faults: tuple[Fault, ...]
    #: Orders with at least one fault, each once.
    faulty_orders: tuple[str, ...]

    @property
    def balanced(self) -> bool:
        """True when every source agrees with every other."""
        return not self.faults

    def summary(self) -> list[str]:
        """One line for each kind of fault: which channel, how many, and the first orders."""
        groups: dict[tuple[str, str], list[Fault]] = defaultdict(list)
        for fault in self.faults:
            groups[fault.channel, fault.kind].append(fault)
        lines = []
        for (channel, kind), faults in groups.items():
            orders = ", ".join(fault.order for fault in faults[:3]) + (", ..." if len(faults) > 3 else "")
            lines.append(f"{channel}: {len(faults)} {kind} ({orders}; the first: {faults[0].text})")
        return lines


_Place = tuple[str, str]


def settle_accounts(
    promises: Iterable[Promise],
    rows: Iterable[Row],
    writings: Iterable[Writing],
    *,
    channels: Sequence[str],
    more: Iterable[Fault] = (),
) -> Accounts:
    """Compare the sources with each other. ``channels`` gives the order of the lines, and has all there are; ``more``
    are faults that were found elsewhere."""
    promised = {(promise.channel, promise.order): promise for promise in promises}
    rows_at: dict[_Place, list[Row]] = defaultdict(list)
    for row in rows:
        rows_at[row.channel, row.order].append(row)
    written_at: dict[_Place, list[Writing]] = defaultdict(list)
    for writing in writings:
        written_at[writing.channel, writing.order].append(writing)

    faults: list[Fault] = []
    repeats: Counter[tuple[str, bool]] = Counter()
    for place in dict.fromkeys([*promised, *rows_at, *written_at]):
        channel, order = place
        found = [
            *_rows_against_promise(promised.get(place), rows_at[place]),
            *_writings_against_promise(promised.get(place), written_at[place]),
            *_writings_against_rows(rows_at[place], written_at[place]),
        ]
        extra, reasons = _repeats(channel, rows_at[place], written_at[place])
        repeats[channel, not reasons] += extra
        faults += [Fault(kind, channel, order, text) for kind, text in [*found, *reasons]]
    faults += more
    every = [*channels, *sorted({channel for channel, _ in rows_at | written_at} - set(channels))]
    return Accounts(
        channels=tuple(_line(channel, promised, rows_at, written_at, repeats, faults) for channel in every),
        faults=tuple(faults),
        faulty_orders=tuple(sorted({fault.order for fault in faults})),
    )


_Found = list[tuple[str, str]]


def _rows_against_promise(promise: Promise | None, rows: Sequence[Row]) -> _Found:
    """CSV and outgoing table."""
    if promise is None:
        return [("rows that nothing asked for", f"row {row.id} exists") for row in rows]
    if not rows:
        return [("orders without a row", "promised, and the outgoing table does not know it")]
    found: _Found = []
    if len(rows) > 1:
        found.append(("orders with more than one row", f"{len(rows)} rows for one promise"))
    for row in rows:
        if row.recipient != promise.recipient:
            found.append(("rows for somebody else", f"row {row.id} is for {row.recipient}, not {promise.recipient}"))
        outcome = OUTCOMES.get((row.status, row.verdict))
        if row.status in {"pending", "waiting"}:
            found.append(("rows that are not final", f"row {row.id} is {row.status} after {row.tries} tries"))
        elif outcome != promise.outcome:
            ended = f"{row.status}, verdict {row.verdict or 'none'}"
            found.append(("rows that ended otherwise than promised", f"{ended} instead of {promise.outcome}"))
        if row.channel in FREE and row.counted > row.doubts:
            paid = f"row {row.id} counts {row.counted} failures, and {row.doubts} tries ended in doubt"
            found.append(("rows that paid for an outage", paid))
    return found


def _writings_against_promise(promise: Promise | None, writings: Sequence[Writing]) -> _Found:
    """CSV and channel."""
    if promise is None or promise.outcome != "written":
        owed = "nothing was promised" if promise is None else f"{promise.outcome} was promised"
        return [("messages that nothing asked for", f"{writing.place} exists, and {owed}") for writing in writings]
    arrived = {writing.to for writing in writings}
    owed_to = ", ".join(promise.to)
    if not arrived:
        return [("messages missing", f"promised to {owed_to}, and the channel does not have it")]
    wrong: _Found = [
        ("messages to a wrong address", f"{writing.place} went to {writing.to}, not {owed_to}")
        for writing in writings
        if writing.to not in promise.to
    ]
    # Where there is one address only, the message that went elsewhere is the one that is missing.
    left_out = [to for to in promise.to if to not in arrived] if not wrong else []
    return [*wrong, *(("addresses left out", f"promised to {owed_to}, and {to} has nothing") for to in left_out)]


def _writings_against_rows(rows: Sequence[Row], writings: Sequence[Writing]) -> _Found:
    """Channel and outgoing table, by the ids that the channel was given."""
    ids = {row.id for row in rows}
    had = {writing.row for writing in writings}
    found: _Found = [
        ("messages that no row accounts for", f"{writing.place} came from row {writing.row}, not this order's")
        for writing in writings
        if writing.row not in ids
    ]
    for row in rows:
        if OUTCOMES.get((row.status, row.verdict)) == "written" and row.id not in had:
            found.append(("rows sent, and nothing written", f"row {row.id} says sent, the channel has nothing of it"))
        keys = {writing.key for writing in writings if writing.row == row.id}
        if len(keys) > 1:
            found.append(("repeats that a receiver cannot tell", f"{len(keys)} idempotency keys for row {row.id}"))
    return found


def _repeats(channel: str, rows: Sequence[Row], writings: Sequence[Writing]) -> tuple[int, _Found]:
    """How often an address has it beyond once, and why that is a fault: more often than anything can explain."""
    times = Counter(writing.to for writing in writings)
    extra = sum(times.values()) - len(times)
    doubts = 0 if channel in ONCE else sum(row.doubts for row in rows)
    most = max(times.values(), default=0)
    if most - 1 <= doubts:
        return extra, []
    why = "the channel keeps one entry for a row" if channel in ONCE else f"{doubts} tries ended in doubt"
    return extra, [("repeats that nothing explains", f"written {most} times; {why}")]


def _line(
    channel: str,
    promised: Mapping[_Place, Promise],
    rows_at: Mapping[_Place, Sequence[Row]],
    written_at: Mapping[_Place, Sequence[Writing]],
    repeats: Counter[tuple[str, bool]],
    faults: Sequence[Fault],
) -> ChannelBalance:
    rows = [row for (where, _), found in rows_at.items() if where == channel for row in found]
    outcomes = Counter(OUTCOMES.get((row.status, row.verdict)) for row in rows)
    written = [found for (where, _), found in written_at.items() if where == channel and found]
    return ChannelBalance(
        channel=channel,
        promised=sum(where == channel for where, _ in promised),
        rows=len(rows),
        sent=outcomes["written"],
        no_target=outcomes["no_target"],
        dead=sum(row.status == "dead" and row.verdict != "no_target" for row in rows),
        unfinished=sum(row.status in {"pending", "waiting"} for row in rows),
        retried=sum(row.tries > 1 for row in rows),
        calls=sum(row.calls for row in rows),
        written=sum(map(len, written)),
        distinct=sum(len({writing.to for writing in found}) for found in written),
        orders=len(written),
        repeats=repeats[channel, True],
        unexplained=repeats[channel, False],
        faults=sum(fault.channel == channel for fault in faults),
    )
