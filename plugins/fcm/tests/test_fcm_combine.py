"""Many devices, one verdict; and the guard that tells a dead phone from a wrong project."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.fcm.tests.helpers import kind_of
from sendoff.plugin import NoTarget, Outage, Permanent, Retryable, Sent, Verdict
from sendoff_fcm.combine import Memo, combine, shown
from sendoff_fcm.deadrun import DeadRun, Step

OK, DEAD, LATER, BAD, DOWN = Sent("ref"), NoTarget("gone"), Retryable("later"), Permanent("bad"), Outage("down")
Success = Literal["any", "all"]


def combined(success: Success, *verdicts: Verdict, memo: Memo | None = None) -> Verdict:
    return combine([(f"t{index}", one) for index, one in enumerate(verdicts)], success, memo or Memo())


@pytest.mark.parametrize(
    ("verdicts", "with_any", "with_all"),
    [
        ((OK,), "sent", "sent"),
        ((OK, DEAD, OK), "sent", "sent"),
        ((OK, BAD), "sent", "sent"),
        ((OK, LATER), "sent", "retryable"),
        ((OK, DOWN), "sent", "retryable"),
        ((DEAD, LATER), "retryable", "retryable"),
        ((BAD, LATER), "retryable", "retryable"),
        ((LATER, DOWN), "outage", "outage"),
        ((DEAD, DOWN), "outage", "outage"),
        ((DEAD, BAD), "permanent", "permanent"),
        ((DEAD, DEAD), "no_target", "no_target"),
        ((), "no_target", "no_target"),
    ],
)
def test_what_several_devices_come_to(verdicts: tuple[Verdict, ...], with_any: str, with_all: str) -> None:
    assert [with_any, with_all] == [kind_of(combined(success, *verdicts)) for success in ("any", "all")]


def test_results_are_kept_in_order() -> None:
    verdict = combined("any", OK, DEAD, LATER)
    assert verdict.details is not None
    found = [(one["address"], one["verdict"]) for one in verdict.details["addresses"]]
    assert [("t0", "sent"), ("t1", "no_target"), ("t2", "retryable")] == found


def test_the_longest_wait_counts_and_any_counted_failure_uses_the_budget() -> None:
    calm = Retryable("quota", retry_after=timedelta(hours=2), counts=False)
    verdict = combined("any", calm, Retryable("reset", maybe_sent=True))
    assert isinstance(verdict, Retryable)
    assert (timedelta(hours=2), True, True) == (verdict.retry_after, verdict.counts, verdict.maybe_sent)
    assert not getattr(combined("any", calm, calm), "counts", True)


def test_the_next_try_asks_only_those_who_may_still_accept() -> None:
    verdict = combined("all", OK, LATER, DEAD)
    assert isinstance(verdict, Retryable)
    memo = Memo.read(verdict.progress)
    assert ["t1"] == memo.open(["t0", "t1", "t2"])
    assert isinstance(combine([("t1", OK)], "all", memo), Sent)
    assert isinstance(combine([("t1", DEAD)], "all", memo), Sent)
    assert isinstance(combine([], "all", memo), Sent)


@given(st.dictionaries(st.text(), st.lists(st.integers() | st.text()) | st.none() | st.text()) | st.none())
def test_any_memo_can_be_read(progress: dict[str, object] | None) -> None:
    assert ["a", "b"] == Memo.read(progress).open(["a", "b", "a"])


def test_addresses_are_shown_without_being_usable() -> None:
    assert ("phone-1", "aaaaaaaa…bbbbbbbb") == (shown("phone-1"), shown("a" * 80 + "b" * 80))


# ------------------------------------------------------------------------------------------------------- dead in a row


def test_one_dead_phone_is_deactivated_at_once() -> None:
    assert Step((("t", "UNREGISTERED"),)) == DeadRun().see([("t", "UNREGISTERED")])


def test_a_hundred_dead_in_a_row_are_an_outage_and_their_devices_are_restored() -> None:
    run = DeadRun()
    steps = [run.see([(f"t{index}", "UNREGISTERED")]) for index in range(101)]
    assert [False] * 99 + [True] * 2 == [step.tripped for step in steps]
    assert tuple(f"t{index}" for index in range(100)) == steps[99].restore
    assert [(), ()] == [step.deactivate for step in steps[99:]]


def test_a_success_between_ends_the_run() -> None:
    run = DeadRun(limit=3)
    for token in ("a", "b"):
        run.see([(token, "UNREGISTERED")])
    assert Step((("c", "UNREGISTERED"),)) == run.see([("ok", None), ("c", "UNREGISTERED")])
    assert run.see([("e", "UNREGISTERED"), ("f", "UNREGISTERED")]).tripped
    assert not run.see([("ok", None)]).tripped
    assert Step((("g", "UNREGISTERED"),)) == run.see([("g", "UNREGISTERED")])


def test_the_same_phone_again_is_one_phone() -> None:
    run = DeadRun(limit=3)
    assert not any(run.see([("t", "UNREGISTERED")]).tripped for _ in range(10))
