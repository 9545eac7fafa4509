"""Limits and schedules refuse what would stop a channel or let it run wild."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendoff.errors import ConfigurationError
from sendoff.limits import Limits, Retry

INF, NAN = float("inf"), float("nan")


def test_timedeltas_are_as_good_as_seconds() -> None:
    assert Limits(timeout=9, lease=60) == Limits(timeout=timedelta(seconds=9), lease=timedelta(minutes=1))
    assert Retry(delays=(1.0, 2.0), give_up_after=60) == Retry(
        delays=[timedelta(seconds=1), 2], give_up_after=timedelta(minutes=1)
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 1.5}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"batch": 0}, "batch"),
        ({"batch": -3}, "batch"),
        ({"batch": None}, "batch"),
        ({"batch": "7"}, "batch"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": NAN}, "timeout"),
        ({"timeout": INF}, "timeout"),
        ({"lease": 0}, "lease"),
        ({"lease": INF}, "lease"),
        ({"rate": 0}, "rate"),
        ({"rate": -1.0}, "rate"),
        ({"rate": NAN}, "rate"),
        ({"rate": INF}, "rate"),
    ],
)
def test_a_bad_limit_is_refused_by_its_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"limits\.{named} must be"):
        Limits(**change)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"attempts": 0}, "attempts"),
        ({"attempts": -2}, "attempts"),
        ({"delays": (30, -1)}, "delays"),
        ({"delays": (NAN,)}, "delays"),
        ({"delays": (INF,)}, "delays"),
        ({"delays": (), "attempts": 2}, "delays is empty"),
        ({"jitter": -0.1}, "jitter"),
        ({"jitter": 1}, "jitter"),
        ({"jitter": NAN}, "jitter"),
        ({"give_up_after": 0}, "give_up_after"),
        ({"give_up_after": NAN}, "give_up_after"),
    ],
)
def test_a_bad_schedule_is_refused_by_its_name(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Retry(**change)


def test_there_is_one_attempt_more_than_there_are_delays() -> None:
    assert Retry().attempts == 5
    assert Retry(delays=(1, 2)).attempts == 3
    assert Retry(delays=()).attempts == 1


def test_one_may_never_give_up() -> None:
    assert Retry(give_up_after=INF).give_up_after == INF


def test_the_last_delay_repeats() -> None:
    retry = Retry(delays=(1, 2), attempts=9)
    assert [1, 2, 2, 2] == [retry.delay(failures) for failures in (1, 2, 3, 100)]


@given(st.lists(st.floats(0, 1e9), max_size=9), st.integers(1, 1000))
def test_every_failure_has_a_delay(delays: list[float], failures: int) -> None:
    assert Retry(delays=tuple(delays)).delay(failures) in {*delays, 0.0}
