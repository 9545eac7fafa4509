"""Inserting: in the caller's transaction, once per dedup key, on whatever connection the caller has."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from sendoff import ConfigurationError, Enqueued, Notification, Sendoff, Step, StoreError
from sendoff.enqueue import new_id
from sendoff.plugin import Channel, Delivery, hookimpl
from sendoff.store import Store, make_engine
from sendoff.tables import event, outgoing
from sendoff.types import to_micros
from tests.support.rows import events, ids, kinds, load, look, new_row, now, opened, put, put_one
from tests.support.values import JSON_VALUES, TEXTS


class Plain(Channel):
    """A channel that only exists."""

    def __init__(self, name: str) -> None:
        self.name = name

    def send(self, delivery: Delivery) -> None:
        """Accept everything."""


class Plugin:
    """Three channels."""

    @hookimpl
    def sendoff_channels(self) -> list[Channel]:
        return [Plain("email"), Plain("sms"), Plain("push")]


@pytest.fixture
def so(database_url: str) -> Iterator[Sendoff]:
    with Sendoff(database_url, plugins=[Plugin()], entry_points=False) as so:
        yield so


def order(**changes: Any) -> Notification:
    return Notification(**{"recipient": "u1", "type": "order", "channels": ["email"], "dedup_key": "k", **changes})


def outcomes(answer: Enqueued) -> list[str]:
    return [row.outcome for row in answer.rows]


def all_events(store: Store) -> list[tuple[Any, ...]]:
    chosen = sa.select(event.c.kind, event.c.notification_id, event.c.outgoing_id)
    return [tuple(row) for row in store.read(lambda connection: connection.execute(chosen).all())]


# ------------------------------------------------------------------------------------------------------ what is written


def test_a_row_is_due_at_once_with_its_event(store: Store) -> None:
    before = now(store)
    id = put_one(store, payload={"title": "Ok"}, addresses=["a@x"], meta={"locale": "de"}, collapse_key="c", priority=0)
    row = load(store, id)
    assert before <= row["created_at"] <= now(store)
    expected = {
        "status": "pending",
        "payload": {"title": "Ok"},
        "addresses": ["a@x"],
        "meta": {"locale": "de"},
        "collapse_key": "c",
        "priority": 0,
        "sensitive": False,
        "claim_count": 0,
        "try_count": 0,
        "claimed_until": None,
        "claimed_by": None,
        "expires_at": None,
        "first_due_at": row["created_at"],
        "due_at": row["created_at"],
        "next_attempt_at": row["created_at"],
    }
    assert expected == {name: row[name] for name in expected}
    assert events(store, id) == [("created", None)]


def test_a_later_due_time_and_a_ttl_that_counts_from_it(store: Store) -> None:
    due = now(store).replace(microsecond=123_457, year=2199)
    id = put_one(store, not_before=to_micros(due), ttl=90.5)
    assert (due, due, due) == look(store, id, "first_due_at", "due_at", "next_attempt_at")
    [expires_at] = look(store, id, "expires_at")
    assert (expires_at - due).total_seconds() == pytest.approx(90.5)


def test_a_due_time_of_long_ago_means_now(store: Store) -> None:
    id = put_one(store, not_before=1)
    created, due = look(store, id, "created_at", "due_at")
    assert created == due


def test_a_row_inserted_already_leased_is_its_owners(store: Store) -> None:
    id = put_one(store, lease=60.0, claimed_by="me")
    row = load(store, id)
    assert (1, 0, "me") == (row["claim_count"], row["lost_leases"], row["claimed_by"])
    assert row["claimed_until"] == row["next_attempt_at"]
    assert (row["claimed_until"] - row["created_at"]).total_seconds() == 60


def test_many_rows_go_in_chunks(store: Store) -> None:
    rows = [new_row(recipient=f"u{number}") for number in range(1203)]
    assert put(store, *rows) == {}
    assert {row.id for row in rows} == ids(store)
    assert len(all_events(store)) == 1203


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(TEXTS, JSON_VALUES, max_size=4), st.lists(TEXTS, max_size=3), TEXTS, TEXTS)
def test_whatever_json_was_let_in_comes_back_unchanged(
    store: Store, payload: dict[str, Any], addresses: list[str], recipient: str, key: str
) -> None:
    row = new_row(payload=payload, meta=payload, addresses=addresses, recipient=recipient, dedup_key=f"{new_id()}{key}")
    put(store, row)
    found = load(store, row.id)
    assert (payload, payload, addresses) == (found["payload"], found["meta"], found["addresses"])
    assert (recipient, row.dedup_key) == (found["recipient"], found["dedup_key"])


# ---------------------------------------------------------------------------------------------------------- dedup keys


def test_the_same_key_twice_is_one_row_and_the_second_answer_says_so(so: Sendoff) -> None:
    first = so.enqueue(order(), None)
    second = so.enqueue(order(), None)
    assert (["created"], ["duplicate"]) == (outcomes(first), outcomes(second))
    assert first.notification_id == second.notification_id
    assert first.rows[0].outgoing_id == second.rows[0].outgoing_id
    assert second.rows[0].reason == "dedup_key"
    assert len(all_events(so.store)) == 1


def test_without_a_key_each_is_its_own(so: Sendoff) -> None:
    answers = [so.enqueue(order(dedup_key=None), None) for _ in range(2)]
    assert [["created"], ["created"]] == [outcomes(answer) for answer in answers]


def test_a_key_holds_for_one_recipient_and_channel(so: Sendoff) -> None:
    buyer = so.enqueue(order(recipient="buyer", channels=["email", "sms"]), None)
    seller = so.enqueue(order(recipient="seller", channels=["email", "sms"]), None)
    assert ["created", "created"] == outcomes(buyer) == outcomes(seller)
    assert buyer.notification_id != seller.notification_id


def test_the_same_key_twice_in_one_call(so: Sendoff) -> None:
    answers = so.enqueue_many([order(), order(), order(recipient="u2")], None)
    found = [answer for answer in answers if isinstance(answer, Enqueued)]
    assert [["created"], ["duplicate"], ["created"]] == [outcomes(answer) for answer in found]
    assert found[0] == Enqueued(found[1].notification_id, found[0].rows)
    assert found[0].rows[0].outgoing_id == found[1].rows[0].outgoing_id


def test_new_siblings_join_the_notification_that_was_there(so: Sendoff) -> None:
    first = so.enqueue(order(channels=["email"]), None)
    second = so.enqueue(order(channels=["sms", "email", "push"]), None)
    assert ["created", "duplicate", "created"] == outcomes(second)
    assert first.notification_id == second.notification_id
    kept = {look(so.store, row.outgoing_id, "notification_id")[0] for row in second.rows if row.outgoing_id}
    assert {first.notification_id} == kept
    assert {first.notification_id} == {id for _, id, _ in all_events(so.store)}


def test_siblings_of_a_sibling_that_joined_join_too(so: Sendoff) -> None:
    first = so.enqueue(order(channels=["email"]), None)
    answers = so.enqueue_many(
        [order(channels=["email", "sms"]), order(channels=["sms"]), order(channels=["sms", "push"])], None
    )
    assert [first.notification_id] * 3 == [answer.notification_id for answer in answers if isinstance(answer, Enqueued)]
    assert {first.notification_id} == {load(so.store, id)["notification_id"] for id in ids(so.store)}


def test_a_step_follows_the_row_that_was_there(so: Sendoff) -> None:
    first = so.enqueue(order(channels=["email"]), None)
    second = so.enqueue(order(channels=["email", Step("sms", after="email"), Step("push", after="sms")]), None)
    sms, push = second.row("sms").outgoing_id, second.row("push").outgoing_id
    assert sms is not None
    assert push is not None
    assert ("waiting", first.rows[0].outgoing_id) == look(so.store, sms, "status", "after_id")
    assert ("waiting", sms) == look(so.store, push, "status", "after_id")


def test_the_same_key_from_two_connections_at_once(so: Sendoff) -> None:
    start = threading.Barrier(4)

    def enqueue(_: int) -> Enqueued:
        start.wait()
        return so.enqueue(order(channels=["email", "sms"]), None)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(enqueue, range(4)))
    assert sorted(outcomes(answer) for answer in answers) == [["created"] * 2] + [["duplicate"] * 2] * 3
    assert len({answer.notification_id for answer in answers}) == 1
    assert len(ids(so.store)) == 2


def test_the_second_waits_for_the_first_and_gets_the_key_when_it_rolls_back(postgres_url: str) -> None:
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with (
        opened(postgres_url) as store,
        Sendoff(engine=store.engine, plugins=[Plugin()], entry_points=False) as so,
        store.engine.connect() as first,
        store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as watch,
        ThreadPoolExecutor(1) as pool,
    ):
        assert outcomes(so.enqueue(order(), first)) == ["created"]
        second = pool.submit(so.enqueue, order(), None)
        while not watch.exec_driver_sql(waits).scalar_one():
            assert not second.done()
        first.rollback()
        assert outcomes(second.result()) == ["created"]


@pytest.mark.parametrize("size", [40, 1200])
def test_the_same_keys_in_opposite_order_do_not_deadlock(so: Sendoff, size: int) -> None:
    notifications = [order(dedup_key=f"{number}:Ä{number % 7}z") for number in range(size)]
    start = threading.Barrier(2)

    def enqueue(chosen: list[Notification]) -> int:
        start.wait()
        return sum(
            outcomes(answer) == ["created"] for answer in so.enqueue_many(chosen, None) if isinstance(answer, Enqueued)
        )

    with ThreadPoolExecutor(2) as pool:
        created = list(pool.map(enqueue, [notifications, notifications[::-1]]))
    assert size == sum(created) == len(ids(so.store))


# ------------------------------------------------------------------------------------------- the caller's transaction


def test_rollback_leaves_nothing(so: Sendoff) -> None:
    with so.engine.connect() as connection:
        so.enqueue(order(), connection)
        connection.rollback()
    assert ids(so.store) == set()
    assert all_events(so.store) == []


def test_rollback_to_a_savepoint_leaves_what_was_before(so: Sendoff) -> None:
    with so.engine.begin() as connection:
        kept = so.enqueue(order(dedup_key="kept"), connection)
        savepoint = connection.begin_nested()
        so.enqueue(order(dedup_key="dropped"), connection)
        savepoint.rollback()
    assert {kept.rows[0].outgoing_id} == ids(so.store)
    assert [("created", kept.notification_id, kept.rows[0].outgoing_id)] == all_events(so.store)


def test_a_key_that_was_rolled_back_is_free_again(so: Sendoff) -> None:
    with so.engine.connect() as connection:
        so.enqueue(order(), connection)
        connection.rollback()
    assert outcomes(so.enqueue(order(), None)) == ["created"]


@contextmanager
def sqlalchemy_connection(url: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    """An application's own engine, not ours."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        yield connection, connection.commit
    engine.dispose()


@contextmanager
def session(url: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    engine = make_engine(url)
    with Session(engine) as session:
        yield session, session.commit
    engine.dispose()


@contextmanager
def scoped(url: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    engine = make_engine(url)
    session = scoped_session(sessionmaker(engine))
    yield session, session.commit
    session.remove()
    engine.dispose()


@contextmanager
def driver(url: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as lite:
            yield lite, lite.commit
    else:
        with psycopg.connect(url) as connection:
            yield connection, connection.commit


@contextmanager
def driver_with_dicts(url: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Applications change what their rows look like."""
    with driver(url) as (connection, commit):
        connection.row_factory = _as_dict if isinstance(connection, sqlite3.Connection) else dict_row
        yield connection, commit


def _as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip([column[0] for column in cursor.description], row, strict=True))


@pytest.mark.parametrize("kind", [sqlalchemy_connection, session, scoped, driver, driver_with_dicts])
def test_any_usual_connection_will_do(so: Sendoff, database_url: str, kind: Callable[[str], Any]) -> None:
    with kind(database_url) as (connection, commit):
        first = so.enqueue(order(channels=["email", Step("sms", after="email")], data={"100 %": ":name"}), connection)
        second = so.enqueue(order(channels=["email", "push"]), connection)
        assert ["created", "created"] == outcomes(first)
        assert ["duplicate", "created"] == outcomes(second)
        assert ids(so.store) == set()
        commit()
    assert len(ids(so.store)) == 3
    assert {first.notification_id} == {load(so.store, id)["notification_id"] for id in ids(so.store)}


@pytest.mark.parametrize("kind", [sqlalchemy_connection, session, driver])
def test_any_usual_connection_may_roll_back(so: Sendoff, database_url: str, kind: Callable[[str], Any]) -> None:
    with kind(database_url) as (connection, _):
        so.enqueue(order(), connection)
        connection.rollback()
    assert ids(so.store) == set()


@pytest.mark.parametrize("kind", [sqlalchemy_connection, session, driver])
def test_a_database_without_tables_is_named_on_any_connection(
    empty_database_url: str, kind: Callable[[str], Any]
) -> None:
    so = Sendoff(empty_database_url, plugins=[Plugin()], entry_points=False)
    with kind(empty_database_url) as (connection, _), pytest.raises(StoreError, match="run `sendoff migrate`"):
        so.enqueue(order(), connection)


def test_a_database_error_does_not_show_the_payload(so: Sendoff, database_url: str) -> None:
    with so.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE sendoff_outgoing ADD COLUMN tenant integer")
        connection.exec_driver_sql("CREATE UNIQUE INDEX one_each ON sendoff_outgoing (type)")
    so.enqueue(order(dedup_key=None), None)
    with pytest.raises(StoreError) as caught:
        so.enqueue(order(dedup_key=None, title="the secret content"), None)
    assert "secret content" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.constraint in {"one_each", None}


# ------------------------------------------------------------------------------------------------ duplicates by number


def test_duplicates_are_answered_by_their_position(store: Store) -> None:
    there = new_row(dedup_key="b")
    put(store, there)
    rows = [new_row(dedup_key=key) for key in ("a", "b", "c", None)]
    found = put(store, *rows)
    assert [1] == list(found)
    assert (there.id, there.notification_id) == (found[1].id, found[1].notification_id)
    assert {there.id, rows[0].id, rows[2].id, rows[3].id} == ids(store)
    assert kinds(store, rows[1].id) == []


def test_a_key_is_compared_exactly(store: Store) -> None:
    keys = ["k", "K", " k", "k ", "ḱ", "k\u0301"]
    assert put(store, *[new_row(dedup_key=key) for key in keys]) == {}


def test_a_uuid_is_stored_as_it_is(store: Store) -> None:
    id = put_one(store, broadcast_id=UUID(int=7))
    assert (UUID(int=7),) == look(store, id, "broadcast_id")


@pytest.mark.parametrize("connection", ["a URL", 5, object(), {}])
def test_what_is_no_connection_is_named(so: Sendoff, connection: object) -> None:
    with pytest.raises(ConfigurationError, match=f"connection is a .*{type(connection).__name__}: pass an SQLAlchemy"):
        so.enqueue(order(), connection)


def test_the_outgoing_table_is_untouched_by_a_wrong_connection(so: Sendoff) -> None:
    with pytest.raises(ConfigurationError):
        so.enqueue(order(), so.engine)
    with so.engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(outgoing)) == 0
