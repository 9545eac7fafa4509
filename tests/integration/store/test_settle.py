"""Settling: every verdict does the same on both databases, behind one fence."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from attrs import evolve, frozen

from sendoff.policy import Policy, Transition, poisoned
from sendoff.secret import MASK, Secret
from sendoff.store import Store
from sendoff.store.acts import RequeueFilter, cancel, requeue
from sendoff.store.settle import Settle
from sendoff.tables import outgoing
from sendoff.verdict import NoTarget, Outage, Retryable, Sent
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
    opened,
    put,
    put_one,
    settle,
    verdict,
)

SENT = Transition.sent(Sent(provider_ref="m-1", details={"node": 3}))
SENT_SILENTLY = Transition.sent(Sent())
RETRY = Transition.retry(Retryable("busy", progress={"part": 2}), 30.0)
UNCOUNTED = Transition.retry(Retryable("503", counts=False), 45.5)
MAYBE = Transition.retry(Retryable("timeout", maybe_sent=True, details={"after": 20}), 30.0)
DEAD = Transition.dead("permanent", "too long", details={"limit": 9})
USED_UP = Transition.dead("retryable", "busy again", counted=1)
NO_TARGET_SENT = Transition.no_target(NoTarget("no token"), Policy(on_no_target="sent"))
NO_TARGET_DEAD = Transition.no_target(NoTarget("no token"), Policy(on_no_target="dead"))
OUTAGE = Transition.outage(Outage("401"))
RELEASED = Transition.released("stopping")
RELEASED_LATER = Transition.released("newer payload", delay=30.0)
POISONED = poisoned(20)
NO_REASON = Transition.dead("permanent", "")

TRANSITIONS = {
    "sent": SENT,
    "sent_silently": SENT_SILENTLY,
    "retry": RETRY,
    "uncounted": UNCOUNTED,
    "maybe_sent": MAYBE,
    "dead": DEAD,
    "used_up": USED_UP,
    "no_target_sent": NO_TARGET_SENT,
    "no_target_dead": NO_TARGET_DEAD,
    "outage": OUTAGE,
    "released": RELEASED,
    "released_later": RELEASED_LATER,
    "poisoned": POISONED,
    "no_reason": NO_REASON,
}


# --------------------------------------------------------------------------- one outcome, whatever the database


@frozen
class Seen:
    """A row and its events with moments in seconds since its creation, and nothing that differs by chance."""

    row: dict[str, Any]
    events: list[tuple[str, Any]]
    answer: tuple[str, str | None, str | None]


def held(store: Store, situation: str) -> Settle:
    """A verdict in the hands of a worker, in one of the situations a row may be in."""
    id = put_one(store, sensitive=situation == "sensitive", payload={"title": "private"})
    change(store, id, verdict="retryable", reason="before", attempt_count=2, try_count=3, progress={"part": 1})
    mine = verdict(claim_one(store))
    match situation:
        case "cancel_requested":
            store.run(lambda connection: cancel(connection, load_notification(store, id)))
        case "re-leased":
            end_leases(store, id)
            assert claim_one(store, by="second").lost_leases == 1
        case "lease_over":
            end_leases(store, id)
        case "released":
            store.settle([evolve(mine, transition=RELEASED)])
        case "sent":
            store.settle([evolve(mine, transition=SENT_SILENTLY)])
        case "dead":
            store.settle([evolve(mine, transition=DEAD)])
        case "dead_by_another":
            end_leases(store, id)
            settle(store, claim_one(store, by="second"), DEAD)
        case "delivered":
            end_leases(store, id)
            claim(store, by="second")
            change(store, id, status="delivered", sent_at=now(store), finished_at=now(store), claimed_until=None)
        case "requeued":
            store.settle([evolve(mine, transition=DEAD)])
            store.run(lambda connection: requeue(connection, RequeueFilter(ids=[id])))
        case "requeued_and_leased":
            store.settle([evolve(mine, transition=DEAD)])
            store.run(lambda connection: requeue(connection, RequeueFilter(ids=[id])))
            claim(store, by="second")
        case "gone":
            mine = evolve(mine, id=UUID(int=1))
    return mine


def load_notification(store: Store, id: UUID) -> UUID:
    notification_id: UUID = load(store, id)["notification_id"]
    return notification_id


SITUATIONS = [
    "held",
    "sensitive",
    "lease_over",
    "cancel_requested",
    "re-leased",
    "released",
    "sent",
    "dead",
    "dead_by_another",
    "delivered",
    "requeued",
    "requeued_and_leased",
    "gone",
]


def seen(store: Store, situation: str, transition: Transition) -> Seen:
    mine = evolve(held(store, situation), transition=transition)
    [answer] = store.settle([mine])
    [id] = store.read(lambda connection: connection.scalars(sa.select(outgoing.c.id)).all())
    row = load(store, id)
    created = row["created_at"]
    for name in ("id", "notification_id"):
        del row[name]
    for name, value in row.items():
        if isinstance(value, datetime):
            row[name] = round((value - created).total_seconds() / 5) * 5  # that a minute passed, not a millisecond
    return Seen(row, events(store, id), (answer.outcome, answer.status, answer.kind))


@pytest.fixture
def both(sqlite_url: str, postgres_url: str) -> Iterator[tuple[Store, Store]]:
    with opened(sqlite_url) as lite, opened(postgres_url) as full:
        yield lite, full


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_verdict_does_the_same_on_both_databases(both: tuple[Store, Store], situation: str) -> None:
    lite, full = both
    for name, transition in TRANSITIONS.items():
        found = [seen(store, situation, transition) for store in (lite, full)]
        assert found[0] == found[1], name
        for store in both:
            store.run(lambda connection: connection.execute(sa.text("DELETE FROM sendoff_event")))
            store.run(lambda connection: connection.execute(outgoing.delete()))


# ------------------------------------------------------------------------------------------------- what is written


def test_sent(store: Store) -> None:
    id = put_one(store)
    answer = settle(store, claim_one(store), SENT)
    row = load(store, id)
    assert ("applied", "sent", "sent") == (answer.outcome, answer.status, answer.kind)
    expected = {
        "status": "sent",
        "verdict": "sent",
        "reason": None,
        "provider_ref": "m-1",
        "attempt_count": 0,
        "try_count": 1,
        "claim_count": 1,
        "claimed_until": None,
        "claimed_by": None,
        "next_attempt_at": None,
        "sent_at": row["finished_at"],
        "payload": {"n": 1},
    }
    assert expected == {name: row[name] for name in expected}
    assert row["finished_at"] is not None
    assert [("created", None), ("sent", {"provider_ref": "m-1", "details": {"node": 3}})] == events(store, id)


def test_a_retry_moves_the_due_time_and_costs_a_try(store: Store) -> None:
    id = put_one(store)
    before = now(store)
    settle(store, claim_one(store), RETRY)
    row = load(store, id)
    expected = {
        "status": "pending",
        "verdict": "retryable",
        "reason": "busy",
        "progress": {"part": 2},
        "attempt_count": 1,
        "try_count": 1,
        "claimed_until": None,
        "finished_at": None,
        "sent_at": None,
        "next_attempt_at": row["due_at"],
        "first_due_at": row["created_at"],
    }
    assert expected == {name: row[name] for name in expected}
    assert before + timedelta(seconds=30) <= row["due_at"] <= now(store) + timedelta(seconds=30)
    assert events(store, id)[1:] == [("retry", {"reason": "busy", "delay": 30.0})]
    assert claim(store) == []


def test_the_memo_of_the_last_try_reaches_the_next(store: Store) -> None:
    id = put_one(store)
    settle(store, claim_one(store), RETRY)
    change(store, id, next_attempt_at=now(store))
    again = claim_one(store)
    assert ({"part": 2}, 1, 1, 2, 0) == (
        again.progress,
        again.attempt_count,
        again.try_count,
        again.claim_count,
        again.lost_leases,
    )
    settle(store, again, Transition.retry(Retryable("busy"), 30.0))
    assert ({"part": 2},) == look(store, id, "progress")


def test_a_release_keeps_budget_verdict_and_due_time(store: Store) -> None:
    id = put_one(store)
    settle(store, claim_one(store), RETRY)
    change(store, id, next_attempt_at=now(store), due_at=now(store))
    kept = look(store, id, "attempt_count", "try_count", "verdict", "reason", "due_at", "first_due_at", "progress")
    settle(store, claim_one(store), RELEASED)
    assert kept == look(
        store, id, "attempt_count", "try_count", "verdict", "reason", "due_at", "first_due_at", "progress"
    )
    due, at = look(store, id, "due_at", "next_attempt_at")
    assert due == at
    assert kinds(store, id) == ["created", "retry", "released"]
    assert claim_one(store).id == id


def test_a_release_may_wait_without_moving_the_due_time(store: Store) -> None:
    id = put_one(store)
    [due] = look(store, id, "due_at")
    settle(store, claim_one(store), RELEASED_LATER)
    kept, at = look(store, id, "due_at", "next_attempt_at")
    assert due == kept
    assert at >= now(store) + timedelta(seconds=25)


def test_a_verdict_and_a_release_forgive_lost_leases(store: Store) -> None:
    id = put_one(store)
    for ending in (RETRY, RELEASED, OUTAGE):
        change(store, id, lost_leases=7, next_attempt_at=now(store))
        row = claim_one(store)
        assert row.lost_leases == 7
        settle(store, row, ending)
        assert look(store, id, "lost_leases") == (0,)


def test_the_end_of_a_row_that_kills_workers_says_how_many_leases_it_cost(store: Store) -> None:
    id = put_one(store)
    change(store, id, lost_leases=20)
    settle(store, claim_one(store), POISONED)
    status, verdict_, reason, lost, tries = look(store, id, "status", "verdict", "reason", "lost_leases", "try_count")
    assert ("dead", None, 20, 0) == (status, verdict_, lost, tries)
    assert "lost 20 leases" in reason


@pytest.mark.parametrize("ending", [SENT, DEAD, NO_TARGET_SENT, USED_UP])
def test_a_sensitive_payload_does_not_outlive_its_row(store: Store, ending: Transition) -> None:
    private = put_one(store, sensitive=True, payload={"title": "private"})
    open_ = put_one(store, payload={"title": "open"})
    store.settle([verdict(row, ending) for row in claim(store)])
    assert look(store, private, "payload") == ({},)
    assert look(store, open_, "payload") == ({"title": "open"},)


@pytest.mark.parametrize("going_on", [RETRY, RELEASED, OUTAGE])
def test_a_sensitive_payload_stays_while_its_row_goes_on(store: Store, going_on: Transition) -> None:
    id = put_one(store, sensitive=True, payload={"title": "private"})
    settle(store, claim_one(store), going_on)
    assert look(store, id, "payload") == ({"title": "private"},)


# ---------------------------------------------------------------------------------------------------------- the fence


@pytest.mark.parametrize("transition", TRANSITIONS.values(), ids=TRANSITIONS)
def test_a_repeated_write_changes_nothing(store: Store, transition: Transition) -> None:
    id = put_one(store)
    row = claim_one(store)
    settle(store, row, transition)
    once, told = load(store, id), events(store, id)
    answer = settle(store, row, transition)
    if transition.kind == "sent" or transition.status != "pending":
        assert answer.outcome == "lost"
    assert once == load(store, id)
    assert told == events(store, id)


@pytest.mark.parametrize(
    "transition", [change_ for name, change_ in TRANSITIONS.items() if not name.startswith("sent")]
)
def test_a_verdict_from_a_lease_that_another_claim_ended_changes_nothing(store: Store, transition: Transition) -> None:
    id = put_one(store)
    first = claim_one(store, by="first")
    end_leases(store, id)
    claim_one(store, by="second")
    kept = load(store, id)
    assert settle(store, first, transition).outcome == "lost"
    assert kept == load(store, id)
    expected = [] if transition.kind == "released" else ["lease_lost"]
    assert ["created", *expected] == kinds(store, id)
    if expected:
        assert events(store, id)[-1][1] == {"sent": False, "verdict": transition.verdict, "claim_count": 1}


def test_time_alone_does_not_end_a_lease(store: Store) -> None:
    id = put_one(store)
    row = claim_one(store)
    end_leases(store, id)
    assert settle(store, row, RETRY).outcome == "applied"
    assert look(store, id, "status", "attempt_count") == ("pending", 1)


def test_a_late_sent_wins_over_the_second_worker(store: Store) -> None:
    id = put_one(store)
    first = claim_one(store, by="first")
    end_leases(store, id)
    second = claim_one(store, by="second")
    assert settle(store, first, SENT).outcome == "applied"
    kept = load(store, id)
    assert ("sent", "m-1", None, None) == look(store, id, "status", "provider_ref", "claimed_until", "claimed_by")
    for late in (RETRY, DEAD, RELEASED, SENT, SENT_SILENTLY):
        assert settle(store, second, late).outcome == "lost"
        assert kept == load(store, id)
    assert kinds(store, id)[:2] == ["created", "sent"]
    assert kinds(store, id).count("sent") == 1


def test_a_late_sent_on_a_row_that_waits_for_its_next_try_wins(store: Store) -> None:
    id = put_one(store)
    first = claim_one(store, by="first")
    end_leases(store, id)
    settle(store, claim_one(store, by="second"), RETRY)
    assert settle(store, first, SENT).outcome == "applied"
    assert look(store, id, "status", "next_attempt_at") == ("sent", None)
    assert claim(store) == []


def test_a_late_sent_on_a_final_row_is_noted_once(store: Store) -> None:
    id = put_one(store)
    first = claim_one(store, by="first")
    end_leases(store, id)
    settle(store, claim_one(store, by="second"), DEAD)
    ended = load(store, id)
    assert settle(store, first, SENT).outcome == "lost"
    row = load(store, id)
    assert row["sent_at"] is not None
    assert {**ended, "sent_at": row["sent_at"], "provider_ref": "m-1"} == row
    assert settle(store, first, SENT).outcome == "lost"
    assert row == load(store, id)
    assert events(store, id)[2] == ("lease_lost", {"sent": True})


def test_a_late_sent_from_before_a_requeue_changes_nothing(store: Store) -> None:
    id = put_one(store)
    first = claim_one(store, by="first")
    end_leases(store, id)
    settle(store, claim_one(store, by="second"), DEAD)
    assert store.run(lambda connection: requeue(connection, RequeueFilter(ids=[id]))) == [id]
    before = load(store, id)
    assert settle(store, first, SENT).outcome == "lost"
    assert before == load(store, id)
    settle(store, claim_one(store), DEAD)
    ended = load(store, id)
    assert settle(store, first, SENT).outcome == "lost"
    assert ended == load(store, id)


def test_a_row_that_is_gone_is_lost(store: Store) -> None:
    id = put_one(store)
    row = claim_one(store)
    store.run(lambda connection: connection.execute(outgoing.delete()))
    assert settle(store, row).outcome == "lost"
    assert kinds(store, id) == ["created"]


@pytest.mark.parametrize(
    ("transition", "status", "reason"),
    [
        (SENT, "sent", None),
        (NO_TARGET_SENT, "sent", "no token"),
        (NO_TARGET_DEAD, "dead", "no token"),
        (RETRY, "cancelled", "cancelled: busy"),
        (DEAD, "cancelled", "cancelled: too long"),
        (OUTAGE, "cancelled", "cancelled: 401"),
        (RELEASED, "cancelled", "cancelled: stopping"),
        (NO_REASON, "cancelled", "cancelled"),
    ],
)
def test_a_cancel_of_a_leased_row_waits_for_its_verdict(
    store: Store, transition: Transition, status: str, reason: str | None
) -> None:
    id = put_one(store)
    row = claim_one(store)
    [answer] = store.run(lambda connection: cancel(connection, row.notification_id))
    assert answer.outcome == "in_flight"
    assert settle(store, row, transition).status == status
    assert (status, reason) == look(store, id, "status", "reason")
    assert look(store, id, "finished_at") != (None,)
    assert kinds(store, id)[-1] == ("cancelled" if status == "cancelled" else transition.kind)
    assert claim(store) == []


# --------------------------------------------------------------------------------------- what channels hand over


class Odd:
    """An object whose text cannot be stored as it is."""

    def __str__(self) -> str:
        return "odd\x00\ud800"


class Mute:
    """An object without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"in": [value]}
    return value


def endless() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


HUGE = 10**30


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"a": float("nan"), "b": [float("inf")]}, {"a": "nan", "b": ["inf"]}),
        ({"a": HUGE, "b": -HUGE, "c": 2**63}, {"a": str(HUGE), "b": str(-HUGE), "c": str(2**63)}),
        ({"a": Odd(), "b": b"raw"}, {"a": "odd\ufffd\ufffd", "b": "b'raw'"}),
        ({"a": "x\x00\ud800🛎"}, {"a": "x\ufffd\ufffd🛎"}),
        ({1: 2, None: 3, "k\x00": 4}, {"1": 2, "None": 3, "k\ufffd": 4}),
        (MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
        ({"a": {"b": MappingProxyType({"c": 1})}}, {"a": {"b": {"c": 1}}}),
    ],
    ids=["not finite", "huge", "objects", "text", "keys", "mapping", "mappings within"],
)
def test_odd_details_are_stored_clean(store: Store, details: Any, expected: Any) -> None:
    id = put_one(store)
    change_ = Transition.retry(Retryable("busy", details=details, progress=details), 30.0)
    assert settle(store, claim_one(store), change_).outcome == "applied"
    assert look(store, id, "progress") == (expected,)
    assert events(store, id)[-1][1]["details"] == expected


def test_huge_details_are_cut_and_hold_nobody_up(store: Store) -> None:
    id = put_one(store)
    details = {"pages": [["y" * 1000] * 1000] * 1000, "number": 10**5000}

    change_ = Transition.sent(Sent(provider_ref="x" * 50_000_000, details=details))
    settle(store, claim_one(store), change_)

    kept = events(store, id)[-1][1]["details"]
    assert ("pages", "y" * 1000) == (next(iter(kept)), kept["pages"][0][0])
    assert len(json.dumps(kept)) < 200_000


@pytest.mark.parametrize(
    "details", [endless(), deep(5000), {"a": Mute()}, {Mute(): 1}], ids=["endless", "deep", "mute", "mute key"]
)
def test_details_that_cannot_be_stored_cost_no_verdict(store: Store, details: Any) -> None:
    odd, plain = put_one(store), put_one(store, recipient="u2")
    changes = {
        odd: Transition.retry(Retryable("busy", details=details, progress=details), 30.0),
        plain: SENT,
    }
    answers = store.settle([verdict(row, changes[row.id]) for row in claim(store)])
    assert {"applied"} == {answer.outcome for answer in answers}
    assert ("pending", 1) == look(store, odd, "status", "attempt_count")
    assert ("sent",) == look(store, plain, "status")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("a\x00b", "a\ufffdb"),
        ("a\ud800b\udc00", "a\ufffdb\ufffd"),
        ("🛎️ שלום e\u0301", "🛎️ שלום e\u0301"),
        ("x" * 5000, "x" * 1999 + "…"),
        ("', \"); DROP TABLE sendoff_outgoing; -- %s :name {}", "', \"); DROP TABLE sendoff_outgoing; -- %s :name {}"),
    ],
)
def test_a_reason_is_stored_clean_and_its_batch_mates_are_unaffected(store: Store, reason: str, expected: str) -> None:
    odd, plain = put_one(store), put_one(store, recipient="u2")
    changes = {odd: Transition.dead("permanent", reason), plain: SENT}
    store.settle([verdict(row, changes[row.id]) for row in claim(store)])
    assert ("dead", expected) == look(store, odd, "status", "reason")
    assert ("sent",) == look(store, plain, "status")
    assert events(store, odd)[-1] == ("dead", {"reason": expected, "verdict": "permanent"})


def test_a_provider_reference_is_stored_clean(store: Store) -> None:
    id = put_one(store)
    settle(store, claim_one(store), Transition.sent(Sent(provider_ref="m\x00" + "x" * 3000)))
    assert look(store, id, "provider_ref") == ("m\ufffd" + "x" * 1997 + "…",)


def test_a_revealed_secret_is_in_no_column(store: Store) -> None:
    Secret("token-of-the-store").reveal()
    id = put_one(store)
    change_ = Transition.retry(Retryable("url/token-of-the-store/", details={"url": "token-of-the-store"}), 30.0)
    settle(store, claim_one(store), change_)
    assert look(store, id, "reason") == (f"url/{MASK}/",)
    assert events(store, id)[-1][1]["details"] == {"url": MASK}


def test_a_batch_that_the_database_refuses_is_written_row_by_row(fresh_store: Store) -> None:
    """A trigger of the application's own refuses one reason; three verdicts stand in the batch."""
    store = fresh_store
    rows = [new_row(recipient=f"u{number}") for number in range(3)]
    put(store, *rows)
    refuse(store, "refused")
    changes = [SENT, Transition.dead("permanent", "refused"), RETRY]
    claimed = {row.id: row for row in claim(store)}
    batch = [verdict(claimed[row.id], transition) for row, transition in zip(rows, changes, strict=True)]
    answers = store.settle(batch)
    assert ["applied"] * 3 == [answer.outcome for answer in answers]
    assert [row.id for row in rows] == [answer.id for answer in answers]
    found = [look(store, row.id, "status", "reason") for row in rows]
    assert found[0] == ("sent", None)
    assert found[1][0] == "dead"
    assert found[1][1].startswith("the reason could not be stored (")
    assert found[2] == ("pending", "busy")


def refuse(store: Store, reason: str) -> None:
    with store.engine.begin() as connection:
        if store.is_postgresql:
            check = f"CHECK (reason IS DISTINCT FROM '{reason}')"
            connection.exec_driver_sql(f"ALTER TABLE sendoff_outgoing ADD CONSTRAINT no_such_reason {check}")
        else:
            then = f"WHEN new.reason = '{reason}' BEGIN SELECT raise(ABORT, 'refused'); END"
            connection.exec_driver_sql(f"CREATE TRIGGER no_such_reason BEFORE UPDATE ON sendoff_outgoing {then}")


# ----------------------------------------------------------------------------------------------------------- in batches


def test_answers_come_in_the_order_of_the_verdicts(store: Store) -> None:
    put(store, *[new_row(recipient=f"u{number}") for number in range(50)])
    rows = claim(store)[::-1]
    answers = store.settle([verdict(row, SENT if index % 2 else DEAD) for index, row in enumerate(rows)])
    assert [row.id for row in rows] == [answer.id for answer in answers]
    assert ["dead", "sent"] * 25 == [answer.status for answer in answers]


def test_two_verdicts_on_one_row_in_one_call_are_written_in_order(store: Store) -> None:
    id = put_one(store)
    row = claim_one(store)
    answers = store.settle([verdict(row, RETRY), verdict(row, SENT)])
    assert ["applied", "applied"] == [answer.outcome for answer in answers]
    assert ("sent", 1, 2) == look(store, id, "status", "attempt_count", "try_count")
    assert kinds(store, id) == ["created", "retry", "sent"]


def test_nothing_to_settle_is_nothing(store: Store) -> None:
    assert store.settle([]) == []


def test_two_settlers_with_the_same_rows_in_opposite_order_do_not_deadlock(store: Store) -> None:
    rows = [new_row(recipient=f"u{number}") for number in range(40)]
    put(store, *rows)
    claimed = claim(store)
    both_ = threading.Barrier(2)

    def settle_all(order: int) -> int:
        applied = 0
        for _ in range(200):
            both_.wait()
            batch = [verdict(row, Transition.sent(Sent(provider_ref=None))) for row in claimed[::order]]
            applied += sum(answer.outcome == "applied" for answer in store.settle(batch))
        return applied

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(settle_all, [1, -1])) == len(rows)
    assert {"sent"} == {load(store, row.id)["status"] for row in rows}


def test_two_settlers_that_change_the_same_rows_do_not_deadlock(store: Store) -> None:
    """Here every round changes every row, so that each waits for the other's locks."""
    rows = [new_row(recipient=f"u{number}") for number in range(15)]
    put(store, *rows)
    both_ = threading.Barrier(2)
    claimed: list[Any] = []

    def settle_all(order: int) -> int:
        applied = 0
        for _ in range(200):
            if both_.wait() == 0:
                claimed[:] = claim(store)
            both_.wait()
            batch = [verdict(row, RELEASED) for row in claimed[::order]]
            applied += sum(answer.outcome == "applied" for answer in store.settle(batch))
        return applied

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(settle_all, [1, -1])) == 200 * len(rows)
