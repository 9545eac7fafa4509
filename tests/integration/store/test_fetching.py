"""The rows of fetchers: one run at a time, one commit for each page."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from sendoff.store import Store
from sendoff.store.fetching import (
    FetchLease,
    advance,
    begin,
    ensure_fetcher,
    fail,
    finish,
    page_was_saved,
    saved_cursor,
)
from sendoff.store.sql import db_now, plus
from sendoff.tables import fetcher
from tests.support.rows import now

EVERY = 600.0


@pytest.fixture(autouse=True)
def _orders(store: Store) -> None:
    store.run(lambda connection: ensure_fetcher(connection, "orders"))


def state(store: Store) -> dict[str, Any]:
    return dict(store.read(lambda connection: connection.execute(sa.select(fetcher)).one())._mapping)


def start(store: Store, *, force: bool = False) -> FetchLease | None:
    return store.run(lambda connection: begin(connection, "orders", lease=60.0, force=force))


def started(store: Store, *, force: bool = False) -> FetchLease:
    lease = start(store, force=force)
    assert lease is not None
    return lease


def save(store: Store, lease: FetchLease, page: int, cursor: Any) -> bool:
    return store.run(lambda connection: advance(connection, lease, page, cursor, seconds=60.0))


def end(store: Store, lease: FetchLease) -> None:
    store.run(lambda connection: finish(connection, lease, every=EVERY, enqueued=3, rejected=1))


def set_(store: Store, **moments: float | None) -> None:
    values = {name: None if value is None else plus(db_now(), value) for name, value in moments.items()}
    store.run(lambda connection: connection.execute(fetcher.update().values(**values)))


def test_the_first_run_is_due_at_once_and_only_once(store: Store) -> None:
    store.run(lambda connection: ensure_fetcher(connection, "orders"))
    lease = started(store)
    assert ("orders", None, 0, 1) == (lease.name, lease.cursor, lease.page_no, lease.claim_count)
    assert lease.tick <= lease.now <= now(store)
    assert start(store) is None
    assert start(store, force=True) is None


def test_one_of_many_workers_gets_the_run(store: Store) -> None:
    together = threading.Barrier(4)

    def one(_: int) -> bool:
        together.wait()
        return start(store) is not None

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(one, range(4))) == 1


@pytest.mark.parametrize(
    "cursor",
    [{"id": 17}, "2026-03-29", "17", "null", "", 17, 1.5, True, False, [1, "a"], None, {}, '{"a": 1}'],
    ids=repr,
)
def test_a_cursor_comes_back_as_it_was(store: Store, cursor: Any) -> None:
    lease = started(store)
    assert save(store, lease, 0, cursor)
    assert cursor == store.read(lambda connection: saved_cursor(connection, "orders"))
    set_(store, claimed_until=-1)
    again = started(store)
    assert (cursor, 1, 2) == (again.cursor, again.page_no, again.claim_count)


def test_a_page_is_saved_once_and_extends_the_lease(store: Store) -> None:
    lease = started(store)
    set_(store, claimed_until=5)
    assert save(store, lease, 0, {"id": 1})
    assert state(store)["claimed_until"] > now(store) + timedelta(seconds=30)
    assert not save(store, lease, 0, {"id": 9})
    assert save(store, lease, 1, {"id": 2})
    assert ({"id": 2}, 2) == (state(store)["cursor"], state(store)["page_no"])


def test_a_lost_lease_saves_nothing_more(store: Store) -> None:
    first = started(store)
    save(store, first, 0, {"id": 1})
    set_(store, claimed_until=-1)
    second = started(store)
    assert ({"id": 1}, 1) == (second.cursor, second.page_no)
    assert not save(store, first, 1, {"id": 9})
    assert save(store, second, 1, {"id": 2})
    kept = state(store)
    end(store, first)
    store.run(lambda connection: fail(connection, first, error="late", delay=30.0))
    assert kept == state(store)


def test_a_commit_whose_answer_was_lost_is_recognised(store: Store) -> None:
    lease = started(store)
    assert not store.run(lambda connection: page_was_saved(connection, lease, 0))
    save(store, lease, 0, {"id": 1})
    assert store.run(lambda connection: page_was_saved(connection, lease, 0))
    assert not store.run(lambda connection: page_was_saved(connection, lease, 1))
    set_(store, claimed_until=-1)
    started(store)
    assert not store.run(lambda connection: page_was_saved(connection, lease, 0))


def test_a_run_that_ends_well_keeps_the_rhythm(store: Store) -> None:
    set_(store, next_run_at=-40)
    due = state(store)["next_run_at"]
    end(store, started(store))
    row = state(store)
    assert due + timedelta(seconds=EVERY) == row["next_run_at"]
    assert (None, 0, None, 3, 1) == (
        row["claimed_until"],
        row["failures"],
        row["last_error"],
        row["last_enqueued"],
        row["last_rejected"],
    )
    assert row["last_started_at"] <= row["last_finished_at"]
    assert start(store) is None


def test_ticks_that_were_missed_are_one_run(store: Store) -> None:
    set_(store, next_run_at=-EVERY * 50)
    lease = started(store)
    assert (lease.now - lease.tick).total_seconds() == pytest.approx(EVERY * 50, abs=60)
    end(store, lease)
    assert (state(store)["next_run_at"] - now(store)).total_seconds() == pytest.approx(EVERY, abs=60)


def test_a_run_before_its_time_does_not_move_the_next_tick(store: Store) -> None:
    set_(store, next_run_at=120)
    due = state(store)["next_run_at"]
    for _ in range(3):
        lease = started(store, force=True)
        assert lease.now == lease.tick
        end(store, lease)
        assert due == state(store)["next_run_at"]


def test_a_run_that_fails_keeps_its_pages_and_comes_back_soon(store: Store) -> None:
    lease = started(store)
    save(store, lease, 0, {"id": 1})
    store.run(lambda connection: fail(connection, lease, error="KeyError: 'total'", delay=30.0))
    row = state(store)
    assert ({"id": 1}, None, 1, "KeyError: 'total'") == (
        row["cursor"],
        row["claimed_until"],
        row["failures"],
        row["last_error"],
    )
    assert (row["next_run_at"] - now(store)).total_seconds() == pytest.approx(30, abs=10)
    assert start(store) is None
