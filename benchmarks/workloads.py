"""What is measured in a database: each workload once with sendoff and once raw, in rows per second."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from types import MappingProxyType

import psycopg
from attrs import frozen

from benchmarks import raw
from benchmarks.databases import CALL, Databases, SqliteFiles
from benchmarks.plugin import Singles, notifications, sendoff_with
from benchmarks.race import race
from sendoff import Rejected, Sendoff

#: In the order of the table.
NAMES = (
    "single-enqueue",
    "bulk-enqueue",
    "drain-1",
    "drain-2",
    "drain-1-batch-channel",
    "sqlite-drain-1",
    "inbox-drain",
)

__all__ = ["NAMES", "RAW", "SENDOFF", "Bench", "Figure", "Workload", "workloads"]

SENDOFF, RAW, NOOP = "sendoff", "raw", "noop batch"


@frozen
class Bench:
    """The databases, and how much is sent through them."""

    databases: Databases
    sqlite: SqliteFiles
    rows: int
    singles: int


@frozen
class Figure:
    """One line of the table."""

    name: str
    unit: str
    less_is_better: bool = False


@frozen
class Workload:
    """A measurement for each subject, which gives values by figure and subject. Ratios are to the best baseline."""

    name: str
    figures: tuple[Figure, ...]
    subjects: Mapping[str, Callable[[], Mapping[str, Mapping[str, float]]]]
    baselines: tuple[str, ...] = (RAW,)


def workloads(bench: Bench) -> list[Workload]:
    """All of them, in the order of the table."""
    drains = [("drain-1", "singles", 1), ("drain-2", "singles", 2), ("drain-1-batch-channel", "batches", 1)]
    return [
        _workload("single-enqueue", partial(_singles_sendoff, bench), partial(_singles_raw, bench)),
        _workload("bulk-enqueue", partial(_bulk_sendoff, bench), partial(_bulk_raw, bench)),
        *(
            _workload(name, partial(_drain, bench, plugin, count), partial(_drain, bench, RAW, count))
            for name, plugin, count in drains
        ),
        _workload("sqlite-drain-1", partial(_drain_sqlite, bench, "singles"), partial(_drain_sqlite, bench, RAW)),
        _workload("inbox-drain", partial(_drain_inbox, bench), partial(_drain, bench, "batches", 1), NOOP),
    ]


def _workload(name: str, sendoff: Callable[[], float], limit: Callable[[], float], baseline: str = RAW) -> Workload:
    def measured(subject: str, measure: Callable[[], float]) -> Mapping[str, Mapping[str, float]]:
        return {name: {subject: measure()}}

    subjects = {SENDOFF: partial(measured, SENDOFF, sendoff), baseline: partial(measured, baseline, limit)}
    return Workload(name, (Figure(name, "rows/s"),), MappingProxyType(subjects), (baseline,))


# ----------------------------------------------------------------------------------------------------------- enqueue
# Both sides make their rows from the same content, inside the time that is measured.


def _singles_sendoff(bench: Bench) -> float:
    with (
        bench.databases.copy(bench.databases.empty) as url,
        Sendoff(url, plugins=[Singles()], entry_points=False) as so,
    ):
        so.enqueue(notifications(0, 1, "warm")[0], None)
        began = time.perf_counter()
        for number in range(bench.singles):
            so.enqueue(notifications(number, 1, "single")[0], None)
        return _rate(bench.singles, began, url, bench.singles + 1)


def _singles_raw(bench: Bench) -> float:
    with bench.databases.copy(bench.databases.empty) as url, closing(raw.connect(url)) as connection:
        raw.enqueue(connection, raw.records(0, 1, "warm"))
        began = time.perf_counter()
        for number in range(bench.singles):
            raw.enqueue(connection, raw.records(number, 1, "single"))
        return _rate(bench.singles, began, url, bench.singles + 1)


def _bulk_sendoff(bench: Bench) -> float:
    with (
        bench.databases.copy(bench.databases.empty) as url,
        Sendoff(url, plugins=[Singles()], entry_points=False) as so,
    ):
        so.enqueue(notifications(0, 1, "warm")[0], None)
        began = time.perf_counter()
        for start in range(0, bench.rows, CALL):
            answers = so.enqueue_many(notifications(start, min(CALL, bench.rows - start), "bulk"), None)
            if any(isinstance(answer, Rejected) for answer in answers):
                raise RuntimeError("a notification was rejected")
        return _rate(bench.rows, began, url, bench.rows + 1)


def _bulk_raw(bench: Bench) -> float:
    with bench.databases.copy(bench.databases.empty) as url, closing(raw.connect(url)) as connection:
        raw.enqueue(connection, raw.records(0, 1, "warm"))
        began = time.perf_counter()
        for start in range(0, bench.rows, CALL):
            raw.enqueue(connection, raw.records(start, min(CALL, bench.rows - start), "bulk"))
        return _rate(bench.rows, began, url, bench.rows + 1)


def _rate(rows: int, began: float, url: str, expected: int) -> float:
    """Rows per second since ``began``, after a look whether each has its row and its event."""
    rate = rows / (time.perf_counter() - began)
    with psycopg.connect(url) as connection:
        _expect(connection.execute("SELECT count(*) FROM sendoff_outgoing").fetchone(), expected)
        _expect(connection.execute("SELECT count(*) FROM sendoff_event WHERE kind = 'created'").fetchone(), expected)
    return rate


# ------------------------------------------------------------------------------------------------------------- drain


def _drain(bench: Bench, runner: str, processes: int) -> float:
    with bench.databases.copy(bench.databases.full) as url:
        rate = race(runner, url, bench.rows, processes)
        _all_sent(url, bench.rows)
        return rate


def _drain_inbox(bench: Bench) -> float:
    """The same rows, each of which becomes an entry."""
    with bench.databases.copy(bench.databases.full) as url:
        with sendoff_with("inbox", url) as so:
            so.migrate()
        rate = race("inbox", url, bench.rows, 1)
        _all_sent(url, bench.rows)
        with psycopg.connect(url) as connection:
            _expect(connection.execute("SELECT count(*) FROM sendoff_inbox").fetchone(), bench.rows)
        return rate


def _all_sent(url: str, rows: int) -> None:
    with psycopg.connect(url) as connection:
        sent = "SELECT count(*) FROM sendoff_outgoing WHERE status = 'sent' AND try_count = 1"
        _expect(connection.execute(sent).fetchone(), rows)
        _expect(connection.execute("SELECT count(*) FROM sendoff_event WHERE kind = 'sent'").fetchone(), rows)


def _drain_sqlite(bench: Bench, runner: str) -> float:
    with bench.sqlite.copy() as url:
        return race(runner, url, bench.rows, 1)


def _expect(answer: tuple[int, ...] | None, expected: int) -> None:
    if answer is None or answer[0] != expected:
        raise RuntimeError(f"the database holds {answer} instead of {expected} rows: the figure would mean nothing")
