"""How long an outage pauses a channel."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sendoff.breaker import Breaker


def test_the_pause_doubles_up_to_the_longest() -> None:
    assert Breaker().pauses() == [5, 10, 20, 40, 60]


def test_a_providers_word_is_a_floor_under_every_level() -> None:
    assert Breaker(floor=30).pauses() == [30, 30, 30, 40, 60]
    assert Breaker(floor=300).pauses() == [300] * 5


def test_a_first_pause_that_is_the_longest_is_the_only_one() -> None:
    assert Breaker(first=60, longest=60).pauses() == [60]


@given(st.floats(0.1, 100), st.floats(0.1, 10_000), st.floats(0, 100_000))
def test_pauses_never_shrink(first: float, longest: float, floor: float) -> None:
    pauses = Breaker(first, longest, floor).pauses()
    assert sorted(pauses) == pauses
    assert pauses[-1] == max(first, longest, floor)
