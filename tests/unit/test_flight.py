"""One sweeper for the deadlines of all calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sendoff.flight import Deadlines, Flight


class Clock:
    """A loop's clock and its one timer, moved by the test."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Any:
        timer = (when, call)
        self.timers.append(timer)

        class Handle:
            def cancel(handle) -> None:  # noqa: N805 - the outer self is wanted too
                self.timers.remove(timer)

        return Handle()

    def pass_until(self, moment: float) -> None:
        while due := [timer for timer in self.timers if timer[0] <= moment]:
            self.timers.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = moment


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def overdue() -> list[Flight]:
    return []


@pytest.fixture
def deadlines(clock: Clock, overdue: list[Flight]) -> Deadlines:
    return Deadlines(clock, overdue.append)  # type: ignore[arg-type]  # all of a loop that it needs


def flight(deadline: float) -> Flight:
    return Flight([], deadline - 10, deadline)


def test_a_call_that_overstays_is_told_once(clock: Clock, deadlines: Deadlines, overdue: list[Flight]) -> None:
    first = flight(110)
    deadlines.watch(first)
    clock.pass_until(109.9)
    assert overdue == []
    clock.pass_until(500)
    assert overdue == [first]
    assert first.overdue
    assert clock.timers == []


def test_a_call_that_has_ended_is_not_told(clock: Clock, deadlines: Deadlines, overdue: list[Flight]) -> None:
    ended, late = flight(110), flight(112)
    deadlines.watch(ended)
    deadlines.watch(late)
    deadlines.forget(ended)
    deadlines.forget(flight(1))
    clock.pass_until(111)
    assert overdue == []
    clock.pass_until(112)
    assert overdue == [late]
    assert not ended.overdue


def test_many_calls_need_one_timer(clock: Clock, deadlines: Deadlines, overdue: list[Flight]) -> None:
    flights = [flight(110 + number / 10) for number in range(100)]
    for one in flights:
        deadlines.watch(one)
    assert len(clock.timers) == 1
    for one in flights[::2]:
        deadlines.forget(one)
    clock.pass_until(200)
    assert overdue == flights[1::2]


def test_after_the_last_call_the_next_is_watched_again(
    clock: Clock, deadlines: Deadlines, overdue: list[Flight]
) -> None:
    deadlines.watch(flight(110))
    clock.pass_until(150)
    second = flight(160)
    deadlines.watch(second)
    clock.pass_until(160)
    assert overdue[1:] == [second]


def test_a_closed_sweeper_tells_nothing(clock: Clock, deadlines: Deadlines, overdue: list[Flight]) -> None:
    deadlines.watch(flight(110))
    deadlines.close()
    deadlines.close()
    clock.pass_until(500)
    assert overdue == []


def test_whoever_waits_for_a_flight_alone_is_told() -> None:
    waited = flight(1)
    waited.over()
    waited.landed = asyncio.Event()
    waited.over()
    assert waited.landed.is_set()
