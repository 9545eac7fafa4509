"""What people do to rows: cancel and requeue."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from sendoff import ConfigurationError, NotFound, NotPossible
from sendoff.deliver import idempotency_key
from sendoff.policy import Policy, Transition
from sendoff.requeueing import requeue as requeue_honestly
from sendoff.store import Store
from sendoff.store.acts import REQUEUE_CHUNK, CancelOutcome, RequeueFilter, cancel, requeue, requeueable
from sendoff.tables import outgoing
from sendoff.verdict import NoTarget, Retryable, Sent
from tests.support.rows import (
    change,
    claim,
    claim_one,
    end_leases,
    events,
    kinds,
    load,
    look,
    new_row,
    now,
    pass_time,
    put,
    put_one,
    settle,
)

DEAD = Transition.dead("permanent", "550 no such user")


def put_dead(store: Store, transition: Transition = DEAD, **changes: Any) -> UUID:
    id = put_one(store, **changes)
    [row] = [row for row in claim(store, channel=changes.get("channel", "email")) if row.id == id]
    settle(store, row, transition)
    return id


def requeued(store: Store, **chosen: Any) -> set[UUID]:
    """What a requeue of these would do and did."""
    filter_ = RequeueFilter(**chosen)
    able = store.read(lambda connection: requeueable(connection, filter_))
    done = store.run(lambda connection: requeue(connection, filter_))
    assert able == len(done)
    return set(done)


# ------------------------------------------------------------------------------------------------------------ cancel


def test_an_honest_answer_for_each_row(store: Store) -> None:
    first = new_row()
    siblings = [
        evolve(first, id=new_row().id, channel=name, status=status)
        for name, status in [("sms", "pending"), ("push", "waiting"), ("pager", "pending")]
    ]
    bystander = new_row()
    put(store, first, *siblings, bystander)
    [held] = claim(store, channel="sms")
    settle(store, claim_one(store, channel="pager"))
    told = store.run(lambda connection: cancel(connection, first.notification_id))
    assert [
        CancelOutcome(first.id, "email", "cancelled", "cancelled"),
        CancelOutcome(held.id, "sms", "in_flight", "pending"),
        CancelOutcome(siblings[1].id, "push", "cancelled", "cancelled"),
        CancelOutcome(siblings[2].id, "pager", "final", "sent"),
    ] == sorted(told, key=lambda one: one.outgoing_id)
    row = load(store, first.id)
    assert ("cancelled", "cancelled on request", None) == (row["status"], row["reason"], row["next_attempt_at"])
    assert row["finished_at"] is not None
    assert events(store, first.id)[-1] == ("cancelled", {"reason": "cancelled on request"})
    assert kinds(store, held.id) == ["created"]
    assert look(store, bystander.id, "status") == ("pending",)
    assert [bystander.id] == [row.id for row in claim(store)]


def test_cancelling_twice_changes_nothing_more(store: Store) -> None:
    row = new_row()
    put(store, row)
    held = claim_one(store)
    store.run(lambda connection: cancel(connection, row.notification_id))
    [asked] = look(store, row.id, "cancel_requested_at")
    [again] = store.run(lambda connection: cancel(connection, row.notification_id))
    assert ("in_flight", asked) == (again.outcome, look(store, row.id, "cancel_requested_at")[0])
    settle(store, held, DEAD)
    kept = load(store, row.id)
    [last] = store.run(lambda connection: cancel(connection, row.notification_id))
    assert ("final", "cancelled") == (last.outcome, last.status)
    assert kept == load(store, row.id)


def test_a_cancelled_sensitive_payload_is_blanked(store: Store) -> None:
    row = new_row(sensitive=True, payload={"title": "private"})
    put(store, row)
    store.run(lambda connection: cancel(connection, row.notification_id))
    assert look(store, row.id, "payload") == ({},)


def test_nothing_to_cancel_is_nothing(store: Store) -> None:
    assert store.run(lambda connection: cancel(connection, UUID(int=1))) == []


# ----------------------------------------------------------------------------------------------------------- requeue


def test_a_requeue_is_a_new_life(store: Store) -> None:
    id = put_one(store)
    settle(store, claim_one(store), Transition.retry(Retryable("busy", progress={"part": 1}), 0.0))
    before = idempotency_key(claim_one(store))
    end_leases(store, id)
    settle(store, claim_one(store), DEAD)
    change(store, id, lost_leases=3)
    start = now(store)
    assert {id} == requeued(store, ids=[id])
    row = load(store, id)
    expected = {
        "status": "pending",
        "attempt_count": 0,
        "try_count": 0,
        "lost_leases": 0,
        "requeue_count": 1,
        "claim_count": 3,
        "verdict": None,
        "reason": None,
        "progress": None,
        "finished_at": None,
        "claimed_until": None,
        "payload": {"n": 1},
    }
    assert expected == {name: row[name] for name in expected}
    for name in ("first_due_at", "due_at", "next_attempt_at"):
        assert start <= row[name] <= now(store)
    assert kinds(store, id)[-1] == "requeued"
    again = claim_one(store)
    assert (str(id), f"{id}-1") == (before, idempotency_key(again))


def test_a_requeued_row_that_was_cancelled_in_flight_can_be_sent(store: Store) -> None:
    row = new_row()
    put(store, row)
    held = claim_one(store)
    store.run(lambda connection: cancel(connection, row.notification_id))
    settle(store, held, DEAD)
    assert {row.id} == requeued(store, ids=[row.id])
    settle(store, claim_one(store), DEAD)
    assert look(store, row.id, "status") == ("dead",)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, "plain reason verdict sms"),
        ({"channel": "sms"}, "sms"),
        ({"channel": "email", "verdict": "retryable"}, "verdict"),
        ({"verdict": "permanent"}, "plain reason sms"),
        ({"reason": "quota"}, "reason"),
        ({"reason": "QUOTA"}, "reason"),
        ({"reason": "%"}, "reason"),
        ({"reason": "_"}, ""),
        ({"reason": "no such"}, "plain sms"),
        ({"channel": "pager"}, ""),
        ({"ttl": 60.0}, "plain reason verdict sms expired dead_and_expired"),
    ],
    ids=str,
)
def test_rows_are_chosen_by_what_they_have_in_common(store: Store, chosen: dict[str, Any], expected: str) -> None:
    names = {
        put_dead(store): "plain",
        put_dead(store, Transition.dead("permanent", "quota 100 % used")): "reason",
        put_dead(store, Transition.dead("retryable", "busy")): "verdict",
        put_dead(store, channel="sms"): "sms",
    }
    sensitive = put_dead(store, sensitive=True)
    expired = put_one(store)
    change(store, expired, status="expired", expires_at=now(store) - timedelta(seconds=9), finished_at=now(store))
    late = put_dead(store)
    change(store, late, expires_at=now(store) - timedelta(seconds=9))
    cancelled, sent = put_one(store), put_one(store)
    change(store, cancelled, status="cancelled", finished_at=now(store))
    change(store, sent, status="sent", finished_at=now(store))
    put_one(store)
    names |= {
        sensitive: "sensitive",
        expired: "expired",
        late: "dead_and_expired",
        cancelled: "cancelled",
        sent: "sent",
    }
    assert set(expected.split()) == {names[id] for id in requeued(store, **chosen)}


def test_since_goes_by_the_end(store: Store) -> None:
    old, young = put_dead(store), put_dead(store)
    pass_time(store, 3600, old)
    assert {young} == requeued(store, since=now(store) - timedelta(minutes=30))


def test_a_ttl_is_the_new_time_to_live(store: Store) -> None:
    id = put_dead(store)
    requeued(store, ids=[id], ttl=60.0)
    [expires_at, due] = look(store, id, "expires_at", "due_at")
    assert (expires_at - due).total_seconds() == pytest.approx(60, abs=0.001)


def test_named_cancelled_rows_come_back_but_needless_steps_do_not(store: Store) -> None:
    by_people, needless = put_one(store), put_one(store)
    change(store, by_people, status="cancelled", reason="cancelled on request", finished_at=now(store))
    change(store, needless, status="cancelled", reason="step_not_needed", finished_at=now(store))
    assert {by_people} == requeued(store, ids=[by_people, needless])


def test_a_requeue_goes_in_chunks(store: Store) -> None:
    put(store, *[new_row(recipient=f"u{number}") for number in range(REQUEUE_CHUNK + 5)])
    store.run(lambda connection: connection.execute(outgoing.update().values(status="dead", next_attempt_at=None)))
    assert requeue_honestly(store, RequeueFilter(), dry_run=True) == REQUEUE_CHUNK + 5
    assert requeue_honestly(store, RequeueFilter(), dry_run=False) == REQUEUE_CHUNK + 5
    assert requeue_honestly(store, RequeueFilter(), dry_run=False) == 0


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"status": "pending"}, "it has not ended yet"),
        ({"status": "waiting"}, "it has not ended yet"),
        ({"status": "sent"}, "it is sent"),
        ({"status": "delivered"}, "it is delivered"),
        ({"status": "expired"}, "give it a new ttl"),
        ({"status": "dead", "expires_at": -60}, "give it a new ttl"),
        ({"status": "dead", "sensitive": True}, "it is sensitive"),
        ({"status": "cancelled", "reason": "step_not_needed"}, "made needless"),
    ],
    ids=str,
)
def test_a_row_that_cannot_be_requeued_is_named_and_nothing_changes(
    store: Store, values: dict[str, Any], why: str
) -> None:
    fine, other = put_dead(store), put_one(store)
    if "expires_at" in values:
        values = {**values, "expires_at": now(store) + timedelta(seconds=values["expires_at"])}
    change(store, other, **values)
    with pytest.raises(NotPossible, match=f"row {other} cannot be requeued: .*{why}"):
        requeue_honestly(store, RequeueFilter(ids=[fine, other]), dry_run=False)
    assert look(store, fine, "status", "requeue_count") == ("dead", 0)


def test_an_unknown_row_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match=f"no outgoing row {UUID(int=9)}"):
        requeue_honestly(store, RequeueFilter(ids=[put_dead(store), UUID(int=9)]), dry_run=False)


def test_a_row_that_reached_nobody_may_be_tried_again(store: Store) -> None:
    id = put_dead(store, Transition.no_target(NoTarget("no token"), Policy()))
    assert {id} == requeued(store, verdict="no_target")
    settle(store, claim_one(store), Transition.sent(Sent(provider_ref="m-2")))
    assert look(store, id, "status", "verdict", "provider_ref", "reason") == ("sent", "sent", "m-2", None)


def test_a_moment_without_a_zone_is_one_clear_line() -> None:
    with pytest.raises(ConfigurationError, match="since must be a datetime with a time zone"):
        RequeueFilter(since=datetime(2026, 3, 29))  # noqa: DTZ001 - the point
