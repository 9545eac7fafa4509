"""The rows of channels: pauses, the breaker, who listens."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from sendoff.breaker import Breaker
from sendoff.store import Store
from sendoff.store.channels import close_breaker, ensure_channels, keep_listening, open_breaker, paused
from sendoff.store.sql import db_now, plus
from sendoff.tables import channel
from tests.support.rows import EMAIL, claim, now, put_one


@pytest.fixture(autouse=True)
def _channels(store: Store) -> None:
    store.run(lambda connection: ensure_channels(connection, [EMAIL, "sms"]))


def state(store: Store, name: str = EMAIL) -> dict[str, Any]:
    found = store.read(lambda connection: connection.execute(sa.select(channel).where(channel.c.name == name)).one())
    return dict(found._mapping)


def pause_is_over(store: Store) -> None:
    over = channel.update().values(breaker_until=plus(db_now(), -1))
    store.run(lambda connection: connection.execute(over))


def outage(store: Store, **breaker: float) -> bool:
    return store.run(lambda connection: open_breaker(connection, EMAIL, Breaker(**breaker), "401"))


def left(store: Store) -> float:
    reason, seconds = store.read(paused)[EMAIL]
    assert reason == "outage: 401"
    assert seconds is not None
    return seconds


def test_channels_are_made_once(store: Store) -> None:
    store.run(lambda connection: ensure_channels(connection, ["sms", EMAIL, "push", "push"]))
    names = store.read(lambda connection: connection.scalars(sa.select(channel.c.name)).all())
    assert sorted(names) == ["email", "push", "sms"]


def test_channels_may_be_made_from_several_processes_at_once(store: Store) -> None:
    start = threading.Barrier(4)

    def ensure(_: int) -> None:
        start.wait()
        store.run(lambda connection: ensure_channels(connection, [f"channel{number}" for number in range(20)]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ensure, range(4)))
    assert len(store.read(lambda connection: connection.scalars(sa.select(channel.c.name)).all())) == 22


def test_an_outage_pauses_the_channel(store: Store) -> None:
    put_one(store)
    assert store.read(paused) == {}
    assert outage(store)
    assert 0 < left(store) <= 5
    assert state(store)["breaker_level"] == 1
    assert claim(store) == []
    pause_is_over(store)
    assert store.read(paused) == {}
    assert len(claim(store)) == 1


def test_ninety_outages_in_flight_move_the_level_once(store: Store) -> None:
    assert [True] + [False] * 89 == [outage(store) for _ in range(90)]
    assert state(store)["breaker_level"] == 1


def test_outages_at_once_move_the_level_once(store: Store) -> None:
    start = threading.Barrier(4)

    def one(_: int) -> bool:
        start.wait()
        return outage(store)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(one, range(4))) == 1
    assert state(store)["breaker_level"] == 1


def test_the_pause_doubles_while_outages_follow_each_other(store: Store) -> None:
    pauses = []
    for _ in range(7):
        assert outage(store)
        pauses.append(left(store))
        pause_is_over(store)
    assert pauses == pytest.approx([5, 10, 20, 40, 60, 60, 60], abs=3)


def test_a_providers_word_is_a_floor(store: Store) -> None:
    outage(store, floor=300.0)
    assert left(store) == pytest.approx(300, abs=10)


def test_an_answer_closes_the_breaker(store: Store) -> None:
    outage(store)
    store.run(lambda connection: close_breaker(connection, EMAIL))
    assert store.read(paused) == {}
    row = state(store)
    assert (0, None, None) == (row["breaker_level"], row["breaker_until"], row["breaker_reason"])
    outage(store)
    assert left(store) <= 5


def test_a_pause_by_people_is_not_lifted_by_an_answer(store: Store) -> None:
    until = now(store) + timedelta(hours=1)
    chosen = channel.update().where(channel.c.name == EMAIL)
    store.run(lambda connection: connection.execute(chosen.values(paused_by="ops", pause_reason="quota")))
    outage(store)
    store.run(lambda connection: close_breaker(connection, EMAIL))
    assert {EMAIL: ("paused by ops: quota", None)} == store.read(paused)
    store.run(lambda connection: connection.execute(chosen.values(paused_until=until)))
    [(reason, seconds)] = store.read(paused).values()
    assert reason == "paused by ops: quota"
    assert seconds == pytest.approx(3600, abs=60)


def test_a_listener_says_so_for_a_while(store: Store) -> None:
    store.run(lambda connection: keep_listening(connection, [EMAIL]))
    first = state(store)["listening_until"]
    assert now(store) < first <= now(store) + timedelta(seconds=1.5)
    assert state(store, "sms")["listening_until"] is None
    chosen = channel.update().values(listening_until=plus(db_now(), 1.4))
    store.run(lambda connection: connection.execute(chosen.where(channel.c.name == EMAIL)))
    kept = state(store)["listening_until"]
    store.run(lambda connection: keep_listening(connection, [EMAIL]))
    assert kept <= state(store)["listening_until"]
