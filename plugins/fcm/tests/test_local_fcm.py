"""The local FCM over both protocols: what it accepts, its rules, records and outages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sendoff_fcm.testing import CASES, NAMES, Answer, Fault, LocalFCM, case

pytest_plugins = ["sendoff_fcm.testing.fixtures"]

HTTP1 = "HTTP/1.1"
HTTP2 = "HTTP/2"
TABLE = Path(__file__).parent / "data" / "fcm_cases.json"


def client_for(fcm: LocalFCM, protocol: str = HTTP2) -> httpx.Client:
    return httpx.Client(
        http1=protocol == HTTP1,
        http2=protocol == HTTP2,
        verify=False,
        headers={"authorization": f"Bearer {fcm.access_token()}"},
    )


@pytest.fixture(params=[HTTP1, HTTP2])
def client(request: pytest.FixtureRequest, local_fcm: LocalFCM) -> Iterator[httpx.Client]:
    with client_for(local_fcm, request.param) as client:
        yield client


def send(client: httpx.Client, fcm: LocalFCM, token: str, **message: Any) -> httpx.Response:
    return client.post(fcm.send_url, json={"message": {"token": token, **message}})


# ------------------------------------------------------------------------------------------------- accepting


def test_a_message_is_accepted_with_a_name_of_its_own(client: httpx.Client, local_fcm: LocalFCM) -> None:
    answers = [send(client, local_fcm, "phone", data={"a": "1"}) for _ in range(3)]
    assert [200, 200, 200] == [answer.status_code for answer in answers]
    names = {answer.json()["name"] for answer in answers}
    assert 3 == len(names)
    assert all(name.startswith("projects/sendoff-local/messages/0:") for name in names)


def test_validate_only_is_answered_and_reaches_nobody(client: httpx.Client, local_fcm: LocalFCM) -> None:
    answer = client.post(local_fcm.send_url, json={"validate_only": True, "message": {"token": "phone"}})
    assert "projects/sendoff-local/messages/fake_message_id" == answer.json()["name"]
    (request,) = local_fcm.requests
    assert (True, False) == (request.validate_only, request.accepted)


def test_each_request_is_recorded(client: httpx.Client, local_fcm: LocalFCM) -> None:
    message = {
        "data": {"id": "7"},
        "android": {"collapse_key": "order-7", "notification": {"tag": "order-7-tag"}},
        "apns": {"headers": {"apns-collapse-id": "order-7-apns"}},
    }
    first = send(client, local_fcm, "phone", **message)
    send(client, local_fcm, "dead-phone")
    one, two = local_fcm.requests
    assert (1, 2) == (one.number, two.number)
    assert one.connection == two.connection
    assert first.http_version == one.protocol
    assert (1, 3 if one.protocol == HTTP2 else 2) == (one.stream, two.stream)
    assert {"token": "phone", **message} == one.message
    assert ("token", "phone", "sendoff-local") == (one.target, one.token, one.project)
    assert (200, "accepted", True) == (one.status, one.case, one.accepted)
    assert first.json()["name"] == one.name
    assert (404, "app uninstalled / token expired", False) == (two.status, two.case, two.accepted)
    assert "application/json" == one.headers["content-type"]
    assert "authorization" not in one.headers
    assert one.time <= two.time
    assert [two] == local_fcm.requests_of("dead-phone")
    assert [("order-7", "order-7-apns", "order-7-tag")] == local_fcm.collapse_keys("phone")
    assert [(None, None, None)] == local_fcm.collapse_keys("dead-phone")


def test_only_so_many_records_are_kept() -> None:
    with LocalFCM(keep=2) as fcm, client_for(fcm) as client:
        for token in ("a", "b", "c"):
            send(client, fcm, token)
        assert ["b", "c"] == [request.token for request in fcm.requests]
        assert 3 == fcm.counters.requests


# ---------------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize("name", [row["case"] for row in json.loads(TABLE.read_text())])
def test_every_case_of_the_table_is_answered_as_it_says(name: str, local_fcm: LocalFCM) -> None:
    row = next(row for row in json.loads(TABLE.read_text()) if row["case"] == name)
    local_fcm.answer("phone", name)
    with client_for(local_fcm) as client:
        if CASES[name].reach == "oauth":
            answer = client.post(local_fcm.token_uri)
            assert (400, "invalid_grant") == (answer.status_code, answer.json()["error"])
        elif CASES[name].reach == "server":
            with pytest.raises(httpx.ConnectError):
                send(client, local_fcm, "phone")
        elif CASES[name].reach == "client":
            assert 200 == send(client, local_fcm, "phone").status_code
        elif row["http_status"] is None:
            with pytest.raises(httpx.TransportError):
                client.post(local_fcm.send_url, json={"message": {"token": "phone"}}, timeout=0.2)
        else:
            answer = send(client, local_fcm, "phone")
            assert row["http_status"] == answer.status_code
            if row["code"] in {"UNREGISTERED", "SENDER_ID_MISMATCH", "QUOTA_EXCEEDED"}:
                assert row["code"] == answer.json()["error"]["details"][0]["errorCode"]
            elif row["code"] == "UNKNOWN":
                assert answer.headers["content-type"].startswith("text/html")
            elif row["code"]:
                assert row["code"] == answer.json()["error"]["status"]
            if row["retry_after_honoured"]:
                assert answer.headers["retry-after"].isdigit()


def test_answers_come_in_turn_and_the_last_one_stays(client: httpx.Client, local_fcm: LocalFCM) -> None:
    local_fcm.answer("phone", "server overloaded", "internal", "accepted")
    assert [503, 500, 200, 200] == [send(client, local_fcm, "phone").status_code for _ in range(4)]
    local_fcm.answer("phone", "internal")
    local_fcm.answer("phone")
    assert 200 == send(client, local_fcm, "phone").status_code


def test_the_next_answers_come_before_the_tokens_own_and_that_before_everyones(
    client: httpx.Client, local_fcm: LocalFCM
) -> None:
    local_fcm.answer_everyone("internal")
    local_fcm.answer("mine", "accepted")
    local_fcm.answer_next("project quota")
    assert [429, 200, 500] == [send(client, local_fcm, token).status_code for token in ("mine", "mine", "other")]
    local_fcm.answer_everyone(None)
    assert 200 == send(client, local_fcm, "other").status_code


@pytest.mark.parametrize(
    ("name", "status", "start"),
    [
        ("html with 200", 200, b"<!DOCTYPE html>"),
        ("error as text", 200, b'{\n  "error": "text"'),
        ("truncated JSON", 200, b'{"name": "projects/local/mess'),
        ("not UTF-8", 200, b'{"name": "\xff\xfe"}'),
        ("empty 200", 200, b""),
    ],
)
def test_answers_that_no_table_lists(
    name: str, status: int, start: bytes, client: httpx.Client, local_fcm: LocalFCM
) -> None:
    local_fcm.answer("phone", name)
    answer = send(client, local_fcm, "phone")
    assert status == answer.status_code
    assert answer.content.startswith(start)


def test_a_raw_answer_is_sent_as_it_is(client: httpx.Client, local_fcm: LocalFCM) -> None:
    local_fcm.answer("phone", Answer(418, {"X-Tea": "f\xfcr zwei", "Retry-After": "soon"}, b"\x00\xff"))
    answer = send(client, local_fcm, "phone")
    assert (418, b"\x00\xff", "soon") == (answer.status_code, answer.content, answer.headers["retry-after"])


def test_a_case_with_another_retry_after(client: httpx.Client, local_fcm: LocalFCM) -> None:
    local_fcm.answer("phone", case("project quota", retry_after=7200), case("internal", retry_after="Wed"))
    assert ["7200", "Wed"] == [send(client, local_fcm, "phone").headers["retry-after"] for _ in range(2)]


def test_an_answer_waits_for_its_delay_and_the_others_do_not(local_fcm: LocalFCM) -> None:
    local_fcm.answer("slow", case("accepted", delay=0.3))

    async def both() -> list[str]:
        done: list[str] = []

        async def one(client: httpx.AsyncClient, token: str) -> None:
            answer = await client.post(local_fcm.send_url, json={"message": {"token": token}})
            done.append(f"{token} {answer.status_code}")

        headers = {"authorization": f"Bearer {local_fcm.access_token()}"}
        async with httpx.AsyncClient(http1=False, http2=True, verify=False, headers=headers) as client:
            await asyncio.gather(one(client, "slow"), one(client, "fast"))
        return done

    assert ["fast 200", "slow 200"] == asyncio.run(both())


@pytest.mark.parametrize("kind", sorted(set(NAMES) - {"hang", "drop", "reset", "goaway", "slow", "flaky"}))
def test_a_tokens_name_says_what_it_gets(kind: str, local_fcm: LocalFCM) -> None:
    with client_for(local_fcm) as client:
        expected = CASES[NAMES[kind]].answer
        assert expected is not None
        assert expected.status == send(client, local_fcm, f"{kind}-1").status_code


def test_names_with_numbers_and_memory(client: httpx.Client, local_fcm: LocalFCM) -> None:
    assert "7200" == send(client, local_fcm, "quota-7200-x").headers["retry-after"]
    assert "60" == send(client, local_fcm, "quota-x").headers["retry-after"]
    assert [503, 200, 200] == [send(client, local_fcm, "flaky-x").status_code for _ in range(3)]
    assert 200 == send(client, local_fcm, "slow-1-x").status_code
    assert 200 == send(client, local_fcm, "undead-x").status_code


def test_what_is_no_case_is_refused(local_fcm: LocalFCM) -> None:
    with pytest.raises(ValueError, match="no case is called 'no such'"):
        local_fcm.answer("phone", "no such")
    with pytest.raises(ValueError, match="not an answer to one request"):
        local_fcm.answer("phone", "accepted", "no credentials")
    with pytest.raises(ValueError, match="answer_next"):
        local_fcm.answer("phone", Fault.DROP_UNREAD)


@pytest.mark.parametrize(
    "wrong", [{"status": 100}, {"delay": -1.0}, {"headers": {"a": "b\r\nc: d"}}, {"headers": {"": "b"}}]
)
def test_an_answer_that_cannot_be_sent_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"status|delay|header"):
        Answer(**wrong)


# -------------------------------------------------------------------------------------------------- outages


def test_down_and_up(client: httpx.Client, local_fcm: LocalFCM) -> None:
    local_fcm.down()
    assert 503 == send(client, local_fcm, "phone").status_code
    local_fcm.down("bad gateway HTML")
    assert 502 == send(client, local_fcm, "phone").status_code
    local_fcm.up()
    assert 200 == send(client, local_fcm, "phone").status_code
    assert [503, 502, 200] == [request.status for request in local_fcm.requests_of("phone")]


def test_down_hanging(client: httpx.Client, local_fcm: LocalFCM) -> None:
    local_fcm.down("hang")
    with pytest.raises(httpx.ReadTimeout):
        client.post(local_fcm.send_url, json={"message": {"token": "phone"}}, timeout=0.1)
    local_fcm.up()
    assert 200 == send(client, local_fcm, "phone").status_code


def test_down_refusing_keeps_the_port(client: httpx.Client, local_fcm: LocalFCM) -> None:
    send(client, local_fcm, "phone")
    local_fcm.down("refuse")
    for _ in range(2):
        with pytest.raises(httpx.TransportError):
            send(client, local_fcm, "phone")
    with client_for(local_fcm) as fresh, pytest.raises(httpx.ConnectError):
        send(fresh, local_fcm, "phone")
    port = httpx.URL(local_fcm.endpoint).port
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    assert 400 == client.post(local_fcm.token_uri).status_code
    local_fcm.up()
    assert 200 == send(client, local_fcm, "phone").status_code


def test_down_for_a_while(client: httpx.Client, local_fcm: LocalFCM) -> None:
    back = threading.Event()
    local_fcm.down(seconds=0.05)
    local_fcm._loop.call_soon_threadsafe(local_fcm._loop.call_later, 0.1, back.set)
    assert back.wait(10)
    assert 200 == send(client, local_fcm, "phone").status_code


def test_up_ends_an_outage_that_was_to_last_longer(client: httpx.Client, local_fcm: LocalFCM) -> None:
    local_fcm.down("refuse", seconds=3600)
    local_fcm.up()
    assert 200 == send(client, local_fcm, "phone").status_code


def test_reset_makes_it_as_new(client: httpx.Client, local_fcm: LocalFCM) -> None:
    local_fcm.answer("phone", "internal")
    local_fcm.answer_next("internal")
    local_fcm.answer_everyone("internal")
    send(client, local_fcm, "flaky-x")
    local_fcm.down()
    local_fcm.token_down("hang")
    local_fcm.reset()
    assert [] == local_fcm.requests
    assert 400 == client.post(local_fcm.token_uri).status_code
    assert [200, 503] == [send(client, local_fcm, token).status_code for token in ("phone", "flaky-x")]
    assert 2 == local_fcm.counters.requests


# --------------------------------------------------------------------------------------- counting, beginning, end


def test_connections_and_streams_are_counted(local_fcm: LocalFCM) -> None:
    local_fcm.answer_everyone(case("accepted", delay=0.2))

    async def many(count: int) -> None:
        headers = {"authorization": f"Bearer {local_fcm.access_token()}"}
        async with httpx.AsyncClient(http1=False, http2=True, verify=False, headers=headers) as client:
            # One first: a client that knows no connection yet opens several.
            for wave in (1, count):
                await asyncio.gather(
                    *(client.post(local_fcm.send_url, json={"message": {"token": "phone"}}) for _ in range(wave))
                )

    asyncio.run(many(20))
    counters = local_fcm.counters
    assert (21, 21, 1, 1, 20, 20) == (
        counters.requests,
        counters.accepted,
        counters.connections,
        counters.connections_peak,
        counters.streams_peak,
        counters.connection_streams_peak,
    )


def test_waiting_for_requests(client: httpx.Client, local_fcm: LocalFCM) -> None:
    send(client, local_fcm, "phone")
    assert ["phone"] == [request.token for request in local_fcm.wait_for(1)]
    with pytest.raises(TimeoutError, match=r"1 of 2 requests came within 0\.01 s"):
        local_fcm.wait_for(2, timeout=0.01)


def test_closing_leaves_no_thread_and_no_port() -> None:
    with LocalFCM() as fcm, client_for(fcm) as client:
        send(client, fcm, "phone")
        port = httpx.URL(fcm.endpoint).port
        assert port is not None
        thread = fcm._thread
    fcm.close()
    assert not thread.is_alive()
    with LocalFCM(port=port) as again, client_for(again) as client:
        assert 200 == send(client, again, "phone").status_code


def test_closing_with_connections_at_the_door_and_answers_under_way() -> None:
    fcm = LocalFCM().start()
    port = httpx.URL(fcm.endpoint).port or 0
    fcm.answer("phone", "hang")
    with client_for(fcm) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post(fcm.send_url, json={"message": {"token": "phone"}}, timeout=0.1)
        waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        fcm.close()
        for connection in waiting:
            # Reset where it was accepted, or never greeted: nothing comes either way.
            with connection, contextlib.suppress(ConnectionResetError):
                assert b"" == connection.recv(1)
    assert (0, 0) == (fcm.counters.connections_open, fcm.counters.streams_open)


def test_a_port_that_is_taken_is_said(local_fcm: LocalFCM) -> None:
    port = httpx.URL(local_fcm.endpoint).port
    assert port is not None
    second = LocalFCM(port=port)
    with pytest.raises(OSError, match="in use"):
        second.start()
    assert not second._thread.is_alive()
    with pytest.raises(RuntimeError, match="not running"):
        second.down()
