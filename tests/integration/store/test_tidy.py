"""Tidying: what expires, and what waiting steps become when their predecessor has ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from sendoff.policy import Policy, Transition
from sendoff.store import Store
from sendoff.store.acts import REQUEUE_CHUNK, RequeueFilter, cancel, requeue
from sendoff.store.channels import ensure_channels
from sendoff.store.tidy import LIMIT, Tidied, expire, resolve_steps, tidy
from sendoff.tables import channel
from sendoff.types import to_micros
from sendoff.verdict import NoTarget, Sent
from tests.support.rows import (
    EMAIL,
    LEASE,
    change,
    claim,
    claim_one,
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

DEAD = Transition.dead("permanent", "no")
ENDS: dict[str, Transition | None] = {
    "sent": Transition.sent(Sent()),
    "delivered": Transition.sent(Sent()),
    "no_target_sent": Transition.no_target(NoTarget("none"), Policy(on_no_target="sent")),
    "no_target_dead": Transition.no_target(NoTarget("none"), Policy(on_no_target="dead")),
    "dead": DEAD,
    "expired": None,
    "cancelled": None,
    "gone": None,
}
#: Which ends of the predecessor release a step that waits for ``when``; the others cancel it.
RELEASES = {
    "finished": set(ENDS),
    "sent": {"sent", "delivered"},
    "no_target": {"no_target_sent", "no_target_dead"},
    "dead": {"dead", "expired"},
    "unseen": set(ENDS),
}


def put_step(store: Store, when: str = "finished", **changes: Any) -> tuple[UUID, UUID]:
    """A row and a step behind it."""
    first = new_row(ttl=30.0)
    step = new_row(
        notification_id=first.notification_id,
        channel="sms",
        status="waiting",
        after_id=first.id,
        after_when=when,
        after_delay=0.0,
        **changes,
    )
    put(store, first, step)
    return first.id, step.id


def end(store: Store, id: UUID, how: str) -> None:
    transition = ENDS[how]
    if transition is not None:
        settle(store, claim_one(store), transition)
    elif how == "expired":
        pass_time(store, 40, id)
        assert store.run(expire) == 1
    else:
        change(store, id, status="cancelled", finished_at=now(store), next_attempt_at=None)
    if how == "delivered":
        change(store, id, status="delivered", delivered_at=now(store))


# ---------------------------------------------------------------------------------------------------------- expiring


def test_what_is_past_its_time_expires(store: Store) -> None:
    id = put_one(store, ttl=30.0, sensitive=True, payload={"title": "private"})
    step = put_one(store, status="waiting", after_id=id, expires_at=to_micros(now(store) + timedelta(seconds=30)))
    ever, later = put_one(store), put_one(store, ttl=3600.0)
    pass_time(store, 40)
    assert store.run(expire) == 2
    for expired in (id, step):
        row = load(store, expired)
        assert ("expired", None, None) == (row["status"], row["next_attempt_at"], row["verdict"])
        assert row["reason"] == "expired before it could be sent"
        assert row["finished_at"] is not None
        assert kinds(store, expired) == ["created", "expired"]
    assert ({}, {"n": 1}) == look(store, id, "payload") + look(store, step, "payload")
    assert ("pending", "pending") == look(store, ever, "status") + look(store, later, "status")
    assert store.run(expire) == 0


def test_rows_of_a_paused_channel_expire_too(store: Store) -> None:
    id = put_one(store, ttl=30.0)
    store.run(lambda connection: ensure_channels(connection, [EMAIL]))
    store.run(lambda connection: connection.execute(channel.update().values(paused_by="ops")))
    pass_time(store, 40)
    assert store.run(expire) == 1
    assert look(store, id, "status") == ("expired",)


def test_a_leased_row_is_left_to_its_verdict(store: Store) -> None:
    id = put_one(store, ttl=30.0)
    row = claim_one(store)
    change(store, id, expires_at=now(store) - timedelta(seconds=1))
    assert store.run(expire) == 0
    settle(store, row)
    assert look(store, id, "status") == ("sent",)


def test_a_row_whose_lease_ran_out_expires(store: Store) -> None:
    id = put_one(store, ttl=30.0)
    row = claim_one(store)
    pass_time(store, LEASE + 1)
    assert store.run(expire) == 1
    assert ("expired", None, None) == look(store, id, "status", "claimed_until", "claimed_by")
    assert settle(store, row, DEAD).outcome == "lost"
    assert look(store, id, "status") == ("expired",)


def test_final_rows_do_not_expire(store: Store) -> None:
    id = put_one(store, ttl=30.0)
    settle(store, claim_one(store))
    pass_time(store, 40)
    assert store.run(expire) == 0
    assert look(store, id, "status") == ("sent",)


def worst_plan(connection: sa.Connection) -> None:
    """What stale statistics may make the planner choose: the subselect again for each row."""
    if connection.dialect.name == "postgresql":
        for way in ("hashjoin", "mergejoin", "hashagg", "sort", "material", "memoize"):
            connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")


def test_a_round_is_bounded_under_any_plan(store: Store) -> None:
    put(store, *[new_row(recipient=f"u{number}", ttl=30.0) for number in range(LIMIT + 5)])
    pass_time(store, 40)
    with store.transaction() as connection:
        worst_plan(connection)
        assert (LIMIT, REQUEUE_CHUNK) == (expire(connection), len(requeue(connection, RequeueFilter(ttl=30.0))))
        assert 5 == expire(connection)


def test_a_round_is_bounded_and_says_that_there_is_more(store: Store) -> None:
    put(store, *[new_row(recipient=f"u{number}", ttl=30.0) for number in range(LIMIT + 5)])
    pass_time(store, 40)
    first, second = store.run(tidy), store.run(tidy)
    assert (LIMIT, True) == (first.expired, first.more)
    assert (5, False) == (second.expired, second.more)


# ------------------------------------------------------------------------------------------------------------- steps


@pytest.mark.parametrize("when", RELEASES)
def test_a_step_goes_on_or_is_not_needed_by_its_predecessors_end(store: Store, when: str) -> None:
    for how in ENDS:
        first, step = put_step(store, when, sensitive=True)
        if how == "gone":
            from sendoff.tables import outgoing

            store.run(lambda connection: connection.execute(outgoing.delete().where(outgoing.c.id == first)))  # noqa: B023 - run at once
        else:
            end(store, first, how)
        released, cancelled, channels = store.run(resolve_steps)
        goes = how in RELEASES[when] or (how == "gone" and when == "finished")
        assert (int(goes), int(not goes)) == (released, cancelled), how
        assert (frozenset({"sms"}) if goes else frozenset()) == channels
        if goes:
            assert look(store, step, "status", "finished_at") == ("pending", None), how
            settle(store, claim_one(store, channel="sms"))
        else:
            assert look(store, step, "status", "reason", "payload") == ("cancelled", "step_not_needed", {}), how
            assert (None,) == look(store, step, "next_attempt_at"), how
            assert events(store, step)[-1] == ("cancelled", {"reason": "step_not_needed"})


def test_a_step_waits_while_its_predecessor_goes_on(store: Store) -> None:
    first, step = put_step(store)
    assert Tidied(waiting=True) == store.run(tidy)
    settle(store, claim_one(store), Transition.released("stopping"))
    assert Tidied(waiting=True) == store.run(tidy)
    assert look(store, step, "status") == ("waiting",)
    settle(store, claim_one(store))
    assert Tidied(released=1, channels=frozenset({"sms"})) == store.run(lambda connection: tidy(connection, [first]))


def test_only_the_steps_behind_the_given_rows_are_looked_at(store: Store) -> None:
    first, step = put_step(store)
    other, other_step = put_step(store)
    for id in (first, other):
        change(store, id, status="sent", finished_at=now(store))
    assert (1, 0, frozenset({"sms"})) == store.run(lambda connection: resolve_steps(connection, [first]))
    assert ("pending", "waiting") == look(store, step, "status") + look(store, other_step, "status")


def test_a_step_is_due_when_its_delay_after_the_end_is_over(store: Store) -> None:
    first, step = put_step(store)
    change(store, step, after_delay=90.0)
    settle(store, claim_one(store))
    store.run(resolve_steps)
    [finished] = look(store, first, "finished_at")
    due = finished + timedelta(seconds=90)
    assert (due, due, due) == look(store, step, "first_due_at", "due_at", "next_attempt_at")
    assert claim(store, channel="sms") == []


def test_a_step_is_never_due_before_the_notification(store: Store) -> None:
    later = now(store) + timedelta(hours=1)
    _, step = put_step(store, not_before=to_micros(later))
    settle(store, claim_one(store))
    store.run(resolve_steps)
    assert (later, later) == look(store, step, "due_at", "next_attempt_at")


@pytest.mark.parametrize("seen", ["opened_at", "read_at"])
def test_what_somebody_has_seen_needs_no_second_channel(store: Store, seen: str) -> None:
    first, step = put_step(store, "unseen")
    settle(store, claim_one(store))
    change(store, first, **{seen: now(store)})
    store.run(resolve_steps)
    assert look(store, step, "status", "reason") == ("cancelled", "step_not_needed")


def test_a_step_behind_a_step_follows_round_by_round(store: Store) -> None:
    first, step = put_step(store, "dead")
    last = put_one(store, channel="push", status="waiting", after_id=step, after_when="finished", after_delay=0.0)
    settle(store, claim_one(store))
    assert (0, 1) == store.run(resolve_steps)[:2]
    assert (1, 0) == store.run(resolve_steps)[:2]
    assert look(store, last, "status") == ("pending",)
    assert look(store, first, "status") == ("sent",)


def test_a_cancelled_notification_leaves_no_step_behind(store: Store) -> None:
    first, step = put_step(store)
    store.run(lambda connection: cancel(connection, load(store, first)["notification_id"]))
    assert Tidied() == store.run(tidy)
    assert look(store, step, "status", "reason") == ("cancelled", "cancelled on request")
