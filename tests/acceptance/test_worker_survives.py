"""Workers that are killed, databases that go away, clocks that are wrong: everything is sent, and nothing twice
without need."""

from __future__ import annotations

import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

from sendoff import Notification, Sendoff
from tests.support.commands import environment
from tests.support.databases import migrate
from tests.support.nursery import Nursery, WorkerProcess
from tests.support.postgres import OwnServer
from tests.support.recording import calls, calls_by_key
from tests.support.workers import (
    app_for,
    enqueue,
    events,
    notifications,
    row,
    rows,
    settings_for,
    statuses,
    wait_for,
    wait_until,
)

INBOX = "sendoff_inbox.plugin"
RECORDING = "tests.support.recording"
KILLS = 20


def test_two_workers_share_the_work_and_send_each_row_once(database_url: str, tmp_path: Path, nursery: Nursery) -> None:
    settings = settings_for(database_url, tmp_path, channels={"async": {"limits": {"concurrency": 5}}}, batch=10)
    with app_for(settings) as so:
        workers = [nursery.worker(settings, tmp_path / f"log{number}", channels=["async"]) for number in range(2)]
        wait_until(lambda: len(so.status().workers) == 2, "both workers")
        enqueue(so, notifications(200, "async", ["sleep:0.02"]))
        wait_for(so, {"sent": 200})
        codes = [worker.terminate() for worker in workers]

        assert codes == [0, 0]
        assert calls_by_key(tmp_path / "calls") == Counter({str(one.id): 1 for one in rows(so)})
        assert {call["pid"] for call in calls(tmp_path / "calls")} == {worker.pid for worker in workers}


def test_workers_killed_again_and_again_lose_nothing(database_url: str, tmp_path: Path, nursery: Nursery) -> None:
    concurrency, batch = 4, 10
    settings = settings_for(
        database_url,
        tmp_path,
        channels={
            "sync": {"limits": {"concurrency": concurrency, "timeout": 0.5}},
            "inbox": {"limits": {"concurrency": 1, "batch": 5, "timeout": 0.5}},
        },
        lease=1.5,
        margin=0.5,
        batch=batch,
    )
    plugins = [INBOX, RECORDING]
    chance = random.Random()
    numbers = count()

    def start() -> WorkerProcess:
        return nursery.worker(settings, tmp_path / f"log{next(numbers)}", channels=["sync", "inbox"], plugins=plugins)

    from sendoff_inbox import plugin as inbox
    from tests.support import recording

    with app_for(settings, inbox, recording) as so:
        steps = ["inbox", "sync"]
        enqueue(
            so,
            [
                Notification(recipient=f"u{number}", type="t", channels=steps, title="t", data={"acts": ["sleep:0.01"]})
                for number in range(250)
            ],
        )
        workers = [start(), start()]
        killed = set()
        for _ in range(KILLS):
            before = statuses(so)
            wait_until(partial(moved, so, before), "progress")
            time.sleep(chance.uniform(0, 0.15))
            victim = workers.pop(0)
            victim.kill()
            killed.add(victim.pid)
            workers.append(start())
        wait_for(so, {"sent": 500}, patience=60)
        for worker in workers:
            wait_until(partial(serves, worker), "the start of the last worker")
            assert worker.terminate() == 0

        with so.engine.connect() as connection:
            entries = connection.execute(sa.text("SELECT outgoing_id FROM sendoff_inbox")).scalars().all()
        assert Counter(str(entry).replace("-", "") for entry in entries) == Counter(
            one.id.hex for one in rows(so, channel="inbox")
        )
        callers: dict[str, list[int]] = {}
        for call in calls(tmp_path / "calls"):
            callers.setdefault(call["key"], []).append(call["pid"])
        assert set(callers) == {str(one.id) for one in rows(so, channel="sync")}
        # What was called again had been in the hands of workers that were killed, once in each.
        assert {key: pids for key, pids in callers.items() if not killed.issuperset(pids[:-1])} == {}
        assert {key: pids for key, pids in callers.items() if len(set(pids)) < len(pids)} == {}
        repeated = sum(len(pids) - 1 for pids in callers.values())
        assert repeated <= KILLS * (concurrency + batch)
        assert {(one.attempt_count, one.claimed_until) for one in rows(so)} == {(0, None)}


def moved(so: Sendoff, before: dict[str, int]) -> bool:
    return before == {"sent": 500} or statuses(so) != before


def serves(worker: WorkerProcess) -> bool:
    return "serves" in worker.logged()


# ---------------------------------------------------------------------------------------------- the database goes away


@pytest.fixture
def server() -> Iterator[OwnServer]:
    with OwnServer({"synchronous_commit": "on"}) as server:  # what is committed survives a kill
        migrate(server.url)
        yield server


def latencies(so: Sendoff, log: Path, number: int) -> list[float]:
    """How long rows wait that are enqueued one by one for an idle worker."""
    found = []
    for index in range(number):
        before = len(calls(log))
        began = time.monotonic()
        enqueue(so, notifications(1, "sync", prefix=f"latency{index}"))
        wait_until(partial(more_calls, log, before), f"call {index}")
        found.append(calls(log)[before]["at"] - began)
    return found


def more_calls(log: Path, before: int) -> bool:
    return len(calls(log)) > before


def test_a_restart_of_the_database_is_survived(server: OwnServer, tmp_path: Path, nursery: Nursery) -> None:
    settings = settings_for(server.url, tmp_path, channels={"sync": {"limits": {"concurrency": 5}}}, batch=10)
    log = tmp_path / "calls"
    with app_for(settings) as so:
        worker = nursery.worker(settings, tmp_path / "log", channels=["sync"])
        enqueue(so, notifications(5, "sync", ["hang"]), notifications(20, "sync", prefix="v"))
        wait_until(lambda: len(calls(log)) == 5, "calls under way")
        server.stop()
        # Five verdicts that cannot be recorded now.
        (tmp_path / "gate").touch()
        wait_until(lambda: len(calls(log, "end")) >= 5, "the ends of the calls")
        server.start()
        so.engine.dispose()
        wait_for(so, {"sent": 25})
        wait_until(lambda: listening(so), "a new listening connection")

        assert calls_by_key(log) == Counter({str(one.id): 1 for one in rows(so)})
        assert {(one.try_count, one.attempt_count) for one in rows(so)} == {(1, 0)}
        enqueue(so, notifications(1, "sync", prefix="after"))
        wait_for(so, {"sent": 26})
        assert statistics.median(latencies(so, log, 15)) < 0.4
        assert worker.terminate() == 0


def listening(so: Sendoff) -> bool:
    with so.engine.connect() as connection:
        found = connection.scalar(
            sa.text("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid()")
        )
    return bool(found)


def test_a_database_that_takes_no_writes_for_a_while(server: OwnServer, tmp_path: Path, nursery: Nursery) -> None:
    settings = settings_for(server.url, tmp_path)
    with app_for(settings) as so:
        worker = nursery.worker(settings, tmp_path / "log", channels=["sync"])
        enqueue(so, notifications(3, "sync", ["hang"]))
        wait_until(lambda: len(calls(tmp_path / "calls")) == 3, "calls under way")
        server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        server.execute("SELECT pg_reload_conf()")
        wait_until(lambda: "the database is away" in worker.logged(), "the worker's noticing")
        (tmp_path / "gate").touch()
        wait_until(lambda: len(calls(tmp_path / "calls", "end")) == 3, "the ends of the calls")
        with so.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("SET default_transaction_read_only = off"))
            connection.execute(sa.text("ALTER SYSTEM RESET default_transaction_read_only"))
            connection.execute(sa.text("SELECT pg_reload_conf()"))
        wait_for(so, {"sent": 3})

        assert worker.terminate() == 0
        assert calls_by_key(tmp_path / "calls") == Counter({str(one.id): 1 for one in rows(so)})


def test_a_database_that_is_away_for_long(server: OwnServer, tmp_path: Path, nursery: Nursery) -> None:
    """Longer than a lease: the rows of this worker are still its own until somebody else takes them."""
    settings = settings_for(server.url, tmp_path, channels={"sync": {"limits": {"timeout": 2}}}, lease=3, margin=0.5)
    with app_for(settings) as so:
        worker = nursery.worker(settings, tmp_path / "log", channels=["sync"])
        enqueue(so, notifications(3, "sync", ["sleep:1"]))
        wait_until(lambda: len(calls(tmp_path / "calls")) == 3, "calls under way")
        server.kill()
        time.sleep(6)
        server.start()
        so.engine.dispose()
        wait_for(so, {"sent": 3})

        assert calls_by_key(tmp_path / "calls") == Counter({str(one.id): 1 for one in rows(so)})
        assert worker.terminate() == 0


def test_a_locked_file_means_contention(sqlite_url: str, tmp_path: Path, nursery: Nursery) -> None:
    settings = settings_for(sqlite_url, tmp_path)
    with app_for(settings) as so:
        worker = nursery.worker(settings, tmp_path / "log", channels=["sync"])
        enqueue(so, notifications(3, "sync", ["hang"]))
        wait_until(lambda: len(calls(tmp_path / "calls")) == 3, "calls under way")
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            (tmp_path / "gate").touch()
            wait_until(lambda: len(calls(tmp_path / "calls", "end")) == 3, "the ends of the calls")
            time.sleep(2)
            other.execute("ROLLBACK")
        wait_for(so, {"sent": 3})

        assert "away" not in worker.logged()
        assert worker.terminate() == 0


def test_a_worker_leaves_while_the_file_is_locked(sqlite_url: str, tmp_path: Path, nursery: Nursery) -> None:
    settings = settings_for(sqlite_url, tmp_path, grace=1)
    with app_for(settings) as so:
        worker = nursery.worker(settings, tmp_path / "log", channels=["sync"])
        wait_until(lambda: len(so.status().workers) == 1, "the worker")
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert worker.terminate(12) == 0
            other.execute("ROLLBACK")


# ------------------------------------------------------------------------------------------------------- wrong clocks

SHIFTED = """
import datetime, sys, time
shift = float(sys.argv.pop(1))
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + shift
time.time_ns = lambda: real_ns() + int(shift * 1e9)
class Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=shift)
    @classmethod
    def utcnow(cls):
        return super().utcnow() + datetime.timedelta(seconds=shift)
datetime.datetime = Shifted
from sendoff.cli import main
main()
"""


@pytest.mark.parametrize("shift", [300, -300])
def test_a_wrong_clock_steals_nothing_and_retries_in_time(
    postgres_url: str, tmp_path: Path, nursery: Nursery, shift: int
) -> None:
    log = tmp_path / "calls"
    retry = {"sync": {"retry": {"delays": [1.5], "attempts": 3, "jitter": 0}}}
    settings = settings_for(postgres_url, tmp_path, channels=retry)
    env = environment(
        SENDOFF_PLUGINS__RECORDING__LOG=str(log),
        SENDOFF_PLUGINS__RECORDING__GATE=str(tmp_path / "gate"),
        SENDOFF_CHANNELS__SYNC__RETRY__DELAYS="1.5",
        SENDOFF_CHANNELS__SYNC__RETRY__ATTEMPTS="3",
        SENDOFF_CHANNELS__SYNC__RETRY__JITTER="0",
    )
    with app_for(settings) as so:
        right = nursery.worker(settings, tmp_path / "log", channels=["sync"])
        enqueue(so, notifications(1, "sync", ["hang"], prefix="held"))
        wait_until(lambda: len(calls(log)) == 1, "the right worker's call")
        right.signal(signal.SIGSTOP)
        words = ["worker", "--channels", "sync", "--database-url", postgres_url, "-p", RECORDING]
        wrong = subprocess.Popen(
            [sys.executable, "-c", SHIFTED, str(shift), *words],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            enqueue(so, notifications(1, "sync", ["retry", "sent"], prefix="mine"))
            wait_until(lambda: row(so, "mine0").status == "sent", "the retry")
            first, second = [call["at"] for call in calls(log) if call["recipient"] == "mine0"]
            assert 1.4 < second - first < 10
            assert row(so, "held0").claim_count == 1
        finally:
            right.signal(signal.SIGCONT)
            wrong.terminate()
            wrong.communicate(timeout=30)
        assert wrong.returncode == 0
        (tmp_path / "gate").touch()
        wait_for(so, {"sent": 2})
        assert right.terminate() == 0
        assert events(so) == {"created": 2, "retry": 1, "sent": 2}


# -------------------------------------------------------------------------------------------------- rows that kill


@pytest.mark.parametrize(("database", "channel"), [("postgres_url", "sync"), ("sqlite_url", "batch")])
def test_a_row_that_kills_its_workers_takes_nobody_along_for_long(
    request: pytest.FixtureRequest, tmp_path: Path, nursery: Nursery, database: str, channel: str
) -> None:
    database_url: str = request.getfixturevalue(database)
    settings = settings_for(
        database_url, tmp_path, channels={channel: {"limits": {"timeout": 0.3}}}, lease=0.8, margin=0.2
    )
    with app_for(settings) as so:
        enqueue(so, notifications(4, channel, prefix="a"), notifications(1, channel, ["crash"], prefix="killer"))
        enqueue(so, notifications(4, channel, prefix="b"))
        deadline = time.monotonic() + 60
        killed = 0
        while statuses(so) != {"sent": 8, "dead": 1}:
            assert time.monotonic() < deadline, (killed, statuses(so))
            if killed == 4:
                with so.engine.begin() as connection:
                    connection.execute(
                        sa.text(
                            "UPDATE sendoff_outgoing SET lost_leases = 18"
                            " WHERE recipient = 'killer0' AND lost_leases > 0"
                        )
                    )
            worker = nursery.worker(settings, tmp_path / f"log{killed}", channels=[channel])
            killed += 1
            try:
                worker.wait(3 if killed > 5 else 30)
            except TimeoutError:
                assert worker.terminate() == 0
        dead = row(so, "killer0")
        assert "lost 20 leases in a row" in dead.reason
        assert {one.status for one in rows(so) if one.id != dead.id} == {"sent"}
        # From its second lost lease on it is tried alone: its neighbours are called at most that often.
        others = calls_by_key(tmp_path / "calls")
        del others[str(dead.id)]
        assert max(others.values()) <= 3
