"""Backlogs: how fast rows are found wherever they are, and what a worker needs for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from sendoff import Notification, Priority, Sendoff
from sendoff.tables import outgoing
from tests.support.nursery import Nursery
from tests.support.recording import calls
from tests.support.workers import app_for, enqueue, serving, settings_for, statuses, wait_until

MEGABYTE = 1024 * 1024


def silent(url: str, folder: Path, **worker: Any) -> dict[str, dict[str, Any]]:
    """Settings under which calls are not written down: there are too many."""
    settings = settings_for(url, folder, **worker)
    settings["plugins"] = {}
    return settings


def bulk(so: Sendoff, count: int, *, priority: Priority = Priority.NORMAL, act: str = "sent", age: float = 0) -> None:
    """Rows as an application's own bulk insert would write them, ``age`` seconds ago."""
    one = Notification(recipient="bulk", type="t", channels=["async"], priority=priority, data={"acts": [act]})
    [pattern] = so.enqueue(one, None).rows
    if so.store.is_postgresql:
        series, id = f"generate_series(1, {count - 1}) AS n(n)", "gen_random_uuid()"
        moment = f"statement_timestamp() - {age} * interval '1 second'"
    else:
        series = (
            f"(WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n LIMIT {count - 1}) SELECT n FROM n)"
        )
        id, moment = uuid_of_sqlite(), "sendoff_now()"
    copied = [column.name for column in outgoing.columns if column.name not in MADE_ANEW]
    names = ", ".join(copied)
    with so.engine.begin() as connection:
        connection.execute(
            sa.text(
                f"INSERT INTO sendoff_outgoing ({names}, id, created_at, first_due_at, due_at, next_attempt_at) "
                f"SELECT {names}, {id}, m, m, m, m FROM (SELECT {moment} AS m) AS moment, {series}, sendoff_outgoing o "
                "WHERE o.id = :id"
            ),
            {"id": pattern.outgoing_id if so.store.is_postgresql else str(pattern.outgoing_id)},
        )


MADE_ANEW = {"id", "created_at", "first_due_at", "due_at", "next_attempt_at"}


def uuid_of_sqlite() -> str:
    return (
        "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-7' || substr(hex(randomblob(2)), 2) || '-8' || "
        "substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
    )


def sent(so: Sendoff) -> int:
    return statuses(so).get("sent", 0)


def test_rows_that_commit_behind_the_worker_are_found_at_full_speed(
    postgres_url: str, tmp_path: Path, nursery: Nursery
) -> None:
    few, many = 30_000, 100_000
    settings = silent(postgres_url, tmp_path)
    with app_for(settings) as so:

        def seconds_for(total: int) -> float:
            began = time.monotonic()
            wait_until(lambda: sent(so) == total, f"{total} rows sent", 120)
            return time.monotonic() - began

        worker = nursery.worker(settings, tmp_path / "log", channels=["async"])
        bulk(so, few)
        ahead = seconds_for(few) / few
        # The worker's position is behind all of these: they are due since an hour, and commit only now.
        bulk(so, many, age=3600)
        behind = seconds_for(few + many) / many

        assert worker.terminate() == 0
        assert behind < 3 * ahead


def test_memory_and_threads_do_not_grow_with_the_backlog(postgres_url: str, tmp_path: Path, nursery: Nursery) -> None:
    settings = silent(postgres_url, tmp_path)
    most: dict[int, float] = {}
    threads: dict[int, int] = {}
    with app_for(settings) as so:
        total = 0
        for count in (5_000, 50_000):
            bulk(so, count)
            total += count
            worker = nursery.worker(settings, tmp_path / f"log{count}", channels=["async"])
            process = psutil.Process(worker.pid)
            most[count] = 0
            deadline = time.monotonic() + 120
            while sent(so) < total:
                most[count] = max(most[count], process.memory_info().rss / MEGABYTE)
                threads[count] = max(threads.get(count, 0), process.num_threads())
                assert time.monotonic() < deadline, statuses(so)
            assert worker.terminate() == 0

    assert most[50_000] < most[5_000] + 20, most
    assert max(threads.values()) <= 12, threads


def test_verdicts_do_not_pile_up(postgres_url: str, tmp_path: Path) -> None:
    """A channel is quicker than any database: what it has sent must be recorded before its lease runs out."""
    batch = 50
    most = 0
    with app_for(silent(postgres_url, tmp_path, batch=batch)) as so:
        bulk(so, 10_000)
        with serving(so, ["async"]) as running:
            while sent(so) < 10_000:
                for _ in range(20):
                    most = max(most, running.worker.settler.pending)
                    time.sleep(0.001)

    assert most <= 10 * batch


def test_an_urgent_row_overtakes_twenty_thousand(database_url: str, tmp_path: Path, nursery: Nursery) -> None:
    log = tmp_path / "calls"
    settings = settings_for(database_url, tmp_path, channels={"async": {"limits": {"concurrency": 10}}}, batch=50)
    with app_for(settings) as so:
        bulk(so, 20_000, priority=Priority.BULK, act="sleep:0.01")
        worker = nursery.worker(settings, tmp_path / "log", channels=["async"])
        wait_until(lambda: len(calls(log)) > 100, "the backlog is being worked on")
        urgent = Notification(recipient="urgent", type="t", channels=["async"], priority=Priority.URGENT)
        enqueue(so, [urgent])
        before = len(calls(log))
        wait_until(lambda: "urgent" in [call["recipient"] for call in calls(log)], "the urgent row")
        worker.kill()

        # What was leased already comes first, and one claim of ten that began with bulk.
        order = [call["recipient"] for call in calls(log)]
        assert order.index("urgent") - before <= 4 * 50
