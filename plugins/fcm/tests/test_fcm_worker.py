"""From enqueue to the phone: the channel in a ``Sendoff``, with its queue, its migrations and its devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import sendoff_fcm.plugin
from sendoff import InvalidNotification, Notification, Sendoff
from sendoff.settings import Settings
from sendoff_fcm import devices
from sendoff_fcm.testing import Answer, Fault, LocalFCM


def app(url: str, fcm: LocalFCM, folder: Path, **changes: Any) -> Sendoff:
    account = fcm.write_service_account(folder / "account.json")
    channel = {"credentials": {"file": str(account)}, "endpoint": fcm.endpoint, "token_timeout": 2, **changes}
    settings = {"sendoff": {"database_url": url}, "channels": {"fcm": channel}}
    return Sendoff(settings=Settings.load(settings, environ={}), plugins=[sendoff_fcm.plugin], entry_points=False)


@pytest.fixture
def so(database_url: str, fcm: LocalFCM, tmp_path: Path) -> Iterator[Sendoff]:
    with app(database_url, fcm, tmp_path) as made:
        made.migrate()
        yield made


def register(so: Sendoff, recipient: str, *tokens: str) -> None:
    with so.engine.begin() as connection:
        for token in tokens:
            devices.register(recipient, token, connection)


def push(recipient: str = "u1", **more: Any) -> Notification:
    return Notification(**{"recipient": recipient, "type": "t", "channels": ["fcm"], "title": "Hello", **more})


def state(so: Sendoff) -> Counter[tuple[str, str | None]]:
    return Counter((row.status, row.verdict) for row in so.list(limit=1000))


def test_a_notification_arrives_with_its_ids(so: Sendoff, fcm: LocalFCM) -> None:
    register(so, "u1", "phone-1", "phone-2")
    done = so.enqueue(push(data={"id": 21465, "ok": True, "o": {}}), None)
    so.drain()
    assert Counter({("sent", "sent"): 1}) == state(so)
    ids = {"notification_id": str(done.notification_id), "outgoing_id": str(done.rows[0].outgoing_id)}
    assert [{"id": "21465", "ok": "true", "o": "{}", **ids}] * 2 == [one.message["data"] for one in fcm.requests]
    assert {"phone-1", "phone-2"} == {one.token for one in fcm.requests}


def test_no_device_is_no_call_and_no_dead_letter(so: Sendoff, fcm: LocalFCM) -> None:
    so.enqueue(push(), None)
    so.drain()
    assert (Counter({("sent", "no_target"): 1}), []) == (state(so), fcm.requests)


def test_what_cannot_be_sent_is_refused_at_enqueue(so: Sendoff) -> None:
    for more in ({"data": {"from": "x"}}, {"body": "é" * 2100}):
        with pytest.raises(InvalidNotification):
            so.enqueue(push(**more), None)
    assert Counter() == state(so)


def test_a_quota_moves_the_row_and_not_its_budget(so: Sendoff, fcm: LocalFCM) -> None:
    register(so, "u1", "phone-1")
    fcm.answer("phone-1", Answer(status=429, headers={"retry-after": "7200"}))
    done = so.enqueue(push(), None)
    so.drain()
    assert done.rows[0].outgoing_id is not None
    row = so.show(done.rows[0].outgoing_id)
    assert ("pending", 0, 1) == (row.status, row.attempt_count, row.try_count)
    assert row.due_at is not None
    assert abs(row.due_at - datetime.now(UTC) - timedelta(hours=2)) < timedelta(minutes=20)
    assert 1 == len(fcm.requests)


def test_a_token_endpoint_that_refuses_costs_no_budget(so: Sendoff, fcm: LocalFCM) -> None:
    register(so, "u1", "phone-1")
    fcm.token_down("invalid_grant")
    done = so.enqueue(push(), None)
    so.drain(budget=5)
    assert done.rows[0].outgoing_id is not None
    row = so.show(done.rows[0].outgoing_id)
    assert ("pending", 0) == (row.status, row.attempt_count)
    assert [] == fcm.requests


def test_a_connection_that_is_dropped_in_the_middle(so: Sendoff, fcm: LocalFCM) -> None:
    for index in range(40):
        register(so, f"u{index}", f"phone-{index}")
        so.enqueue(push(f"u{index}"), None)
    fcm.answer("phone-20", Fault.DROP)
    so.drain()
    found = state(so)
    assert 40 == sum(found.values())
    # Those that shared the connection with it are tried again too: they may have been sent.
    assert {("pending", "retryable")} <= set(found) <= {("sent", "sent"), ("pending", "retryable")}


def test_a_dead_device_is_deactivated_before_its_verdict(so: Sendoff, fcm: LocalFCM) -> None:
    register(so, "u1", "phone-1", "phone-2", "phone-3")
    fcm.answer("phone-2", "app uninstalled / token expired")
    done = so.enqueue(push(), None)
    so.drain()
    with so.engine.begin() as connection:
        found = [(one.token, one.active, one.deactivated_reason) for one in devices.list("u1", connection)]
    assert [("phone-1", True, None), ("phone-2", False, "UNREGISTERED"), ("phone-3", True, None)] == found
    assert done.rows[0].outgoing_id is not None
    [event] = [event for event in so.show(done.rows[0].outgoing_id).events if event.kind == "sent"]
    assert ["sent", "no_target", "sent"] == [one["verdict"] for one in event.detail["details"]["addresses"]]


def test_an_explicit_address_needs_no_device(so: Sendoff, fcm: LocalFCM) -> None:
    so.enqueue(push(addresses={"fcm": ["fid:abc"]}), None)
    so.drain()
    assert [("fid", "abc")] == [(one.target, one.token) for one in fcm.requests]


def test_two_projects_send_to_their_own_apps(database_url: str, fcm: LocalFCM, tmp_path: Path) -> None:
    account = fcm.write_service_account(tmp_path / "account.json")
    one = {"plugin": "fcm", "credentials": {"file": str(account)}, "endpoint": fcm.endpoint}
    channels = {"shop": {**one, "app": "shop"}, "driver": {**one, "app": "driver"}}
    settings = Settings.load({"sendoff": {"database_url": database_url}, "channels": channels}, environ={})
    with Sendoff(settings=settings, plugins=[sendoff_fcm.plugin], entry_points=False) as so:
        so.migrate()
        with so.engine.begin() as connection:
            devices.register("u1", "s1", connection, app="shop")
            devices.register("u1", "d1", connection, app="driver")
        so.enqueue(push(channels=["driver"]), None)
        so.drain()
    assert ["d1"] == [request.token for request in fcm.requests]
