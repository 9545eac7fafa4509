"""What a worker refuses, when rows are due, and what it leaves behind in a process that goes on."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from sendoff import ConfigurationError, Notification, NotMigrated, PluginBroken, Priority, Sendoff, UnknownChannel
from sendoff.plugin import Channel, hookimpl
from sendoff.settings import Settings
from sendoff.tables import outgoing
from tests.support import recording
from tests.support.inline import Inline, Plugin
from tests.support.recording import calls
from tests.support.workers import (
    app_for,
    enqueue,
    events,
    notifications,
    row,
    rows,
    serving,
    settings_for,
    statuses,
    wait_for,
    wait_until,
)

# --------------------------------------------------------------------------------------------------------- refusals


def test_no_worker_without_the_tables(empty_database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(empty_database_url, tmp_path)) as so:
        with pytest.raises(NotMigrated, match="sendoff migrate"):
            so.worker()
        with pytest.raises(NotMigrated, match="sendoff migrate"):
            so.drain()


def test_no_worker_whose_sends_could_outlive_their_lease(sqlite_url: str, tmp_path: Path) -> None:
    limits = {"sync": {"limits": {"timeout": 40}}, "async": {"limits": {"timeout": 50, "lease": 120}}}
    with app_for(settings_for(sqlite_url, tmp_path, channels=limits, lease=45, margin=5)) as so:
        with pytest.raises(ConfigurationError, match=r"'sync': timeout 40 s \+ margin 5 s .* lease of 45 s"):
            so.worker(["sync"])
        assert so.worker(["async"]).specs[0].name == "async"


class Broken:
    @hookimpl
    def sendoff_channels(self) -> list[Channel]:
        raise ImportError("no_such_sdk")


def test_no_worker_for_channels_that_nobody_provides(sqlite_url: str, tmp_path: Path) -> None:
    settings = Settings.load(settings_for(sqlite_url, tmp_path), environ={})
    so = Sendoff(settings=settings, plugins=[recording, Broken()], entry_points=False)
    with pytest.raises(UnknownChannel, match="did you mean 'async'"):
        so.worker(["asink"])
    with pytest.raises(PluginBroken, match="no_such_sdk"):
        so.worker(["Broken"])
    assert [spec.name for spec in so.worker().specs] == ["async", "sync", "batch", "asyncbatch"]
    so.close()


# --------------------------------------------------------------------------------------------------------- due times


def test_rows_start_when_they_are_due_and_not_after_they_expired(database_url: str, tmp_path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1.5)
    with app_for(settings_for(database_url, tmp_path)) as so:
        enqueue(
            so,
            [
                Notification(recipient="soon", type="t", channels=["sync"], not_before=soon),
                Notification(recipient="later", type="t", channels=["sync"], not_before=soon + timedelta(hours=1)),
                Notification(recipient="over", type="t", channels=["sync"], ttl=timedelta(hours=1)),
                Notification(recipient="in time", type="t", channels=["sync"], expires_at=soon + timedelta(hours=1)),
            ],
        )
        with so.engine.begin() as connection:
            created = outgoing.c.created_at
            connection.execute(outgoing.update().where(outgoing.c.recipient == "over").values(expires_at=created))
        with serving(so, ["sync"]):
            wait_for(so, {"sent": 2, "pending": 1, "expired": 1})

        assert [call["recipient"] for call in calls(tmp_path / "calls")] == ["in time", "soon"]
        assert row(so, "soon").sent_at >= soon
        assert events(so)["expired"] == 1


def test_an_urgent_row_overtakes_a_backlog(database_url: str, tmp_path: Path) -> None:
    settings = settings_for(database_url, tmp_path, channels={"sync": {"limits": {"concurrency": 2}}}, batch=20)
    with app_for(settings) as so:
        enqueue(so, notifications(3000, "sync", ["sleep:0.005"], priority=Priority.BULK))
        with serving(so, ["sync"]):
            wait_until(lambda: len(calls(tmp_path / "calls")) > 50, "the backlog is being worked on")
            enqueue(so, notifications(1, "sync", prefix="urgent", priority=Priority.URGENT))
            before = len(calls(tmp_path / "calls"))
            wait_until(lambda: "urgent0" in [call["recipient"] for call in calls(tmp_path / "calls")], "the urgent row")
            order = [call["recipient"] for call in calls(tmp_path / "calls")]

            # At most what was leased already, and one claim that began with bulk.
            assert order.index("urgent0") - before < 400
            assert statuses(so)["pending"] > 1500


# ------------------------------------------------------------------------------------------------ what it leaves behind


def test_nothing_is_left_of_workers_that_ended(database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(database_url, tmp_path)) as so:

        async def many() -> list[tuple[int, int, int]]:
            found = []
            for number in range(12):
                worker = so.worker()
                running = asyncio.get_running_loop().create_task(worker.serve())
                names = ("async", "sync", "batch", "asyncbatch")
                groups = [notifications(2, name, prefix=f"r{number}{name}") for name in names]
                await asyncio.to_thread(enqueue, so, *groups)
                await asyncio.to_thread(wait_for, so, {"sent": 8 * (number + 1)})
                worker.stop()
                assert await running == 0
                so.close()
                if number in {1, 11}:
                    gc.collect()
                    found.append(await counted())
            return found

        early, late = asyncio.run(many())
        assert early == late


async def counted() -> tuple[int, int, int]:
    """Tasks, threads and open files of this process; threads that are about to end are waited for."""
    await asyncio.to_thread(wait_until, lambda: our_threads() == [], "the end of all threads")
    return len(asyncio.all_tasks()), len(our_threads()), psutil.Process().num_fds()


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("sendoff")]


def test_calls_that_outlive_the_worker_are_cancelled(sqlite_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(sqlite_url, tmp_path, grace=0.3)) as so:
        enqueue(so, notifications(3, "async", ["hang"]))

        async def one() -> tuple[int, int]:
            worker = so.worker(["async"])
            running = asyncio.get_running_loop().create_task(worker.serve())
            await asyncio.to_thread(wait_until, lambda: len(calls(tmp_path / "calls")) == 3, "the calls")
            worker.stop()
            return await running, len(asyncio.all_tasks())

        assert asyncio.run(one()) == (0, 1)
        assert {(one.status, one.claimed_until is not None, one.try_count) for one in rows(so)} == {
            ("pending", True, 0)
        }


@pytest.fixture
def handlers() -> Iterator[list[object]]:
    """Handlers of this test's own, and afterwards those that were there before."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    mine: list[object] = [lambda *_: None, lambda *_: None]
    for number, handler in zip(numbers, mine, strict=True):
        signal.signal(number, handler)  # type: ignore[arg-type]  # a function of two arguments
    yield mine
    for number, handling in zip(numbers, before, strict=True):
        signal.signal(number, handling)


def test_a_worker_leaves_signal_handlers_as_they_were(sqlite_url: str, tmp_path: Path, handlers: list[object]) -> None:
    with app_for(settings_for(sqlite_url, tmp_path)) as so:
        enqueue(so, notifications(1, "sync"))
        worker = so.worker(["sync"])

        def tell() -> None:
            wait_until(lambda: calls(tmp_path / "calls"), "the send")
            os.kill(os.getpid(), signal.SIGTERM)

        telling = threading.Thread(target=tell)
        telling.start()
        assert worker.run() == 0
        telling.join()

        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
        assert statuses(so) == {"sent": 1}


def test_a_worker_runs_in_any_thread(sqlite_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(sqlite_url, tmp_path)) as so:
        enqueue(so, notifications(1, "sync"))
        worker = so.worker(["sync"])
        codes: list[int] = []
        thread = threading.Thread(target=lambda: codes.append(worker.run()))
        thread.start()
        wait_for(so, {"sent": 1})
        worker.loop.call_soon_threadsafe(worker.stop)
        thread.join(20)

        assert codes == [0]


def test_a_part_that_breaks_ends_the_worker_loudly(
    sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is wrong with this row, the others go back, and somebody is told."""
    good = Inline("good")
    with app_for(settings_for(sqlite_url, tmp_path), Plugin(good)) as so:
        enqueue(so, notifications(1, "good"))
        with so.engine.begin() as connection:
            connection.execute(sa.text("UPDATE sendoff_outgoing SET payload = '[]'"))
        worker = so.worker()

        assert worker.run() == 1
        assert "the worker failed" in caplog.text
