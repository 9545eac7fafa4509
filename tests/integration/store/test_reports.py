"""Reading: one row, many rows, counts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from sendoff import ConfigurationError, NotFound
from sendoff.policy import Transition
from sendoff.store import Store, reports
from sendoff.store.channels import ensure_channels
from sendoff.store.presence import arrive, leave, still_here
from sendoff.store.reports import RowFilter
from sendoff.store.sql import db_now, plus
from sendoff.tables import channel, worker
from sendoff.types import to_micros
from sendoff.verdict import Retryable
from tests.support.rows import change, claim, claim_one, new_row, now, pass_time, put, put_one, settle

RETRY = Transition.retry(Retryable("busy"), 600.0)


def found(store: Store, **chosen: Any) -> list[UUID]:
    return [row.id for row in store.read(lambda connection: reports.find_rows(connection, RowFilter(**chosen)))]


def put_states(store: Store) -> dict[str, UUID]:
    """One row in each state, on a channel of its own until it is there."""
    ids = {}
    for name in ("leased", "lapsed", "retrying", "retry_due", "sent", "dead"):
        ids[name] = put_one(store, recipient=name)
        row = claim_one(store)
        if name in {"retrying", "retry_due"}:
            settle(store, row, RETRY)
        elif name == "sent":
            settle(store, row)
        elif name == "dead":
            settle(store, row, Transition.dead("permanent", "no"))
    pass_time(store, 700, ids["lapsed"], ids["retry_due"])
    ids["scheduled"] = put_one(store, not_before=to_micros(now(store) + timedelta(hours=1)))
    ids["due"] = put_one(store)
    ids["waiting"] = put_one(store, status="waiting", after_id=ids["due"])
    return ids


def test_states_are_the_statuses_as_people_know_them(store: Store) -> None:
    ids = put_states(store)
    views = store.read(lambda connection: reports.find_rows_by_id(connection, [*ids.values(), UUID(int=1)]))
    assert {name: views[id].state for name, id in ids.items()} == {
        "leased": "leased",
        "lapsed": "due",
        "retrying": "retrying",
        "retry_due": "retrying",
        "sent": "sent",
        "dead": "dead",
        "scheduled": "scheduled",
        "due": "due",
        "waiting": "waiting",
    }
    assert len(views) == len(ids)


def test_counts_by_channel(store: Store) -> None:
    put_states(store)
    put_one(store, channel="sms")
    counts = store.read(reports.channel_counts)
    email = counts["email"]
    expected = {"due": 2, "leased": 1, "retrying": 2, "sent": 1, "dead": 1, "scheduled": 1, "waiting": 1}
    assert expected == {name: email[name] for name in expected}
    assert reports.due_rows(email) == 3
    assert 90 < email["oldest_due"] < 130
    assert ({"due": 1}, 1) == ({"due": counts["sms"]["due"]}, reports.due_rows(counts["sms"]))


def test_a_paused_channel_is_counted_though_it_has_no_rows(store: Store) -> None:
    store.run(lambda connection: ensure_channels(connection, ["push"]))
    store.run(lambda connection: connection.execute(channel.update().values(paused_by="ops")))
    assert store.read(reports.channel_counts)["push"]["paused"] == ("paused by ops", None)


def test_rows_are_found_by_any_of_their_marks_newest_first(store: Store) -> None:
    first = new_row(recipient="a", type="x")
    rows = [first, new_row(recipient="b", channel="sms"), new_row(recipient="b", notification_id=first.notification_id)]
    put(store, *rows)
    ids = [row.id for row in rows]
    settle(store, claim(store, 1)[0])
    assert ids[::-1] == found(store)
    assert [ids[2], ids[1]] == found(store, recipient="b")
    assert [ids[1]] == found(store, recipient="b", channel="sms")
    assert [ids[0]] == found(store, type="x", status="sent", verdict="sent")
    assert [ids[2], ids[0]] == found(store, notification_id=first.notification_id)
    assert [ids[2], ids[1]] == found(store, limit=2)
    assert [ids[0]] == found(store, limit=2, before=ids[1])
    assert found(store, recipient="c") == []
    pass_time(store, 3600, ids[0])
    assert [ids[2], ids[1]] == found(store, since=now(store) - timedelta(minutes=30))


def test_one_row_with_its_timeline(store: Store) -> None:
    id = put_one(store)
    settle(store, claim_one(store), RETRY)
    view = store.read(lambda connection: reports.show(connection, id))
    assert ("pending", "retrying", "busy") == (view.status, view.state, view.reason)
    assert [("created", {}), ("retry", {"reason": "busy", "delay": 600.0})] == [
        (event.kind, event.detail) for event in view.events
    ]
    assert view.events[0].at <= view.events[1].at
    with pytest.raises(NotFound, match=f"no outgoing row {UUID(int=1)}"):
        store.read(lambda connection: reports.show(connection, UUID(int=1)))


def test_workers_that_were_seen_lately(store: Store) -> None:
    here, gone, left = UUID(int=1), UUID(int=2), UUID(int=3)
    for id in (here, gone, left):
        store.run(lambda connection, id=id: arrive(connection, id, "host", 7, "1.0", ["email", "sms"]))  # type: ignore[misc]  # a lambda's default
    seen = worker.update().values(seen_at=plus(db_now(), -20))
    store.run(lambda connection: connection.execute(seen))
    store.run(lambda connection: still_here(connection, here))
    store.run(
        lambda connection: connection.execute(seen.where(worker.c.id == gone).values(seen_at=plus(db_now(), -40)))
    )
    store.run(lambda connection: leave(connection, left))
    [found_] = store.read(reports.workers)
    assert (here, "host", 7, "1.0", ("email", "sms")) == (
        found_.id,
        found_.host,
        found_.pid,
        found_.version,
        found_.channels,
    )
    assert 0 <= found_.seen < 20


def test_a_far_due_time_can_be_told(store: Store) -> None:
    id = put_one(store)
    far = now(store).replace(year=8999)
    change(store, id, due_at=far, next_attempt_at=far, expires_at=far)
    assert store.read(lambda connection: reports.show(connection, id)).due_at == far


def test_a_moment_without_a_zone_is_one_clear_line() -> None:
    with pytest.raises(ConfigurationError, match="since must be a datetime with a time zone"):
        RowFilter(since=datetime(2026, 3, 29))  # noqa: DTZ001 - the point
