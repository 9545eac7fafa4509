"""One worker, each verdict and each way of calling a channel."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from sendoff import Notification
from tests.support.recording import calls, calls_by_key
from tests.support.workers import (
    app_for,
    enqueue,
    events,
    notifications,
    row,
    rows,
    serving,
    settings_for,
    wait_for,
    wait_until,
)

CHANNELS = ["async", "sync", "batch", "asyncbatch"]
SINGLE = ["async", "sync"]
BATCH = ["batch", "asyncbatch"]


def test_what_is_rolled_back_was_never_there(database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(database_url, tmp_path)) as so, serving(so, ["async"]):
        with so.engine.connect() as connection:
            for one in notifications(5, "async", prefix="gone"):
                so.enqueue(one, connection)
            connection.rollback()
        enqueue(so, notifications(1, "async"))
        wait_for(so, {"sent": 1})

        assert [call["recipient"] for call in calls(tmp_path / "calls")] == ["u0"]
        assert events(so) == {"created": 1, "sent": 1}


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_row_is_sent_once(database_url: str, tmp_path: Path, channel: str) -> None:
    with app_for(settings_for(database_url, tmp_path)) as so, serving(so, [channel]) as running:
        enqueue(so, notifications(120, channel))
        wait_for(so, {"sent": 120})

        assert running.stop() == 0
        assert calls_by_key(tmp_path / "calls") == Counter({str(one.id): 1 for one in rows(so)})
        assert events(so) == {"created": 120, "sent": 120}
        assert {(one.attempt_count, one.try_count, one.claimed_until, one.lost_leases) for one in rows(so)} == {
            (0, 1, None, 0)
        }


@pytest.mark.parametrize("channel", SINGLE)
def test_a_row_that_raises_costs_its_neighbours_nothing(database_url: str, tmp_path: Path, channel: str) -> None:
    settings = settings_for(database_url, tmp_path, channels={channel: {"retry": {"delays": [0.2], "attempts": 5}}})
    acts = ["raise", "stop iteration", "exit", "nonsense"]
    with app_for(settings) as so:
        enqueue(so, *(notifications(1, channel, [act, "sent"], prefix=act) for act in acts))
        enqueue(so, notifications(4, channel, prefix="good"))
        with serving(so, [channel]):
            wait_for(so, {"sent": 8})

        bad = [one for one in rows(so) if not one.recipient.startswith("good")]
        assert [(one.attempt_count, one.try_count) for one in bad] == [(1, 2)] * 4
        assert events(so, outgoing_id=bad[0].id) == {"created": 1, "retry": 1, "sent": 1}
        assert events(so) == {"created": 8, "retry": 4, "sent": 8}


@pytest.mark.parametrize("channel", BATCH)
def test_a_batch_that_raises_is_tried_again_as_a_whole(database_url: str, tmp_path: Path, channel: str) -> None:
    settings = settings_for(database_url, tmp_path, channels={channel: {"retry": {"delays": [0.2], "attempts": 5}}})
    with app_for(settings) as so:
        enqueue(so, notifications(1, channel, ["raise", "sent"]), notifications(4, channel, prefix="good"))
        with serving(so, [channel]):
            wait_for(so, {"sent": 5})

        assert {(one.attempt_count, one.try_count) for one in rows(so)} == {(1, 2)}


@pytest.mark.parametrize("channel", BATCH)
def test_one_bad_verdict_in_a_batch_is_that_row_s_alone(database_url: str, tmp_path: Path, channel: str) -> None:
    settings = settings_for(database_url, tmp_path, channels={channel: {"retry": {"delays": [0.2], "attempts": 5}}})
    with app_for(settings) as so:
        acts = ["retry", "permanent", "no target", "nonsense", "none"]
        enqueue(so, *(notifications(1, channel, [act, "sent"], prefix=act) for act in acts))
        with serving(so, [channel]):
            wait_for(so, {"sent": 3, "dead": 2})

        assert {one.recipient: (one.status, one.attempt_count, one.try_count) for one in rows(so)} == {
            "retry0": ("sent", 1, 2),
            "permanent0": ("dead", 0, 1),
            "no target0": ("dead", 0, 1),
            "nonsense0": ("sent", 1, 2),
            "none0": ("sent", 0, 1),
        }


@pytest.mark.parametrize(("channel", "act", "number"), [("batch", "short", 4), ("asyncbatch", "long", 6)])
def test_a_wrong_number_of_verdicts_tells_nothing(
    database_url: str, tmp_path: Path, channel: str, act: str, number: int
) -> None:
    settings = settings_for(database_url, tmp_path, channels={channel: {"retry": {"delays": [60]}}})
    with app_for(settings) as so:
        enqueue(so, notifications(1, channel, [act]), notifications(4, channel, prefix="good"))
        with serving(so, [channel]):
            wait_until(lambda: events(so)["retry"] == 5, "five retries")

        assert {(one.status, one.attempt_count, one.reason) for one in rows(so)} == {
            ("pending", 1, f"send_many() returned {number} verdicts for 5 deliveries")
        }


def test_each_verdict_does_what_it_says(database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_for(database_url, tmp_path, channels={"sync": {"retry": {"delays": [300], "jitter": 0}}})
    acts = ["sent", "none", "no target", "permanent", "retry", "retry:7200", "uncounted", "progress"]
    with app_for(settings) as so, caplog.at_level(logging.ERROR, "sendoff"):
        enqueue(so, *(notifications(1, "sync", [act], prefix=act) for act in acts))
        with serving(so, ["sync"]):
            wait_until(lambda: all(one.try_count for one in rows(so)), "a try of each")

        found = {one.recipient[:-1]: one for one in rows(so)}
        assert {act: (one.status, one.verdict, one.attempt_count, one.reason) for act, one in found.items()} == {
            "sent": ("sent", "sent", 0, None),
            "none": ("sent", "sent", 0, None),
            "no target": ("dead", "no_target", 0, "nobody there"),
            "permanent": ("dead", "permanent", 0, "refused for good"),
            "retry": ("pending", "retryable", 1, "try later"),
            "retry:7200": ("pending", "retryable", 1, "try later"),
            "uncounted": ("pending", "retryable", 0, "HTTP 503"),
            "progress": ("pending", "retryable", 1, "half done"),
        }
        assert found["progress"].progress == {"done": [1]}
        waits = {
            act: (one.next_attempt_at - one.first_due_at).total_seconds()
            for act, one in found.items()
            if one.next_attempt_at
        }
        assert {act: round(wait / 100) * 100 for act, wait in waits.items()} == {
            "retry": 300,
            "retry:7200": 7200,
            "uncounted": 300,
            "progress": 300,
        }
    dead = sorted(record.getMessage().split(": ", 1)[0] for record in caplog.records)
    assert dead == ["dead letter", "dead letter"]


def test_no_target_is_sent_where_the_channel_says_so(database_url: str, tmp_path: Path) -> None:
    settings = settings_for(database_url, tmp_path, channels={"sync": {"on_no_target": "sent"}})
    with app_for(settings) as so:
        enqueue(so, notifications(1, "sync", ["no target"]))
        with serving(so, ["sync"]):
            wait_for(so, {"sent": 1})

        assert (row(so, "u0").verdict, events(so)) == ("no_target", {"created": 1, "no_target": 1})


def test_the_budget_is_used_up_in_the_end(database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_for(database_url, tmp_path, channels={"async": {"retry": {"delays": [0], "attempts": 3}}})
    with app_for(settings) as so, caplog.at_level(logging.ERROR, "sendoff"):
        enqueue(so, notifications(1, "async", ["retry"]))
        with serving(so, ["async"]):
            wait_for(so, {"dead": 1})

        dead = row(so, "u0")
        assert (dead.attempt_count, dead.try_count, dead.next_attempt_at) == (3, 3, None)
        assert events(so) == {"created": 1, "retry": 2, "dead": 1}
    assert [record.getMessage() for record in caplog.records] == [
        f"dead letter: async {dead.id} to u0 (test): try later"
    ]


def test_a_uncounted_failure_gives_up_by_the_clock(database_url: str, tmp_path: Path) -> None:
    settings = settings_for(
        database_url, tmp_path, channels={"async": {"retry": {"delays": [0.1], "give_up_after": 0.5}}}
    )
    with app_for(settings) as so:
        enqueue(so, notifications(1, "async", ["uncounted"]))
        with serving(so, ["async"]):
            wait_for(so, {"dead": 1})

        dead = row(so, "u0")
        assert (dead.attempt_count, dead.reason) == (0, "gave up after 0.0 h: HTTP 503")


def test_a_retry_brings_progress_along(database_url: str, tmp_path: Path) -> None:
    settings = settings_for(database_url, tmp_path, channels={"sync": {"retry": {"delays": [0], "attempts": 5}}})
    with app_for(settings) as so:
        enqueue(so, notifications(1, "sync", ["progress", "retry", "sent"]))
        with serving(so, ["sync"]):
            wait_for(so, {"sent": 1})

    assert [(call["attempt"], call["progress"]) for call in calls(tmp_path / "calls")] == [
        (1, None),
        (2, {"done": [1]}),
        (3, {"done": [1]}),
    ]


def test_a_cancel_in_flight_leaves_a_sent_row_sent_and_ends_any_other(database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(database_url, tmp_path)) as so:
        good, bad = (
            so.enqueue(Notification(recipient=name, type="t", channels=["sync"], data={"acts": [act]}), None)
            for name, act in (("good", "hang"), ("bad", "hang retry"))
        )
        with serving(so, ["sync"]):
            wait_until(lambda: len(calls(tmp_path / "calls")) == 2, "both calls")
            assert [one.outcome for told in (good, bad) for one in so.cancel(told.notification_id)] == [
                "in_flight",
                "in_flight",
            ]
            (tmp_path / "gate").touch()
            wait_for(so, {"sent": 1, "cancelled": 1})

        assert (row(so, "good").status, row(so, "bad").reason) == ("sent", "cancelled: try later")
