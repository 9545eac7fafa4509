"""Channels and hooks that fail: outages, hanging calls, plugins with troubles of their own."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sendoff import Sendoff
from sendoff.plugin import Channel, Delivery, Limits, Outage, Settlement, Verdict, hookimpl
from sendoff.tables import channel as channel_table
from sendoff.tables import event
from tests.support.inline import Inline, Plugin
from tests.support.recording import calls, calls_by_key
from tests.support.workers import (
    app_for,
    change,
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


def channel_row(so: Sendoff, name: str) -> Any:
    with so.engine.connect() as connection:
        return connection.execute(sa.select(channel_table).where(channel_table.c.name == name)).one_or_none()


def end_pause(so: Sendoff) -> None:
    with so.engine.begin() as connection:
        connection.execute(channel_table.update().values(breaker_until=None))


# ---------------------------------------------------------------------------------------------------------- outages


def test_an_outage_costs_no_row_anything(database_url: str, tmp_path: Path) -> None:
    down = [True]

    def answer(delivery: Delivery) -> Verdict | None:
        time.sleep(0.01)
        return Outage("credential expired") if down[0] else None

    weak, strong = Inline("weak", answer, limits=Limits(concurrency=3)), Inline("strong")
    with app_for(settings_for(database_url, tmp_path), Plugin(weak, strong)) as so:
        enqueue(so, notifications(40, "weak"))
        with serving(so):
            wait_until(lambda: channel_row(so, "weak") is not None, "the channel's row")
            wait_until(lambda: channel_row(so, "weak").breaker_until is not None, "the pause")
            wait_until(lambda: {one.claimed_until for one in rows(so)} == {None}, "the release of every row")
            enqueue(so, notifications(5, "strong", prefix="s"))
            wait_for(so, {"pending": 40, "sent": 5})

            tried = events(so, channel="weak")["outage"]
            assert 1 <= tried <= 6
            assert {(one.attempt_count, one.lost_leases) for one in rows(so, channel="weak")} == {(0, 0)}
            assert [one.next_attempt_at for one in rows(so)][:40] == [one.first_due_at for one in rows(so)][:40]
            paused = channel_row(so, "weak")
            assert (paused.breaker_level, paused.breaker_reason) == (1, "credential expired")
            [first] = outage_times(so)[:1]
            assert 4 <= (paused.breaker_until - first).total_seconds() <= 8

            down[0] = False
            assert len(weak.sent) == tried
            end_pause(so)
            wait_for(so, {"sent": 45})
            wait_until(lambda: channel_row(so, "weak").breaker_level == 0, "the end of the outage")

        assert {(one.attempt_count, one.verdict) for one in rows(so)} == {(0, "sent")}


def outage_times(so: Sendoff) -> list[object]:
    with so.engine.connect() as connection:
        return list(connection.scalars(sa.select(event.c.at).where(event.c.kind == "outage").order_by(event.c.at)))


def test_a_channel_that_cannot_start_is_tried_again(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sendoff.worker.START_AGAIN", 0.2)
    left = [2]

    def start() -> None:
        if left[0]:
            left[0] -= 1
            raise OSError("no credential")

    weak, strong = Inline("weak", start=start), Inline("strong")
    with app_for(settings_for(database_url, tmp_path), Plugin(weak, strong)) as so:
        enqueue(so, notifications(5, "weak"), notifications(5, "strong", prefix="s"))
        with serving(so):
            wait_for(so, {"pending": 5, "sent": 5})
            wait_until(lambda: channel_row(so, "weak").breaker_level >= 1, "the pause")
            assert "no credential" in str(channel_row(so, "weak").breaker_reason)
            wait_until(lambda: left[0] == 0, "another start")
            end_pause(so)
            wait_for(so, {"sent": 10})
            # Otherwise the next outage, weeks later, pauses for twice as long.
            wait_until(lambda: channel_row(so, "weak").breaker_level == 0, "the end of the outage")

        assert {(one.attempt_count, one.try_count) for one in rows(so)} == {(0, 1)}


# ------------------------------------------------------------------------------------------------------ hanging calls


def test_a_hanging_call_is_given_up_and_others_go_on(database_url: str, tmp_path: Path) -> None:
    limits = {"limits": {"concurrency": 2, "timeout": 0.4}}
    settings = settings_for(database_url, tmp_path, channels={"sync": limits, "async": limits})
    with app_for(settings) as so:
        enqueue(so, notifications(2, "sync", ["hang"]), notifications(3, "sync", prefix="v"))
        enqueue(so, notifications(2, "async", ["hang"], prefix="a"), notifications(3, "async", prefix="b"))
        with serving(so):
            wait_until(lambda: events(so)["retry"] == 4, "four calls given up")
            wait_until(lambda: events(so, channel="async")["sent"] == 3, "what is behind the async ones")
            # Both threads of the channel hang: it starves itself alone, and holds on to no row.
            wait_until(lambda: {one.claimed_until for one in rows(so)} == {None}, "the release")
            called = {call["recipient"] for call in calls(tmp_path / "calls") if call["channel"] == "sync"}
            assert called == {"u0", "u1"}
            enqueue(so, notifications(3, "batch", prefix="other"))
            wait_until(lambda: events(so, channel="batch")["sent"] == 3, "another channel")
            assert {one.reason for one in rows(so, channel="async") if one.status == "pending"} == {
                "no answer within 0.4 s"
            }
            (tmp_path / "gate").touch()
            wait_until(lambda: events(so, channel="sync")["sent"] == 5, "all of the channel")

        assert maybe_sent(so) == [True] * 4


def maybe_sent(so: Sendoff) -> list[object]:
    with so.engine.connect() as connection:
        found = connection.scalars(sa.select(event.c.detail).where(event.c.kind == "retry"))
        return [detail["details"]["maybe_sent"] for detail in found]


@pytest.mark.parametrize("channel", ["async", "sync"])
def test_a_late_answer_settles_the_row_that_is_not_called_again_meanwhile(
    database_url: str, tmp_path: Path, channel: str
) -> None:
    settings = settings_for(
        database_url,
        tmp_path,
        channels={channel: {"limits": {"timeout": 0.3}, "retry": {"delays": [0], "attempts": 9}}},
    )
    with app_for(settings) as so:
        enqueue(so, notifications(1, channel, ["ignore"]))
        with serving(so, [channel]):
            wait_until(lambda: events(so)["retry"] == 1, "the call given up")
            wait_until(lambda: events(so)["released"] >= 2, "claims of the row that runs still")
            (tmp_path / "gate").touch()
            wait_for(so, {"sent": 1})

        assert len(calls(tmp_path / "calls")) == 1
        assert (row(so, "u0").attempt_count, row(so, "u0").provider_ref) == (1, "ref")


# --------------------------------------------------------------------------------- plugins with troubles of their own


class Elsewhere(Inline):
    """Looks addresses up in a database of its own, which is away."""

    def __init__(self, name: str) -> None:
        super().__init__(name, look_up=lambda recipients: {})
        self.engine = sa.create_engine("postgresql+psycopg://nobody@/none?host=/nowhere")

    def addresses(self, recipients: Sequence[str], connection: sa.Connection) -> Mapping[str, Sequence[str]] | None:
        with self.engine.connect():
            raise AssertionError


class WrongSql(Inline):
    def addresses(self, recipients: Sequence[str], connection: sa.Connection) -> Mapping[str, Sequence[str]] | None:
        connection.execute(sa.text("SELECT 'secret payload' FROM no_such_table"))
        raise AssertionError


def test_a_failing_look_up_stops_its_own_channel_only(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away, wrong, good = Elsewhere("away"), WrongSql("wrong", look_up=lambda recipients: {}), Inline("good")
    with app_for(settings_for(database_url, tmp_path), Plugin(away, wrong, good)) as so:
        enqueue(so, notifications(3, "away"), notifications(3, "wrong"), notifications(3, "good"))
        with serving(so), caplog.at_level(logging.WARNING):
            wait_until(lambda: events(so)["retry"] == 6, "three retries each")
            wait_until(lambda: events(so)["sent"] == 3, "the good channel's rows")

        assert [record.getMessage() for record in caplog.records if "away (" in record.getMessage()] == []
        failed = [one for one in rows(so) if one.channel != "good"]
        assert {(one.status, one.attempt_count) for one in failed} == {("pending", 0)}
        assert all(str(one.reason).startswith("addresses could not be looked up") for one in failed)
        assert not any("secret payload" in str(one.reason) for one in failed)
        assert not any("sendoff migrate" in str(one.reason) for one in failed)


def leave(recipients: Sequence[str]) -> Mapping[str, Sequence[str]]:
    sys.exit(5)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (leave, "SystemExit: 5"),
        (
            lambda recipients: dict.fromkeys(recipients, "a@b.c"),
            "TypeError: it must answer a list for each recipient (got str)",
        ),
        (
            lambda recipients: {recipient: [7] for recipient in recipients},
            "TypeError: addresses must be text (got int)",
        ),
        (list, "TypeError: it must answer a mapping of recipients to lists (got list)"),
    ],
)
def test_a_look_up_that_answers_nonsense_sends_nothing_and_stops_nobody(
    sqlite_url: str, tmp_path: Path, answer: Any, told: str
) -> None:
    odd, good = Inline("odd", look_up=answer), Inline("good")
    with app_for(settings_for(sqlite_url, tmp_path), Plugin(odd, good)) as so:
        enqueue(so, notifications(2, "odd"))
        with serving(so) as running:
            wait_until(lambda: events(so)["retry"] == 2, "a retry each")
            enqueue(so, notifications(1, "good"))
            wait_until(lambda: events(so)["sent"] == 1, "the good channel's row")
            running.stop()

        assert [] == odd.sent
        failed = {(one.reason, one.attempt_count) for one in rows(so) if one.channel == "odd"}
        assert {(f"addresses could not be looked up: {told}", 0)} == failed


class Leaves(Channel):
    """Its task calls ``sys.exit``, which asyncio takes for the end of the loop."""

    name = "leaves"

    async def send(self, delivery: Delivery) -> Verdict | None:
        async def leave() -> None:
            sys.exit(4)

        await asyncio.create_task(leave())
        return None


def test_a_task_that_calls_exit_ends_itself_alone(sqlite_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(sqlite_url, tmp_path), Plugin(Leaves(), Inline("good"))) as so:
        enqueue(so, notifications(3, "leaves"), notifications(3, "good"))
        report = so.drain()

        assert (3, 3) == (events(so)["sent"], events(so)["retry"])
        assert 6 == report.tries
        assert {"SystemExit in send()"} == {one.reason for one in rows(so) if one.channel == "leaves"}


class Observer:
    def __init__(self, hangs: Path | None = None) -> None:
        self.seen: list[Settlement] = []
        self._hangs = hangs

    @hookimpl
    def sendoff_settled(self, settlements: Sequence[Settlement]) -> None:
        while self._hangs is not None and not self._hangs.exists():
            time.sleep(0.01)
        self.seen += settlements
        raise ValueError("nobody cares")


def test_observers_see_everything_and_hold_up_nothing(database_url: str, tmp_path: Path) -> None:
    observer = Observer(tmp_path / "gate")
    good = Inline("good")
    with app_for(settings_for(database_url, tmp_path, batch=10), Plugin(good), observer) as so:
        enqueue(so, notifications(50, "good"))
        with serving(so) as running:
            wait_for(so, {"sent": 50})
            assert observer.seen == []
            (tmp_path / "gate").touch()
            assert running.stop() == 0

        assert Counter(one.outgoing_id for one in observer.seen) == Counter({one.id: 1 for one in rows(so)})
        assert {(one.status, one.kind) for one in observer.seen} == {("sent", "sent")}


def test_a_newer_payload_is_left_to_a_newer_worker(database_url: str, tmp_path: Path) -> None:
    with app_for(settings_for(database_url, tmp_path)) as so:
        enqueue(so, notifications(2, "async"))
        change(so, payload={"$v": 2, "title": "new"})
        with serving(so):
            wait_until(lambda: events(so)["released"] == 2, "the release")

        assert {(one.status, one.attempt_count, one.try_count) for one in rows(so)} == {("pending", 0, 0)}
        assert calls_by_key(tmp_path / "calls") == {}
        assert statuses(so) == {"pending": 2}


def test_a_database_file_that_is_made_anew_is_served_by_the_worker_that_runs(tmp_path: Path) -> None:
    good, url = Inline("good"), f"sqlite:///{tmp_path / 'mine.db'}"
    with app_for(settings_for(url, tmp_path), Plugin(good)) as so:
        so.migrate()
        enqueue(so, notifications(1, "good"))
        with serving(so):
            wait_for(so, {"sent": 1})
            for file in tmp_path.glob("mine.db*"):
                file.unlink()
            with app_for(settings_for(url, tmp_path), Plugin(Inline("good"))) as anew:
                anew.migrate()
                enqueue(anew, notifications(2, "good"))
                wait_for(anew, {"sent": 2})
