"""The last look at a row before its send begins."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from sendoff.limits import Limits
from sendoff.notification import PAYLOAD_VERSION_KEY
from sendoff.plugin.registry import ChannelSpec
from sendoff.policy import Policy, Transition, poisoned
from sendoff.preflight import NEWER_PAYLOAD_DELAY, unfit
from tests.unit.test_deliver import ROW, Pager

SPEC = ChannelSpec(Pager(), "test", Limits(timeout=7), Policy())


def looked_at(*, running: bool = False, has_time: bool = True, **changes: Any) -> Transition | None:
    return unfit(evolve(ROW, **changes), SPEC, running=running, has_time=has_time)


def test_a_row_that_is_fit_may_be_tried() -> None:
    assert looked_at() is None
    assert looked_at(lost_leases=19) is None


@pytest.mark.parametrize("lost", [20, 21, 400])
def test_a_row_that_kills_its_workers_is_ended(lost: int) -> None:
    assert poisoned(lost) == looked_at(lost_leases=lost)


def test_a_cancelled_row_goes_back_at_no_cost() -> None:
    expected = Transition.released("on request")
    assert expected == looked_at(cancel_requested=True, lost_leases=20, running=True, has_time=False)


def test_a_row_whose_last_call_still_runs_waits_for_it() -> None:
    assert Transition.released("its last call has not returned", delay=7) == looked_at(running=True)


def test_a_newer_payload_is_left_to_a_worker_that_knows_it() -> None:
    expected = Transition.released("its payload is newer than this worker", delay=NEWER_PAYLOAD_DELAY)
    assert expected == looked_at(payload={PAYLOAD_VERSION_KEY: 2})


def test_a_row_whose_lease_would_end_before_the_answer_is_released() -> None:
    assert Transition.released("too little of its lease was left") == looked_at(has_time=False)


@pytest.mark.parametrize(
    "reason", [looked_at(running=True), looked_at(has_time=False), looked_at(cancel_requested=True)]
)
def test_a_release_costs_nothing(reason: Transition) -> None:
    assert ("released", "pending", 0, 0) == (reason.kind, reason.status, reason.counted, reason.tried)
