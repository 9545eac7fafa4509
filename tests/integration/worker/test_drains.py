"""A drain, and a first try at once: the worker's path, once, and always an end to it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sendoff import Notification, Sendoff, Step
from sendoff.tables import channel as channel_table
from tests.support.inline import Inline, Plugin
from tests.support.recording import calls, calls_by_key
from tests.support.workers import (
    app_for,
    enqueue,
    events,
    notifications,
    rows,
    serving,
    settings_for,
    statuses,
    wait_for,
)


def pause(so: Sendoff, name: str) -> None:
    with so.engine.begin() as connection:
        connection.execute(channel_table.insert().values(name=name, paused_by="ann"))


# ------------------------------------------------------------------------------------------------------------ drain


def test_a_drain_sends_what_is_due_and_counts_it(database_url: str, tmp_path: Path) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    with app_for(settings_for(database_url, tmp_path)) as so:
        enqueue(
            so,
            notifications(30, "async"),
            notifications(2, "sync", ["retry"], prefix="r"),
            notifications(1, "batch", ["permanent"], prefix="p"),
            notifications(1, "batch", ["no target"], prefix="n"),
            notifications(3, "async", prefix="later", not_before=later),
        )
        report = so.drain()

        assert (report.tries, report.sent, report.retried, report.dead, report.remaining) == (34, 30, 2, 2, 0)
        assert statuses(so) == {"sent": 30, "pending": 5, "dead": 2}
        assert so.status().workers == ()
        assert so.drain().tries == 0


def test_a_drain_keeps_to_its_channels_and_its_limit(database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(database_url, tmp_path)) as so:
        enqueue(so, *(notifications(20, name, prefix=name) for name in ("async", "sync", "batch", "asyncbatch")))
        first = so.drain(channels=["sync"])
        second = so.drain(limit=7)
        third = so.drain(limit=1, channels=["batch", "async"])

        assert (first.sent, first.remaining) == (20, 0)
        assert (second.sent, second.remaining) == (7, 53)
        assert (third.sent, statuses(so)) == (1, {"sent": 28, "pending": 52})
        assert {one.claimed_until for one in rows(so)} == {None}


def test_a_drain_goes_on_with_the_steps_behind_a_leader(database_url: str, tmp_path: Path) -> None:
    leader, second, third = Inline("leader", leads=True), Inline("second"), Inline("third")
    with app_for(settings_for(database_url, tmp_path), Plugin(leader, second, third)) as so:
        steps: list[str | Step] = ["leader", "second", Step("third", after="second", when="dead")]
        so.enqueue(Notification(recipient="u", type="t", channels=steps), None)
        report = so.drain()

        assert (report.sent, leader.recipients, second.recipients, third.recipients) == (2, ["u"], ["u"], [])
        assert {one.channel: one.status for one in rows(so)} == {
            "leader": "sent",
            "second": "sent",
            "third": "cancelled",
        }


@pytest.mark.parametrize("act", ["hang", "ignore"])
def test_a_drain_ends_within_its_budget_whatever_hangs(sqlite_url: str, tmp_path: Path, act: str) -> None:
    with app_for(settings_for(sqlite_url, tmp_path)) as so:
        enqueue(so, notifications(3, "sync", [act]), notifications(3, "async", [act]), notifications(3, "batch"))
        began = time.monotonic()
        report = so.drain(budget=2)

        assert (time.monotonic() - began < 10, report.sent) == (True, 3)


def test_a_drain_without_a_budget_ends_when_every_call_hangs(database_url: str, tmp_path: Path) -> None:
    limits = {"concurrency": 2, "timeout": 0.3}
    settings = settings_for(database_url, tmp_path, channels={"sync": {"limits": limits}, "async": {"limits": limits}})
    with app_for(settings) as so:
        enqueue(so, notifications(5, "sync", ["hang"]), notifications(5, "async", ["ignore"], prefix="v"))
        report = so.drain()

        assert (report.retried, report.remaining, statuses(so)) == (4, 6, {"pending": 10})
        assert {one.claimed_until for one in rows(so)} == {None}


def test_a_drain_waits_for_a_slow_look_up(database_url: str, tmp_path: Path) -> None:
    def look_up(recipients: object) -> dict[str, list[str]]:
        time.sleep(0.5)
        return {"u0": ["a"], "u1": ["b"]}

    slow = Inline("slow", look_up=look_up)
    with app_for(settings_for(database_url, tmp_path), Plugin(slow)) as so:
        enqueue(so, notifications(2, "slow"))

        assert (so.drain().sent, sorted(slow.recipients)) == (2, ["u0", "u1"])


def test_a_channel_that_cannot_start_leaves_its_rows_alone(database_url: str, tmp_path: Path) -> None:
    def start() -> None:
        raise OSError("no credential")

    broken, good = Inline("broken", start=start), Inline("good")
    with app_for(settings_for(database_url, tmp_path), Plugin(broken, good)) as so:
        enqueue(so, notifications(2, "broken"), notifications(2, "good", prefix="g"))
        report = so.drain()
        told = so.send_now(Notification(recipient="now", type="t", channels=["broken"]))

        assert (report.sent, report.remaining, report.tries) == (2, 2, 2)
        assert [(one.status, one.state, one.try_count) for one in told] == [("pending", "due", 0)]
        assert broken.sent == []


def test_a_drain_runs_inside_a_running_loop(database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(database_url, tmp_path)) as so:
        enqueue(so, notifications(3, "async"), notifications(3, "sync", prefix="v"))

        async def handler() -> int:
            return so.drain().sent

        assert asyncio.run(handler()) == 6


def test_drains_and_workers_at_once_send_each_row_once(database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(database_url, tmp_path, batch=20)) as so, app_for(so_settings(so)) as other:
        enqueue(so, notifications(200, "async", ["sleep:0.01"]))
        with serving(so, ["async"]):
            other.drain(channels=["async"])
            wait_for(so, {"sent": 200})

        assert calls_by_key(tmp_path / "calls") == Counter({str(one.id): 1 for one in rows(so)})


def so_settings(so: Sendoff) -> dict[str, dict[str, object]]:
    values: dict[str, dict[str, object]] = dict(so.settings._values)
    return values


# --------------------------------------------------------------------------------------------------------- send_now


def test_send_now_tells_the_verdict_at_once(database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(database_url, tmp_path)) as so:
        told = {
            act: so.send_now(Notification(recipient=act, type="t", channels=["sync"], data={"acts": [act]}))
            for act in ("sent", "permanent", "retry", "outage")
        }

        assert {act: [(one.status, one.verdict) for one in found] for act, found in told.items()} == {
            "sent": [("sent", "sent")],
            "permanent": [("dead", "permanent")],
            "retry": [("pending", "retryable")],
            "outage": [("pending", "outage")],
        }
        assert {one.claimed_until for one in rows(so)} == {None}


def test_what_send_now_did_not_get_through_is_left_to_the_worker(database_url: str, tmp_path: Path) -> None:
    settings = settings_for(database_url, tmp_path, channels={"sync": {"retry": {"delays": [0.3], "attempts": 4}}})
    with app_for(settings) as so:
        [told] = so.send_now(Notification(recipient="u", type="t", channels=["sync"], data={"acts": ["retry", "sent"]}))
        assert (told.status, told.attempt_count) == ("pending", 1)
        with serving(so, ["sync"]):
            wait_for(so, {"sent": 1})

        assert events(so) == {"created": 1, "retry": 1, "sent": 1}


def test_send_now_of_a_duplicate_sends_nothing_twice(database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(database_url, tmp_path)) as so:
        one = Notification(recipient="u", type="t", channels=["sync"], dedup_key="k")
        enqueue(so, [one])
        first, second = so.send_now(one), so.send_now(one)

        assert [found.status for found in (*first, *second)] == ["sent", "sent"]
        assert len(calls(tmp_path / "calls")) == 1


def test_send_now_sends_the_leader_and_the_step_behind_it(database_url: str, tmp_path: Path) -> None:
    order: list[str] = []

    def note(name: str) -> Inline:
        return Inline(name, lambda delivery: order.append(name), leads=name == "leader")

    with app_for(settings_for(database_url, tmp_path), Plugin(note("leader"), note("follower"))) as so:
        told = so.send_now(Notification(recipient="u", type="t", channels=["follower", "leader"]))

        assert (order, [(one.channel, one.status) for one in told]) == (
            ["leader", "follower"],
            [("follower", "sent"), ("leader", "sent")],
        )


def test_send_now_keeps_to_not_before_and_to_a_pause(database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(database_url, tmp_path)) as so:
        pause(so, "batch")
        later = datetime.now(UTC) + timedelta(hours=1)
        waits = so.send_now(Notification(recipient="w", type="t", channels=["sync"], not_before=later))
        paused = so.send_now(Notification(recipient="p", type="t", channels=["batch", "async"]))

        assert [(one.status, one.state) for one in waits] == [("pending", "scheduled")]
        assert [(one.channel, one.status, one.claimed_until) for one in paused] == [
            ("batch", "pending", None),
            ("async", "sent", None),
        ]
        assert [call["recipient"] for call in calls(tmp_path / "calls")] == ["p"]


def test_send_now_gives_a_hanging_channel_up(sqlite_url: str, tmp_path: Path) -> None:
    settings = settings_for(sqlite_url, tmp_path, channels={"async": {"limits": {"timeout": 0.3}}})
    with app_for(settings) as so:
        [told] = so.send_now(Notification(recipient="u", type="t", channels=["async"], data={"acts": ["ignore"]}))

        assert (told.status, told.reason) == ("pending", "no answer within 0.3 s")


def test_many_first_tries_at_once(database_url: str, tmp_path: Path) -> None:
    """As in a web server's threads."""
    with app_for(settings_for(database_url, tmp_path)) as so:

        async def all_at_once() -> list[object]:
            tries = [
                asyncio.to_thread(so.send_now, Notification(recipient=f"u{number}", type="t", channels=["async"]))
                for number in range(8)
            ]
            return list(await asyncio.gather(*tries))

        assert len(asyncio.run(all_at_once())) == 8
        assert (statuses(so), len(calls(tmp_path / "calls"))) == ({"sent": 8}, 8)
