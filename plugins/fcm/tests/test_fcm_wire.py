"""Over the real wire to a local FCM: one POST per try, one verdict per device, whatever the server does."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from plugins.fcm.tests.helpers import (
    CASES,
    channel_for,
    config_for,
    context_for,
    delivery,
    kind_of,
    no_engine,
    on_a_loop,
    sent_by,
)
from sendoff.plugin import NoTarget, Outage, Permanent, Retryable, Sent, Verdict
from sendoff_fcm import devices
from sendoff_fcm.channel import FcmChannel
from sendoff_fcm.testing import Answer, Fault, LocalFCM
from sendoff_fcm.wire import IN_FLIGHT

HTTP2 = pytest.mark.parametrize("http2", [True, False], ids=["http2", "http1"])
#: Cases that go wrong before anything reaches a server.
UNSENT = {"no credentials", "invalid message object", "token endpoint invalid_grant"}


def register(engine: sa.Engine, *tokens: str) -> None:
    with engine.begin() as connection:
        for token in tokens:
            devices.register("u1", token, connection)


def active(engine: sa.Engine) -> list[str]:
    with engine.begin() as connection:
        return sorted(one.token for one in devices.list(None, connection, active=True))


@HTTP2
@pytest.mark.parametrize("row", CASES, ids=[row["case"] for row in CASES])
def test_every_case(
    row: dict[str, Any], http2: bool, fcm: LocalFCM, sqlite_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(sqlite_engine, "phone-1")
    changes: dict[str, Any] = {"http2": http2}
    one = delivery()
    match row["case"]:
        case "no credentials":
            for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "FIREBASE_CONFIG"):
                monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv("NO_GCE_CHECK", "true")
            monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
            changes["credentials"] = None
        case "invalid message object":
            one = delivery(payload={"title": "t", "analytics_label": "not a label"})
        case name:
            fcm.answer("phone-1", name)
    channel = channel_for(fcm, lambda: sqlite_engine, **changes)
    [verdict] = sent_by(channel, one, seconds=4.0 if row["case"] == "read timeout (async)" else 20.0)
    assert row["verdict"] == kind_of(verdict)
    assert (["phone-1"] if row["verdict"] != "no_target" else []) == active(sqlite_engine)
    reached = row["case"] not in {*UNSENT, "connection refused / DNS"}
    assert int(reached) == len(fcm.requests)


@HTTP2
def test_an_accepted_message(http2: bool, fcm: LocalFCM) -> None:
    [verdict] = sent_by(channel_for(fcm, http2=http2), delivery())
    [request] = fcm.requests
    assert isinstance(verdict, Sent)
    assert (request.name, "HTTP/2" if http2 else "HTTP/1.1") == (verdict.provider_ref, request.protocol)
    assert ("token", "phone-1", False) == (request.target, request.token, request.validate_only)


def test_an_installation_id_and_a_dry_run(fcm: LocalFCM) -> None:
    sent_by(channel_for(fcm, dry_run=True), delivery("fid:abc"))
    [request] = fcm.requests
    assert ("fid", "abc", True, False) == (request.target, request.token, request.validate_only, request.accepted)


def test_results_in_order_and_one_deactivated(fcm: LocalFCM, engine: sa.Engine) -> None:
    register(engine, "a", "b", "c")
    fcm.answer("b", "app uninstalled / token expired")
    [verdict] = sent_by(channel_for(fcm, lambda: engine), delivery("a", "b", "c"))
    assert isinstance(verdict, Sent)
    assert verdict.details is not None
    found = [(one["address"], one["verdict"]) for one in verdict.details["addresses"]]
    assert [("a", "sent"), ("b", "no_target"), ("c", "sent")] == found
    assert ["a", "c"] == active(engine)
    with engine.begin() as connection:
        [dead] = devices.list("u1", connection, active=False)
    assert ("UNREGISTERED", True) == (dead.deactivated_reason, dead.deactivated_at is not None)


def test_a_payload_too_large_for_ten_devices_costs_none(fcm: LocalFCM, sqlite_engine: sa.Engine) -> None:
    tokens = [f"phone-{index}" for index in range(10)]
    register(sqlite_engine, *tokens)
    fcm.answer_everyone("payload too big, no details")
    [verdict] = sent_by(channel_for(fcm, lambda: sqlite_engine), delivery(*tokens))
    assert isinstance(verdict, Permanent)
    assert tokens == active(sqlite_engine)


def test_every_device_has_to_accept_and_only_the_others_are_asked_again(fcm: LocalFCM) -> None:
    channel = channel_for(fcm, success="all")
    fcm.answer("b", "server overloaded", "accepted")
    one = delivery("a", "b", collapse_key="k")
    [first] = sent_by(channel, one)
    assert isinstance(first, Retryable)
    assert not first.counts
    [second] = sent_by(channel, delivery("a", "b", outgoing_id=one.id, progress=dict(first.progress or {})))
    assert isinstance(second, Sent)
    assert Counter({"a": 1, "b": 2}) == Counter(request.token for request in fcm.requests)


def test_a_hundred_503_over_one_connection_and_no_hang(fcm: LocalFCM) -> None:
    channel = channel_for(fcm, connections=1)
    fcm.answer_next(*["server overloaded"] * 150)
    verdicts = sent_by(channel, *[delivery(f"phone-{index}") for index in range(150)], at_once=True)
    assert {"retryable"} == {kind_of(verdict) for verdict in verdicts}
    assert 150 == len(fcm.requests)
    verdicts = sent_by(channel, *[delivery(f"phone-{index}") for index in range(150)], at_once=True)
    assert {"sent"} == {kind_of(verdict) for verdict in verdicts}
    assert 300 == len(fcm.requests)


def test_connections_are_bounded(fcm: LocalFCM) -> None:
    channel = channel_for(fcm, connections=2)
    fcm.answer_everyone(Answer(case="accepted", accept=True, delay=0.05))
    verdicts = sent_by(channel, *[delivery(f"phone-{index}") for index in range(400)], at_once=True)
    assert {"sent"} == {kind_of(verdict) for verdict in verdicts}
    connections = Counter(request.connection for request in fcm.requests)
    assert 2 == len(connections)
    assert 2 * IN_FLIGHT == 180


def test_a_quota_answer_waits_for_nobody(fcm: LocalFCM) -> None:
    fcm.answer_next(Answer(status=429, headers={"retry-after": "7200"}))

    async def send() -> tuple[Verdict, int]:
        verdict = await channel.send(delivery())
        return verdict, len([task for task in asyncio.all_tasks() if not task.done()])

    channel = channel_for(fcm)
    verdict, tasks = on_a_loop(channel, send)
    assert isinstance(verdict, Retryable)
    assert (timedelta(hours=2), False) == (verdict.retry_after, verdict.counts)
    assert 1 == tasks


def test_a_read_timeout_is_one_post_and_keeps_its_collapse_keys(fcm: LocalFCM) -> None:
    channel = channel_for(fcm)
    fcm.answer("phone-1", Fault.HANG, "accepted")
    one = delivery()
    [first] = sent_by(channel, one, seconds=3.0)
    assert isinstance(first, Retryable)
    assert (True, True, 1) == (first.maybe_sent, first.counts, len(fcm.requests))
    [second] = sent_by(channel, delivery(outgoing_id=one.id))
    assert isinstance(second, Sent)
    [keys, again] = fcm.collapse_keys("phone-1")
    assert keys == again
    assert None not in keys


def test_requests_that_hang_do_not_use_up_a_connection(fcm: LocalFCM) -> None:
    """Each one leaves a stream open: more of them than a connection has streams, and the next message still goes."""
    channel = channel_for(fcm, connections=1)

    async def send() -> list[Verdict]:
        # The access token and the connection are there: only the hanging takes time.
        await channel.send(delivery("first"))
        fcm.answer_everyone(Fault.HANG)
        hung = await asyncio.gather(*[channel.send(delivery(f"h{index}", seconds=5.0)) for index in range(110)])
        fcm.answer_everyone(None)
        return [*hung, *await asyncio.gather(*[channel.send(delivery(f"phone-{index}")) for index in range(150)])]

    verdicts = on_a_loop(channel, send)
    assert Counter(retryable=110, sent=150) == Counter(kind_of(verdict) for verdict in verdicts)


@HTTP2
def test_a_hanging_request_leaves_the_others_alone(http2: bool, fcm: LocalFCM) -> None:
    channel = channel_for(fcm, http2=http2, connections=1 if http2 else 4)
    fcm.answer("slow", Fault.HANG)

    async def send() -> tuple[Verdict, list[Verdict]]:
        slow = asyncio.ensure_future(channel.send(delivery("slow", seconds=4.0)))
        others = await asyncio.gather(*[channel.send(delivery(f"phone-{index}")) for index in range(20)])
        return await slow, others

    first, others = on_a_loop(channel, send)
    assert isinstance(first, Retryable)
    assert {"sent"} == {kind_of(verdict) for verdict in others}


@HTTP2
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
def test_a_connection_that_breaks_is_replaced(fault: Fault, http2: bool, fcm: LocalFCM) -> None:
    channel = channel_for(fcm, http2=http2, connections=1)

    async def send() -> list[Verdict]:
        fcm.answer_next(fault)
        first = await channel.send(delivery("broken", seconds=4.0))
        return [first, await channel.send(delivery("phone-1"))]

    first, second = on_a_loop(channel, send)
    if fault in {Fault.GOAWAY_BEFORE, Fault.GOAWAY_AFTER}:
        assert isinstance(first, Sent)
    else:
        assert isinstance(first, Retryable)
        # RST_STREAM with REFUSED_STREAM, and GOAWAY that leaves the stream out, say that it was not looked at.
        refused = http2 and fault in {Fault.RST_STREAM, Fault.GOAWAY}
        assert (not refused, not refused) == (first.maybe_sent, first.counts)
    assert isinstance(second, Sent)
    assert len(fcm.requests) <= 2


def test_a_server_that_says_good_bye_loses_nothing(fcm: LocalFCM) -> None:
    """The answers to what it has taken come after its GOAWAY."""
    channel = channel_for(fcm, connections=1)
    fcm.answer_everyone(Answer(case="accepted", accept=True, delay=0.3))
    fcm.answer("last", Fault.GOAWAY_BEFORE)
    verdicts = sent_by(channel, *map(delivery, ["a", "b", "c", "last"]), at_once=True)
    assert ["sent"] * 4 == [kind_of(verdict) for verdict in verdicts]
    assert 4 == len(fcm.requests)


def test_a_server_that_is_away_is_an_outage_and_nothing_was_sent(fcm: LocalFCM) -> None:
    channel = channel_for(fcm)
    fcm.down("refuse")
    [verdict] = sent_by(channel, delivery())
    assert isinstance(verdict, Outage)
    fcm.up()
    assert ["sent"] == [kind_of(one) for one in sent_by(channel, delivery())]


def test_a_channel_works_on_one_loop_after_another(fcm: LocalFCM) -> None:
    channel = channel_for(fcm)
    assert ["sent", "sent"] == [kind_of(sent_by(channel, delivery())[0]) for _ in range(2)]


# ------------------------------------------------------------------------------------------------------- the mass guard


def test_a_hundred_dead_in_a_row_are_an_outage_and_undone(fcm: LocalFCM, engine: sa.Engine) -> None:
    tokens = [f"phone-{index:03}" for index in range(100)]
    register(engine, *tokens)
    fcm.answer_everyone("app uninstalled / token expired")
    channel = channel_for(fcm, lambda: engine)
    verdicts = sent_by(channel, *[delivery(token) for token in tokens], at_once=True)
    assert Counter(no_target=99, outage=1) == Counter(kind_of(verdict) for verdict in verdicts)
    assert tokens == active(engine)
    # Until something is accepted, dead ones stay an outage and stay active.
    assert ["outage"] == [kind_of(one) for one in sent_by(channel, delivery(tokens[0]))]
    assert tokens == active(engine)
    fcm.answer_everyone(None)
    fcm.answer(tokens[1], "app uninstalled / token expired")
    assert ["sent", "no_target"] == [kind_of(one) for one in sent_by(channel, *map(delivery, tokens[:2]))]
    assert sorted({*tokens} - {tokens[1]}) == active(engine)


def test_one_dead_phone_on_a_quiet_system_is_deactivated(fcm: LocalFCM, sqlite_engine: sa.Engine) -> None:
    register(sqlite_engine, "phone-1")
    fcm.answer("phone-1", "token of another project")
    [verdict] = sent_by(channel_for(fcm, lambda: sqlite_engine), delivery())
    assert isinstance(verdict, NoTarget)
    assert [] == active(sqlite_engine)


def test_a_database_that_is_away_costs_no_verdict(fcm: LocalFCM, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = sa.create_engine("sqlite:////nowhere/at/all.db")
    fcm.answer("phone-1", "app uninstalled / token expired")
    [verdict] = sent_by(channel_for(fcm, lambda: nowhere), delivery())
    assert isinstance(verdict, NoTarget)
    assert "dead devices could not be written: OperationalError" in caplog.text
    nowhere.dispose()


def test_what_an_application_calls_an_address_is_looked_at(fcm: LocalFCM) -> None:
    channel = FcmChannel("fcm", config_for(fcm), context_for(no_engine))
    [verdict] = sent_by(channel, delivery("/topics/news", "a b"))
    assert isinstance(verdict, Permanent)
    assert [] == fcm.requests
