"""What verdicts mean for rows: the table, the budget, the schedule."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendoff.limits import Retry
from sendoff.policy import Facts, Policy, Transition, decide, poisoned
from sendoff.verdict import RETRY_AFTER_CAP, NoTarget, Outage, Permanent, Retryable, Sent, Verdict

DUE = 1_000_000.0
DAY = 86_400.0


def facts(attempts: int = 0, tries: int | None = None) -> Facts:
    return Facts(attempts, attempts if tries is None else tries, DUE)


def decided(
    verdict: Verdict,
    attempts: int = 0,
    *,
    tries: int | None = None,
    policy: Policy | None = None,
    waited: float = 0.0,
    jitter: float = 0.0,
) -> Transition:
    return decide(facts(attempts, tries), verdict, policy or Policy(), DUE + waited, jitter=jitter)


# --------------------------------------------------------------------------------------------------------- verdicts


def test_sent_is_final_and_keeps_the_providers_id() -> None:
    expected = Transition(
        kind="sent", status="sent", verdict="sent", provider_ref="m-1", details={"node": 3}, tried=1, counted=0
    )
    assert expected == decided(Sent(provider_ref="m-1", details={"node": 3}))


@pytest.mark.parametrize(("on_no_target", "kind"), [("sent", "no_target"), ("dead", "dead")])
def test_no_target_ends_as_the_channel_says(
    on_no_target: Literal["sent", "dead"], kind: Literal["no_target", "dead"]
) -> None:
    expected = Transition(kind=kind, status=on_no_target, verdict="no_target", reason="no token", tried=1, counted=0)
    assert expected == decided(NoTarget("no token"), policy=Policy(on_no_target=on_no_target))


def test_without_a_word_of_the_channel_no_target_is_a_dead_letter() -> None:
    assert decided(NoTarget("no token")).status == "dead"


def test_permanent_is_dead_at_once_and_uses_no_budget() -> None:
    expected = Transition(
        kind="dead", status="dead", verdict="permanent", reason="too long", details={"limit": 9}, tried=1, counted=0
    )
    assert expected == decided(Permanent("too long", details={"limit": 9}))


def test_an_outage_costs_the_row_nothing() -> None:
    expected = Transition(
        kind="outage", status="pending", verdict="outage", reason="401", delay=None, tried=1, counted=0, moves_due=False
    )
    assert expected == decided(Outage("401", retry_after=timedelta(minutes=9)), attempts=4)


def test_a_release_is_no_try() -> None:
    expected = Transition(kind="released", status="pending", verdict=None, reason="stopping", tried=0, counted=0)
    assert expected == Transition.released("stopping")


def test_a_row_that_loses_lease_after_lease_ends_with_that_reason() -> None:
    ended = poisoned(20)
    assert ("dead", "dead", None, 0) == (ended.kind, ended.status, ended.verdict, ended.counted)
    assert ended.reason is not None
    assert "lost 20 leases" in ended.reason


# ----------------------------------------------------------------------------------------------------------- budget


@pytest.mark.parametrize(("attempts", "delay"), [(0, 30.0), (1, 120.0), (2, 600.0), (3, 3600.0)])
def test_each_counted_failure_waits_longer(attempts: int, delay: float) -> None:
    expected = Transition(
        kind="retry",
        status="pending",
        verdict="retryable",
        reason="busy",
        delay=delay,
        moves_due=True,
        tried=1,
        counted=1,
    )
    assert expected == decided(Retryable("busy"), attempts)


def test_the_fifth_counted_failure_is_dead_with_the_last_reason() -> None:
    expected = Transition(kind="dead", status="dead", verdict="retryable", reason="busy again", tried=1, counted=1)
    assert expected == decided(Retryable("busy again"), attempts=4)


def test_the_memo_for_the_next_try_travels_along() -> None:
    assert decided(Retryable("busy", progress={"part": 2})).progress == {"part": 2}


def test_maybe_sent_is_said_in_the_details() -> None:
    verdict = Retryable("timeout", maybe_sent=True, details={"after": 20})
    assert decided(verdict).details == {"after": 20, "maybe_sent": True}
    assert decided(verdict, attempts=4).details == {"after": 20, "maybe_sent": True}


# --------------------------------------------------------------------------------------------------------- schedule


def test_retry_after_is_a_floor_under_the_backoff() -> None:
    assert decided(Retryable("busy", retry_after=timedelta(seconds=120)), jitter=-1).delay == 120
    assert decided(Retryable("busy", retry_after=timedelta(seconds=5))).delay == 30


@pytest.mark.parametrize(
    ("given_", "expected"), [(timedelta(days=400), DAY), (timedelta(seconds=-50), 30.0), (timedelta(), 30.0)]
)
def test_an_absurd_retry_after_is_brought_within_bounds(given_: timedelta, expected: float) -> None:
    assert decided(Retryable("busy", retry_after=given_)).delay == expected


@pytest.mark.parametrize(("jitter", "expected"), [(-1, 27.0), (0, 30.0), (1, 33.0)])
def test_jitter_is_a_tenth_each_way(jitter: float, expected: float) -> None:
    assert decided(Retryable("busy"), jitter=jitter).delay == pytest.approx(expected)


# --------------------------------------------------------------------------------- failures that speak of the provider


@pytest.mark.parametrize(("tries", "delay"), [(0, 30.0), (1, 120.0), (3, 3600.0), (400, 3600.0)])
def test_an_uncounted_failure_waits_by_the_number_of_tries(tries: int, delay: float) -> None:
    change = decided(Retryable("503", counts=False), attempts=0, tries=tries)
    assert ("pending", delay, 0, 1) == (change.status, change.delay, change.counted, change.tried)


def test_uncounted_failures_never_use_the_budget_up() -> None:
    assert decided(Retryable("503", counts=False), attempts=4).status == "pending"


def test_uncounted_failures_end_when_it_is_time_to_give_up() -> None:
    assert decided(Retryable("503", counts=False), waited=DAY - 1).status == "pending"
    ended = decided(Retryable("503", counts=False), waited=DAY)
    assert ("dead", "retryable", 0) == (ended.status, ended.verdict, ended.counted)
    assert ended.reason == "gave up after 24.0 h: 503"


def test_counted_failures_are_not_given_up_by_the_clock() -> None:
    assert decided(Retryable("no"), waited=10 * DAY).status == "pending"


def test_a_two_hour_outage_makes_no_dead_row() -> None:
    now, tries = 0.0, 0
    while now < 7200:
        change = decided(Retryable("503", counts=False), tries=tries, waited=now)
        assert change.status == "pending"
        assert change.delay is not None
        now, tries = now + change.delay, tries + 1


# -------------------------------------------------------------------------------------------------------- invariants


RETRIES = st.builds(
    Retry,
    delays=st.lists(st.floats(0, 1e6), min_size=1, max_size=6).map(tuple),
    attempts=st.integers(1, 9),
    jitter=st.floats(0, 0.99),
    give_up_after=st.floats(1, 1e6),
)
SPANS = st.none() | st.timedeltas(timedelta(days=-3), timedelta(days=300))
RETRYABLES = st.builds(Retryable, st.just("busy"), retry_after=SPANS, counts=st.booleans(), maybe_sent=st.booleans())
JITTER = st.floats(-1, 1)


@given(RETRIES, RETRYABLES, st.integers(0, 20), st.integers(0, 20), st.floats(0, 2e6), JITTER)
def test_a_delay_lies_between_the_floor_and_the_cap(
    retry: Retry, verdict: Retryable, attempts: int, more: int, waited: float, jitter: float
) -> None:
    change = decided(verdict, attempts, tries=attempts + more, policy=Policy(retry), waited=waited, jitter=jitter)
    if change.status == "dead":
        assert change.delay is None
        return
    floor = 0.0 if verdict.retry_after is None else min(max(verdict.retry_after.total_seconds(), 0), DAY)
    assert change.delay is not None
    assert floor <= change.delay <= max(max(retry.delays) * (1 + retry.jitter), RETRY_AFTER_CAP.total_seconds())
    assert change.delay >= min(retry.delays) * (1 - retry.jitter)


@given(RETRIES, st.lists(st.tuples(RETRYABLES, JITTER), max_size=60))
def test_the_budget_is_never_exceeded(retry: Retry, failures: list[tuple[Retryable, float]]) -> None:
    attempts = tries = 0
    now = DUE
    for verdict, jitter in failures:
        change = decide(Facts(attempts, tries, DUE), verdict, Policy(retry), now, jitter=jitter)
        attempts, tries = attempts + change.counted, tries + change.tried
        assert attempts <= retry.attempts
        if change.status == "dead":
            assert attempts == retry.attempts or not verdict.counts
            return
        assert attempts < retry.attempts
        assert change.delay is not None
        now += change.delay
