"""A worker leaves when it is told to, whatever goes on in it, and leaves everything in order."""

from __future__ import annotations

import json
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from tests.support import stubborn
from tests.support.commands import environment, started
from tests.support.databases import migrate
from tests.support.nursery import Nursery, WorkerProcess
from tests.support.postgres import OwnServer
from tests.support.recording import calls
from tests.support.workers import (
    app_for,
    enqueue,
    events,
    notifications,
    rows,
    settings_for,
    wait_until,
)

#: Seconds that a busy machine may need on top of the grace period.
SLACK = 12.0


def test_unstarted_rows_go_back_at_no_cost(database_url: str, tmp_path: Path, nursery: Nursery) -> None:
    log = tmp_path / "calls"
    settings = settings_for(
        database_url, tmp_path, channels={"sync": {"limits": {"concurrency": 1}}}, batch=50, grace=20
    )
    with app_for(settings) as so:
        # The quick ones tell the worker that it gets through many a second, so that it leases ahead.
        enqueue(so, notifications(150, "sync", ["sleep:0.004"]))
        enqueue(so, notifications(2, "sync", prefix="v"), notifications(98, "sync", ["hang"], prefix="w"))
        worker = nursery.worker(settings, tmp_path / "log", channels=["sync"])
        wait_until(lambda: "w0" in [call["recipient"] for call in calls(log)], "the row that hangs")
        held = [one.recipient for one in rows(so) if one.claimed_until is not None]
        worker.signal(signal.SIGTERM)
        wait_until(lambda: events(so)["released"] > 0, "the release")
        (tmp_path / "gate").touch()

        assert worker.wait(SLACK) == 0
        called = {call["recipient"] for call in calls(log)}
        given_back = [one for one in rows(so) if one.recipient in held and one.recipient not in called]
        assert len(given_back) >= 10
        assert {
            (one.status, one.attempt_count, one.try_count, one.lost_leases, one.claimed_until, one.verdict)
            for one in given_back
        } == {("pending", 0, 0, 0, None, None)}
        assert [one.next_attempt_at for one in given_back] == [one.first_due_at for one in given_back]
        assert [one.due_at for one in given_back] == [one.first_due_at for one in given_back]
        assert {one.claimed_until for one in rows(so)} == {None}
        assert {one.status for one in rows(so) if one.recipient in called} == {"sent"}


def test_a_second_signal_is_obeyed_at_once(sqlite_url: str, tmp_path: Path, nursery: Nursery) -> None:
    settings = settings_for(sqlite_url, tmp_path, grace=300)
    with app_for(settings) as so:
        enqueue(so, notifications(1, "sync", ["hang"]))
        worker = nursery.worker(settings, tmp_path / "log", channels=["sync"])
        wait_until(lambda: calls(tmp_path / "calls"), "the call")
        worker.signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in worker.logged(), "the first signal")
        worker.signal(signal.SIGTERM)

        assert worker.wait(SLACK) == 1
        [left] = rows(so)
        assert (left.status, left.claimed_until is not None) == ("pending", True)


@pytest.mark.parametrize("first", ["call", "database"])
def test_a_verdict_that_cannot_be_recorded_is_exit_code_1(tmp_path: Path, nursery: Nursery, first: str) -> None:
    with OwnServer() as server:
        migrate(server.url)
        settings = settings_for(server.url, tmp_path, grace=1)
        with app_for(settings) as so:
            enqueue(so, notifications(1, "sync", ["hang"]))
            worker = nursery.worker(settings, tmp_path / "log", channels=["sync"])
            wait_until(lambda: calls(tmp_path / "calls"), "the call")
            server.kill()
            if first == "database":
                wait_until(lambda: "the database is away" in worker.logged(), "the worker's noticing")
            (tmp_path / "gate").touch()
            wait_until(lambda: calls(tmp_path / "calls", "end"), "the end of the call")

            assert worker.terminate(SLACK) == 1
            assert "1 verdicts could not be recorded" in worker.logged()


def test_whatever_hangs_the_worker_leaves(postgres_url: str, tmp_path: Path, nursery: Nursery) -> None:
    workers: dict[str, WorkerProcess] = {}
    for place in stubborn.PLACES:
        settings = settings_for(postgres_url, tmp_path, grace=0.5)
        settings["plugins"] = {"stubborn": {"log": str(tmp_path / place), "place": place}}
        with app_for(settings, stubborn) as so:
            enqueue(so, notifications(1, place))
        workers[place] = nursery.worker(settings, tmp_path / f"{place}.log", plugins=["tests.support.stubborn"])
    wait_until(lambda: all((tmp_path / place).exists() for place in stubborn.PLACES), "all hang")

    began = time.monotonic()
    for worker in workers.values():
        worker.signal(signal.SIGTERM)
    left: dict[str, int | str] = {}
    for place, worker in workers.items():
        try:
            left[place] = worker.wait(max(0.1, SLACK - (time.monotonic() - began)))
        except TimeoutError as error:
            left[place] = str(error)[-1500:]

    assert {place: code for place, code in left.items() if code not in {0, 1}} == {}


def serves(worker: WorkerProcess) -> bool:
    return "serves" in worker.logged()


def test_a_worker_is_stopped_as_soon_as_it_is_started(sqlite_url: str, tmp_path: Path, nursery: Nursery) -> None:
    settings = settings_for(sqlite_url, tmp_path)
    for number in range(5):
        worker = nursery.worker(settings, tmp_path / f"log{number}", channels=["sync"])
        wait_until(partial(serves, worker), "the start")
        assert worker.terminate(SLACK) == 0


def test_a_stopped_worker_is_no_longer_listed(database_url: str, tmp_path: Path, nursery: Nursery) -> None:
    settings = settings_for(database_url, tmp_path)
    with app_for(settings) as so:
        worker = nursery.worker(settings, tmp_path / "log", channels=["sync"])
        wait_until(lambda: [one.pid for one in so.status().workers] == [worker.pid], "the worker's entry")

        assert (worker.terminate(SLACK), so.status().workers) == (0, ())


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_drain_that_is_told_to_stop_gives_back_what_it_has_not_started(
    sqlite_url: str, tmp_path: Path, stop: signal.Signals
) -> None:
    log = tmp_path / "calls"
    settings = settings_for(sqlite_url, tmp_path, channels={"sync": {"limits": {"concurrency": 1}}}, grace=20)
    with app_for(settings) as so:
        enqueue(so, notifications(40, "sync", ["hang"]))
        env = environment(
            SENDOFF_CHANNELS__SYNC__LIMITS__CONCURRENCY="1",
            SENDOFF_PLUGINS__RECORDING__LOG=str(log),
            SENDOFF_PLUGINS__RECORDING__GATE=str(tmp_path / "gate"),
        )
        words = ("drain", "--channels", "sync", "--json", "--database-url", sqlite_url)
        with started(*words, "-p", "tests.support.recording", env=env) as process:
            wait_until(lambda: calls(log), "the first call")
            process.send_signal(stop)
            wait_until(lambda: events(so)["released"] > 0, "the release")
            (tmp_path / "gate").touch()
            out, err = process.communicate(timeout=60)

        assert out, err.decode()
        report = json.loads(out)
        assert (process.returncode, report["sent"], report["remaining"]) == (0, 1, 39)
        assert {one.claimed_until for one in rows(so)} == {None}
        assert sorted({(one.status, one.try_count, one.lost_leases) for one in rows(so)}) == [
            ("pending", 0, 0),
            ("sent", 1, 0),
        ]
