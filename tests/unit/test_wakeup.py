"""How an idle worker falls asleep."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sendoff.wakeup import idle_pause


def test_it_looks_again_soon_and_then_ever_more_seldom() -> None:
    assert [0.02, 0.05, 0.1, 0.2, 0.4, 1.0, 1.0] == [idle_pause(looks, 1.0) for looks in range(7)]


@given(st.integers(0, 10**6), st.floats(0.001, 100))
def test_it_never_sleeps_longer_than_its_poll(looks: int, poll: float) -> None:
    assert 0 < idle_pause(looks, poll) <= poll
