"""Claiming: whose turn it is, and that nobody else gets the same row."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sendoff.policy import Transition
from sendoff.store import Store
from sendoff.store.acts import cancel
from sendoff.store.channels import ensure_channels
from sendoff.store.claim import _CLAIM_POSTGRESQL as CLAIM
from sendoff.store.claim import LANES, Positions, held_by, lane_order, take_given
from sendoff.tables import channel, outgoing
from sendoff.types import to_micros
from tests.support.rows import (
    EMAIL,
    LEASE,
    change,
    claim,
    claim_one,
    end_leases,
    load,
    look,
    new_row,
    now,
    opened,
    pass_time,
    put,
    put_one,
    settle,
    verdict,
)

URGENT, NORMAL, BULK = LANES


def put_lanes(store: Store, number: int = 3) -> dict[int, list[UUID]]:
    """So many rows in each lane, the least urgent first."""
    rows = [new_row(priority=lane, recipient=f"u{one}") for lane in (BULK, NORMAL, URGENT) for one in range(number)]
    put(store, *rows)
    return {lane: [row.id for row in rows if row.priority == lane] for lane in LANES}


# ------------------------------------------------------------------------------------------------------------ a lease


def test_a_claim_leases_the_row(store: Store) -> None:
    id = put_one(store, payload={"a": [1, "é"]}, addresses=["a@x"], meta={"locale": "de"}, collapse_key="c", ttl=900.0)
    before = now(store)
    row = claim_one(store, by="me", lease=60.0)
    kept = load(store, id)
    assert (id, EMAIL, "u1", "order", 1) == (row.id, row.channel, row.recipient, row.type, row.priority)
    assert ({"a": [1, "é"]}, ["a@x"], {"locale": "de"}, "c") == (row.payload, row.addresses, row.meta, row.collapse_key)
    assert (0, 0, 1, 0, 0) == (row.attempt_count, row.try_count, row.claim_count, row.lost_leases, row.requeue_count)
    assert (None, False, kept["notification_id"]) == (row.progress, row.cancel_requested, row.notification_id)
    assert kept["created_at"] == row.created_at
    assert row.created_at.tzinfo is UTC
    assert kept["first_due_at"].timestamp() == pytest.approx(row.first_due_at, abs=1e-5)
    assert before.timestamp() - 1e-5 <= row.now <= now(store).timestamp()
    assert row.expires_in == pytest.approx(900, abs=60)
    assert row.expires_in is not None
    assert row.expires_in < 900
    assert ("pending", "me", 1) == (kept["status"], kept["claimed_by"], kept["claim_count"])
    assert kept["claimed_until"] == kept["next_attempt_at"]
    assert before + timedelta(seconds=60) <= kept["claimed_until"] <= now(store) + timedelta(seconds=60)
    assert kept["due_at"] == kept["created_at"]


def test_a_leased_row_is_nobody_elses(store: Store) -> None:
    put_one(store)
    claim_one(store)
    assert claim(store) == []


def test_a_row_without_an_end_has_none(store: Store) -> None:
    put_one(store)
    row = claim_one(store)
    assert (None, None, None) == (row.expires_in, row.addresses, row.meta)


def test_a_lease_that_ran_out_is_due_again_and_is_counted(store: Store) -> None:
    id = put_one(store)
    for lost in range(4):
        row = claim_one(store)
        assert (lost + 1, lost, 0) == (row.claim_count, row.lost_leases, row.attempt_count)
        end_leases(store, id)
    assert look(store, id, "try_count", "verdict") == (0, None)


def test_the_fencing_token_only_grows(store: Store) -> None:
    id = put_one(store)
    tokens = []
    for _ in range(5):
        row = claim_one(store)
        tokens.append(row.claim_count)
        settle(store, row, released())
    assert tokens == [1, 2, 3, 4, 5]
    assert look(store, id, "claim_count", "lost_leases") == (5, 0)


def released() -> Transition:
    return Transition.released("test")


# ------------------------------------------------------------------------------------------------------- what is left


def test_what_is_not_due_is_left(store: Store) -> None:
    later = to_micros(now(store) + timedelta(hours=1))
    put_one(store, not_before=later)
    put_one(store, status="waiting", after_id=UUID(int=1))
    put_one(store, channel="sms")
    expired = put_one(store, ttl=30.0)
    pass_time(store, 40, expired)
    for status in ("sent", "delivered", "dead", "cancelled", "expired"):
        change(store, put_one(store), status=status)
    due = put_one(store)
    assert [due] == [row.id for row in claim(store)]


def test_a_cancelled_row_is_left_and_a_cancel_in_flight_is_told(store: Store) -> None:
    gone, held = new_row(), new_row(recipient="u2")
    put(store, gone)
    store.run(lambda connection: cancel(connection, gone.notification_id))
    put(store, held)
    claim_one(store)
    store.run(lambda connection: cancel(connection, held.notification_id))
    end_leases(store, held.id)
    row = claim_one(store)
    assert (held.id, True) == (row.id, row.cancel_requested)


@pytest.mark.parametrize(
    ("pause", "is_open"),
    [
        ({}, True),
        ({"paused_by": "ops"}, False),
        ({"paused_by": "ops", "paused_until": 60}, False),
        ({"paused_by": "ops", "paused_until": -60}, True),
        ({"paused_until": 60}, True),
        ({"breaker_until": 60, "breaker_level": 1}, False),
        ({"breaker_until": -60, "breaker_level": 1}, True),
        ({"paused_by": "ops", "breaker_until": -60}, False),
        ({"paused_by": "ops", "paused_until": -60, "breaker_until": 60}, False),
    ],
)
def test_a_paused_channel_is_left(store: Store, pause: dict[str, Any], is_open: bool) -> None:
    id = put_one(store)
    store.run(lambda connection: ensure_channels(connection, [EMAIL, "sms"]))
    other = put_one(store, channel="sms")
    moments = {name: now(store) + timedelta(seconds=value) for name, value in pause.items() if name.endswith("until")}
    chosen = channel.update().where(channel.c.name == EMAIL).values(breaker_reason="test", **{**pause, **moments})
    store.run(lambda connection: connection.execute(chosen))
    assert ([id] if is_open else []) == [row.id for row in claim(store)]
    assert [other] == [row.id for row in claim(store, channel="sms")]


def test_rows_whose_lease_ran_out_can_be_left_to_the_verdicts_on_their_way(store: Store) -> None:
    lost = put_one(store)
    claim_one(store)
    end_leases(store, lost)
    fresh = put_one(store)
    assert [fresh] == [row.id for row in claim(store, unleased_only=True)]
    assert [lost] == [row.id for row in claim(store)]


# -------------------------------------------------------------------------------------------------------------- lanes


def test_of_every_ten_claims_the_8th_starts_with_normal_and_the_10th_with_bulk() -> None:
    first = [lane_order(turn)[0] for turn in range(20)]
    assert first == [URGENT] * 7 + [NORMAL, URGENT, BULK] + [URGENT] * 7 + [NORMAL, URGENT, BULK]


@given(st.integers(0, 10**9))
def test_every_claim_looks_at_every_lane(turn: int) -> None:
    assert sorted(lane_order(turn)) == list(LANES)


@pytest.mark.parametrize("turn", [0, 7, 9])
def test_lanes_are_taken_in_order_and_each_by_its_due_time(store: Store, turn: int) -> None:
    lanes = put_lanes(store)
    order = lane_order(turn)
    expected = [id for lane in order for id in lanes[lane]]
    assert expected == [row.id for row in claim(store, lanes=order)]


def test_the_limit_counts_across_lanes(store: Store) -> None:
    lanes = put_lanes(store)
    assert lanes[URGENT] + lanes[NORMAL][:2] == [row.id for row in claim(store, 5)]
    assert lanes[NORMAL][2:] + lanes[BULK][:1] == [row.id for row in claim(store, 2)]
    left = store.read(
        lambda connection: connection.scalars(sa.select(outgoing.c.claim_count).order_by(outgoing.c.claim_count)).all()
    )
    assert left == [0, 0, 1, 1, 1, 1, 1, 1, 1]


def test_the_oldest_due_goes_first(store: Store) -> None:
    young, old = put_one(store), put_one(store)
    pass_time(store, 60, old)
    assert [old, young] == [row.id for row in claim(store)]


def test_a_claim_locks_no_more_than_it_returns(postgres_url: str) -> None:
    with opened(postgres_url) as store:
        lanes = put_lanes(store, 10)
        parameters = {
            **{f"lane{lane}": lane for lane in LANES},
            **{f"at{lane}": "1970-01-01+00" for lane in LANES},
            **{f"id{lane}": UUID(int=0) for lane in LANES},
            "channel": EMAIL,
            "limit": 4,
            "lease": LEASE,
            "claimed_by": "first",
            "unleased_only": False,
        }
        with store.engine.begin() as connection:
            assert len(connection.execute(CLAIM, parameters).all()) == 4
            others = [row.id for row in claim(store, 100)]
            assert others == lanes[URGENT][4:] + lanes[NORMAL] + lanes[BULK]


# ---------------------------------------------------------------------------------------------------- several claimers


def test_two_claimers_never_share_a_row(store: Store) -> None:
    put(store, *[new_row(recipient=f"u{number}", priority=number % 3) for number in range(600)])
    together = threading.Barrier(2)

    def claim_all(name: str) -> list[tuple[UUID, int]]:
        found: list[tuple[UUID, int]] = []
        together.wait()
        while rows := claim(store, 7, by=name):
            assert len(rows) <= 7
            found += [(row.id, row.claim_count) for row in rows]
        return found

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(claim_all, ["first", "second"])
    both = first + second
    assert 600 == len(both) == len({id for id, _ in both})
    assert {1} == {token for _, token in both}


# ---------------------------------------------------------------------------------------------------------- positions


def test_a_position_moves_on_and_a_look_from_the_start_finds_what_came_behind_it(store: Store) -> None:
    """2,000 rows become due behind the position of a worker: all are found by the next look from the start."""
    positions = Positions()
    put(store, *[new_row(recipient=f"early{number}") for number in range(20)])
    ahead = claim(store, positions=positions)
    positions.advance(ahead)
    store.settle([verdict(row) for row in ahead])
    late = [new_row(recipient=f"late{number}", priority=number % 3) for number in range(2000)]
    put(store, *late)
    pass_time(store, 3600, *[row.id for row in late])
    found: set[UUID] = set()
    while first := claim(store, 500, positions=None):
        rows = first
        while rows:
            positions.advance(rows)
            found |= {row.id for row in rows}
            rows = claim(store, 500, positions=positions)
    assert {row.id for row in late} == found


def test_behind_the_position_nothing_is_looked_for(postgres_url: str) -> None:
    with opened(postgres_url) as store:
        positions = Positions()
        first, second = put_one(store), put_one(store)
        rows = claim(store, 1, positions=positions)
        assert [first] == [row.id for row in rows]
        positions.advance(rows)
        settle(store, rows[0], released())
        assert [second] == [row.id for row in claim(store, positions=positions)]
        positions.rewind()
        assert [first] == [row.id for row in claim(store, positions=positions)]


def test_rows_with_one_due_time_are_all_found_in_small_steps(store: Store) -> None:
    rows = [new_row(recipient=f"u{number}") for number in range(30)]
    put(store, *rows)
    store.run(lambda connection: connection.execute(outgoing.update().values(next_attempt_at=now(store))))
    positions, found = Positions(), set[UUID]()
    while step := claim(store, 4, positions=positions):
        positions.advance(step)
        found |= {row.id for row in step}
    assert {row.id for row in rows} == found


def test_each_lane_has_its_own_position(store: Store) -> None:
    lanes = put_lanes(store, 2)
    positions = Positions()
    urgent = claim(store, 2, positions=positions)
    positions.advance(urgent)
    assert urgent[-1].position == positions.of(URGENT)
    assert positions.of(BULK) == Positions().of(BULK)
    assert lanes[NORMAL] + lanes[BULK] == [row.id for row in claim(store, positions=positions)]


# ------------------------------------------------------------------------------------------------------------ the plan


@pytest.mark.parametrize("analyzed", ["never", "when empty", "now"])
def test_postgresql_goes_by_the_due_index(postgres_url: str, analyzed: str) -> None:
    with opened(postgres_url) as store:
        plain = store.engine.execution_options(isolation_level="AUTOCOMMIT")
        with plain.connect() as connection:
            connection.exec_driver_sql("ALTER TABLE sendoff_outgoing SET (autovacuum_enabled = false)")
            if analyzed == "when empty":
                connection.exec_driver_sql("VACUUM ANALYZE sendoff_outgoing")
            fill(store, 20_000)
            if analyzed == "now":
                connection.exec_driver_sql("ANALYZE sendoff_outgoing")
        plan = explain(store)
        assert "sendoff_outgoing_due" in plan
        assert "Seq Scan on sendoff_outgoing" not in plan
        assert "sendoff_outgoing_pkey" in plan


def fill(store: Store, number: int) -> None:
    """Rows by the thousand, nine of ten of them finished."""
    statement = sa.text(
        "INSERT INTO sendoff_outgoing (id, notification_id, channel, recipient, type, payload, status, created_at,"
        " due_at, first_due_at, next_attempt_at) "
        "SELECT gen_random_uuid(), gen_random_uuid(), 'email', 'u' || n, 'order', '{}',"
        " CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'sent' END, now(), now(), now(),"
        " CASE WHEN n % 10 = 0 THEN now() END FROM generate_series(1, :number) AS n"
    )
    store.run(lambda connection: connection.execute(statement, {"number": number}))


def explain(store: Store) -> str:
    parameters: dict[str, Any] = {f"lane{lane}": lane for lane in LANES}
    parameters |= {f"at{lane}": "1970-01-01+00" for lane in LANES} | {f"id{lane}": UUID(int=0) for lane in LANES}
    parameters |= {"channel": EMAIL, "limit": 100, "lease": LEASE, "claimed_by": "me", "unleased_only": False}
    with store.engine.connect() as connection:
        lines = connection.execute(sa.text(f"EXPLAIN {CLAIM.text}"), parameters).scalars().all()
        connection.rollback()
    return "\n".join(lines)


# --------------------------------------------------------------------------------------------- given rows, held rows


def test_given_rows_are_leased_where_they_are_due_and_free(store: Store) -> None:
    due, lapsed, held, later, ended = [put_one(store, recipient=f"u{number}") for number in range(5)]
    other = put_one(store, channel="sms")
    claim(store)
    for id in (due, later, ended):
        change(store, id, claimed_until=None, claim_count=0, next_attempt_at=now(store))
    pass_time(store, LEASE + 1, lapsed)
    change(store, later, next_attempt_at=now(store) + timedelta(hours=1))
    change(store, ended, status="dead")
    rows = store.run(
        lambda connection: take_given(connection, [due, lapsed, held, later, ended, other], "me", {EMAIL: 60.0})
    )
    assert [due, lapsed] == [row.id for row in rows]
    assert [(1, 0), (2, 1)] == [(row.claim_count, row.lost_leases) for row in rows]
    assert {"me"} == {look(store, row.id, "claimed_by")[0] for row in rows}
    assert look(store, other, "claimed_by") == (None,)


def test_given_rows_that_expired_are_left(store: Store) -> None:
    id = put_one(store, ttl=30.0)
    pass_time(store, 40, id)
    assert store.run(lambda connection: take_given(connection, [id], "me", {EMAIL: 60.0})) == []


def test_held_rows_are_as_a_claim_returns_them(store: Store) -> None:
    mine = put_one(store, lease=60.0, claimed_by="me", payload={"a": 1}, meta={"b": 2}, addresses=["c"], ttl=60.0)
    put_one(store, lease=60.0, claimed_by="another")
    [row] = store.run(lambda connection: held_by(connection, [mine], "me"))
    assert (mine, 1, 0, {"a": 1}, {"b": 2}, ["c"]) == (
        row.id,
        row.claim_count,
        row.lost_leases,
        row.payload,
        row.meta,
        row.addresses,
    )
    assert row.expires_in == pytest.approx(60, abs=30)
    assert settle(store, row).outcome == "applied"
    assert store.run(lambda connection: held_by(connection, [mine], "me")) == []


def test_which_leases_are_still_ours(store: Store) -> None:
    kept, settled, taken, cancelled, gone = [put_one(store, recipient=f"u{number}") for number in range(5)]
    rows = {row.id: row for row in claim(store)}
    settle(store, rows[settled])
    end_leases(store, taken)
    claim(store, by="another")
    store.run(lambda connection: cancel(connection, rows[cancelled].notification_id))
    store.run(lambda connection: connection.execute(outgoing.delete().where(outgoing.c.id == gone)))
    assert {kept, cancelled} == store.still_held(list(rows.values()))
    assert store.still_held([]) == set()
