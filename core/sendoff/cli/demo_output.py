"""What people see: lines and bars while it runs, tables in the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import evolve

from sendoff.cli.tables import Column, console, facts, lines, table
from sendoff.cli.text import count, plain
from sendoff.cli.words import event_words
from sendoff.demo.report import Report
from sendoff.demo.run import Audience
from sendoff.report import OutgoingView

__all__ = ["audience", "show_report"]

#: Seconds between two lines of progress where there is no terminal to draw on.
RHYTHM = 3.0
PROBLEMS_SHOWN = 20


# ------------------------------------------------------------------------------------------------ while it runs


@contextmanager
def audience(*, silent: bool) -> Iterator[Audience]:
    """Bars on a terminal, plain lines elsewhere, nothing for programs that want JSON."""
    if silent:
        yield _Nobody()
    elif sys.stdout.isatty():
        with _bars() as display:
            yield _Terminal(display)
    else:
        yield _Lines()


class _Nobody:
    def step(self, text: str) -> None:
        pass

    def progress(self, final: Mapping[str, int], promised: Mapping[str, int]) -> None:
        pass


class _Lines:
    def __init__(self) -> None:
        self._started = time.monotonic()
        self._said = self._started

    def step(self, text: str) -> None:
        now = time.monotonic()
        self._said = now
        lines(f"{now - self._started:5.1f} s  {text}")
        sys.stdout.flush()

    def progress(self, final: Mapping[str, int], promised: Mapping[str, int]) -> None:
        if time.monotonic() - self._said >= RHYTHM:
            parts = [f"{name} {final.get(name, 0):,} of {total:,}" for name, total in promised.items()]
            self.step(f"final: {', '.join(parts)}")


def _bars() -> Any:
    from rich import progress

    return progress.Progress(
        progress.TextColumn("  {task.description:<6}", markup=False),
        progress.BarColumn(bar_width=32),
        progress.TextColumn("{task.completed:>5,.0f} of {task.total:>5,.0f}", markup=False),
        progress.TimeElapsedColumn(),
        console=console(),
        transient=True,
    )


class _Terminal(_Lines):
    """The same lines, above bars."""

    def __init__(self, display: Any) -> None:
        super().__init__()
        self._display = display
        self._tasks: dict[str, Any] = {}

    def step(self, text: str) -> None:
        self._display.console.print(f"{time.monotonic() - self._started:5.1f} s  {plain(text)}")

    def progress(self, final: Mapping[str, int], promised: Mapping[str, int]) -> None:
        for name, total in promised.items():
            if name not in self._tasks:
                self._tasks[name] = self._display.add_task(name, total=total)
            self._display.update(self._tasks[name], completed=final.get(name, 0))


# ------------------------------------------------------------------------------------------------- in the end


def show_report(report: Report) -> None:
    """The tables, and the last line that says whether everything balances."""
    lines("")
    _orders(report)
    lines("")
    _channels(report)
    lines("")
    _kill(report)
    _push(report)
    if report.example is not None:
        lines("")
        _timeline(report.example, report)
    lines("")
    if report.folder is not None:
        lines(f"everything is in {report.folder}")
    for problem in report.problems[:PROBLEMS_SHOWN]:
        lines(f"does not balance: {problem}")
    if len(report.problems) > PROBLEMS_SHOWN:
        lines(f"does not balance: and {len(report.problems) - PROBLEMS_SHOWN} more kinds of faults")
    verdict = "everything balances" if report.balanced else "it does not balance"
    lines(f"{verdict}: {count(report.lines.orders, 'order')}, {report.seconds:g} seconds")


def _orders(report: Report) -> None:
    said = report.lines
    facts(
        [
            ("lines of orders.csv", said.total),
            ("  replaced by a later line", said.replaced),
            *((f"  {problem}", 1) for problem in said.unusable_lines),
            ("orders", said.orders),
            *((f"  {name}", number) for name, number in report.orders.items()),
        ]
    )


def _channels(report: Report) -> None:
    titles = ("promised", "rows", "sent", "no target", "dead", "retried", "calls", "written", "distinct")
    rows = [
        (
            line.channel,
            line.promised,
            line.rows,
            line.sent,
            line.no_target,
            line.dead,
            line.retried,
            line.calls,
            line.written,
            line.distinct,
            "yes" if line.balanced else "NO",
        )
        for line in report.accounts.channels
    ]
    table(
        [Column("channel", fixed=True), *(Column(title, numeric=True) for title in titles), Column("ok", fixed=True)],
        rows,
    )
    lines(
        "promised: by the CSV. rows to retried: by the outgoing table. calls: verdicts of the channel, and tries that "
        "ended in doubt. written, distinct: what the channel really has"
        + ("; of fcm by the local FCM's own log, one for each phone." if report.push is not None else ".")
    )


def _kill(report: Report) -> None:
    kill = report.kill
    if kill is None:
        lines("no worker was killed")
        return
    repeats = f"{count(kill.repeats, 'message')} of theirs written twice" if kill.repeats else "none of theirs repeated"
    lines(
        f"{kill.worker} (pid {kill.pid}) was killed while it held {count(len(kill.held), 'lease')}: "
        f"{kill.recovered} of these rows are final, {repeats}. Delivery is at least once: a worker that dies between "
        "the channel's yes and its own note of it leaves a row that is sent again, with the same idempotency key."
    )


def _push(report: Report) -> None:
    push = report.push
    if push is None:
        return
    lines("")
    facts(
        [
            ("devices of devices.csv", push.devices),
            ("  take what they are sent", push.live),
            ("  refused by FCM for good", push.refused),
            ("  replaced, the app was installed again", push.replaced),
            *((f"  {problem}", 1) for problem in push.unusable_lines),
            ("devices deactivated on FCM's word", push.deactivated),
            ("requests in FCM's log", push.requests),
            ("  accepted", push.accepted),
        ]
    )
    outage = push.outage
    if outage is None:
        return
    paid = (
        "none of them paid for it"
        if not outage.paid
        else f"and {outage.paid:,} of them paid for another try, which was cut off and may have been accepted"
    )
    lines(
        f"FCM was down for {outage.seconds:g} seconds and answered {count(outage.requests, 'request')} with 503: "
        f"{count(outage.rows, 'row')} went back to the queue, {paid}."
    )


def _timeline(row: OutgoingView, report: Report) -> None:
    lines(f"one row: {row.channel} to {row.recipient}, {row.dedup_key}, {row.id}")
    # Without the details that each address answered with: there is one address, and the reason says the same.
    happened = [(event.at, event_words(evolve(event, detail=_short(event.detail)))) for event in row.events]
    if report.kill is not None and str(row.id) in report.kill.held:
        happened.append((report.kill.at, f"{report.kill.worker} killed while it had this row leased"))
        happened.sort(key=lambda entry: entry[0])
    table(
        [Column("after", numeric=True), Column("what happened", fluid=True)],
        [(f"{(at - row.created_at).total_seconds():.2f} s", words) for at, words in happened],
    )


def _short(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in detail.items() if key != "details"}
