"""The local FCM in a process of its own: its log, and what another process tells it by HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import frozen

from plugins.fcm.tests.test_local_fcm import client_for, send
from sendoff_fcm.testing import CASES, Answer, Fault, LocalFCM, case

pytest_plugins = ["sendoff_fcm.testing.fixtures"]


@frozen
class Alone:
    process: subprocess.Popen[str]
    endpoint: str
    client: httpx.Client
    log: Path
    account: Path

    def ask(self, verb: str) -> Any:
        return self.client.get(f"{self.endpoint}/_control/{verb}").json()

    def tell(self, verb: str, **told: Any) -> None:
        answer = self.client.post(f"{self.endpoint}/_control/{verb}", json=told)
        assert (200, {"ok": True}) == (answer.status_code, answer.json())

    def send(self, token: str) -> int:
        url = f"{self.endpoint}/v1/projects/alone/messages:send"
        return self.client.post(url, json={"message": {"token": token}}).status_code


def started(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "sendoff_fcm.testing", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def stop(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    return process.returncode


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    log, account = tmp_path / "fcm.jsonl", tmp_path / "account.json"
    process, where = started("--project", "alone", "--log", str(log), "--service-account", str(account))
    try:
        with httpx.Client(http1=False, http2=True, verify=False) as client:
            access = client.get(f"{where['endpoint']}/_control/access_token").json()["access_token"]
            client.headers["authorization"] = f"Bearer {access}"
            yield Alone(process, where["endpoint"], client, log, account)
    finally:
        stop(process)


def test_it_logs_each_request_as_a_line(alone: Alone) -> None:
    assert [200, 404] == [alone.send(token) for token in ("phone", "dead-phone")]
    first, second = [json.loads(line) for line in alone.log.read_text().splitlines()]
    assert ("phone", 200, True, {"token": "phone"}) == tuple(
        first[name] for name in ("token", "status", "accepted", "message")
    )
    assert ("dead-phone", 404, False) == tuple(second[name] for name in ("token", "status", "accepted"))
    assert [first, second] == alone.ask("requests")["requests"]
    assert [second] == alone.ask("requests?after=1")["requests"]
    assert [first] == alone.ask("requests?token=phone")["requests"]


def test_its_log_outlives_it(alone: Alone) -> None:
    alone.send("phone")
    alone.process.kill()
    alone.process.wait(30)
    process, where = started("--project", "alone", "--log", str(alone.log))
    try:
        access = httpx.get(f"{where['endpoint']}/_control/access_token").json()["access_token"]
        url = f"{where['endpoint']}/v1/projects/alone/messages:send"
        httpx.post(url, json={"message": {"token": "other"}}, headers={"authorization": f"Bearer {access}"})
    finally:
        assert 0 == stop(process)
    assert ["phone", "other"] == [json.loads(line)["token"] for line in alone.log.read_text().splitlines()]


def test_rules_are_told_by_http(alone: Alone) -> None:
    alone.tell("answer", token="phone", answers=["server overloaded", case("accepted", delay=0.01).to_json()])
    assert [503, 200, 200] == [alone.send("phone") for _ in range(3)]
    alone.tell("answer_next", answers=[{"status": 418, "body": "tea", "headers": {"x-tea": "1"}}])
    assert 418 == alone.send("phone")
    alone.tell("answer_everyone", answer="internal")
    assert [500, 200] == [alone.send(token) for token in ("other", "phone")]
    alone.tell("reset")
    assert 200 == alone.send("other")
    assert 1 == alone.ask("counters")["requests"]


def test_outages_are_told_by_http(alone: Alone) -> None:
    token_uri = alone.ask("service_account")["token_uri"]
    alone.tell("down")
    assert 503 == alone.send("phone")
    alone.tell("up")
    assert 200 == alone.send("phone")
    alone.tell("token_down", how="html")
    assert 502 == httpx.post(token_uri).status_code
    alone.tell("token_up")
    assert 400 == httpx.post(token_uri).status_code
    alone.tell("expire_tokens")
    assert 401 == alone.send("phone")


def test_whoever_has_connections_refused_is_answered_and_can_end_it(alone: Alone) -> None:
    alone.tell("down", how="refuse", seconds=3600)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{alone.endpoint}/_control/counters")
    alone.tell("up")
    assert 200 == alone.send("phone")


def test_the_account_it_writes_is_the_one_it_takes(alone: Alone) -> None:
    assert "alone" == json.loads(alone.account.read_text())["project_id"]
    assert json.loads(alone.account.read_text())["token_uri"] == alone.ask("service_account")["token_uri"]
    assert {name: found.reach for name, found in CASES.items()} == alone.ask("cases")["cases"]


def test_a_port_that_is_taken_ends_it(local_fcm: LocalFCM) -> None:
    port = str(httpx.URL(local_fcm.endpoint).port)
    done = subprocess.run(
        [sys.executable, "-m", "sendoff_fcm.testing", "--port", port], capture_output=True, text=True, check=False
    )
    assert 1 == done.returncode
    assert "cannot listen" in done.stderr


@pytest.mark.parametrize(
    ("verb", "body", "text"),
    [
        ("answer", b"[]", "not a JSON object"),
        ("answer", b"{", "unexpected"),
        ("answer", b'{"answers": []}', "token is not a string"),
        ("answer", b'{"token": "a", "answers": "b"}', "answers is not a list"),
        ("answer", b'{"token": "a", "answers": ["b"]}', "no case is called 'b'"),
        ("answer", b'{"token": "a", "answers": [{"colour": 1}]}', "an answer has no colour"),
        ("answer", b'{"token": "a", "answers": [{"headers": 5}]}', "not an answer"),
        ("answer", b'{"token": "a", "answers": [{"fault": "x"}]}', "'x' is not a valid Fault"),
        ("answer", b'{"token": "a", "answers": [5]}', "no case is called 5"),
        ("answer", b'{"token": "a", "answers": [[]]}', "unhashable"),
        ("down", b'{"how": "refuse"}', "takes seconds"),
        ("down", b'{"how": "refuse", "seconds": "x"}', "could not convert"),
        ("requests?after=x", None, "invalid literal"),
    ],
)
def test_what_cannot_be_told_is_answered(verb: str, body: bytes | None, text: str, local_fcm: LocalFCM) -> None:
    url = f"{local_fcm.endpoint}/_control/{verb}"
    answer = httpx.get(url) if body is None else httpx.post(url, content=body)
    assert 400 == answer.status_code
    assert text in answer.json()["error"]


def test_another_verb_is_answered_with_those_that_there_are(local_fcm: LocalFCM) -> None:
    answer = httpx.get(f"{local_fcm.endpoint}/_control/answer")
    assert 404 == answer.status_code
    assert "POST answer, POST answer_next" in answer.json()["error"]


def test_an_answer_survives_the_way_through_json() -> None:
    for answer in (
        Answer(200, {"a": "b"}, b"\xff", delay=0.5, fault=Fault.GOAWAY, case="x"),
        case("project quota"),
        case("accepted"),
    ):
        assert answer == Answer.from_json(json.loads(json.dumps(answer.to_json())))


def test_a_log_in_this_process(tmp_path: Path) -> None:
    with LocalFCM(log=tmp_path / "log") as fcm, client_for(fcm) as client:
        send(client, fcm, "phone", data={"k": "é"})
        client.post(fcm.send_url, content=b"\xff")
        lines = [json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
        assert [request.to_json() for request in fcm.requests] == lines
    assert [{"token": "phone", "data": {"k": "é"}}, None] == [line["message"] for line in lines]
