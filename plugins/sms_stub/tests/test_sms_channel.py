"""What the SMS stub refuses, writes, and answers."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from sendoff.errors import ConfigurationError
from sendoff.plugin import (
    Context,
    Delivery,
    InvalidNotification,
    NoTarget,
    Notification,
    Outage,
    Retryable,
    Sent,
    Verdict,
)
from sendoff.plugin.rehearsal import Rule
from sendoff.settings import Settings
from sendoff_sms_stub import plugin
from sendoff_sms_stub.lines import append
from sendoff_sms_stub.plugin import SmsStubChannel, SmsStubConfig

OUTGOING = UUID("01890000-0000-7000-8000-000000000001")


def channel(file: Path = Path("nowhere"), **config: Any) -> SmsStubChannel:
    return SmsStubChannel("sms", SmsStubConfig(file=file, **config))


def delivery(*addresses: str, attempt: int = 1, **payload: Any) -> Delivery:
    return Delivery(
        id=OUTGOING,
        notification_id=OUTGOING,
        recipient="u1",
        channel="sms",
        type="t",
        payload=payload or {"text": "Hi", "encoding": "GSM-7", "segments": 1},
        addresses=addresses,
        attempt=attempt,
        idempotency_key=f"{OUTGOING}-1",
        created_at=datetime.now(UTC),
        deadline=time.monotonic() + 20,
    )


def send(stub: SmsStubChannel, row: Delivery) -> Verdict:
    return asyncio.run(stub.send(row))


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def notification(options: Any = None, **content: Any) -> Notification:
    return Notification(recipient="u1", type="t", options={} if options is None else {"sms": options}, **content)


# -------------------------------------------------------------------------------------------------------- content


@pytest.mark.parametrize(
    ("options", "content", "text"),
    [
        (None, {"title": "Title", "body": "Body"}, "Body"),
        (None, {"title": "Title", "body": " "}, "Title"),
        ({"text": "Short"}, {"title": "Title", "body": "Body"}, "Short"),
    ],
)
def test_the_text_is_the_option_the_body_or_the_title(options: Any, content: dict[str, Any], text: str) -> None:
    assert channel().prepare(notification(options, **content)) == {"text": text, "encoding": "GSM-7", "segments": 1}


def test_the_payload_counts_segments() -> None:
    assert channel().prepare(notification(body="я" * 71)) == {"text": "я" * 71, "encoding": "UCS-2", "segments": 2}


@pytest.mark.parametrize(
    ("options", "content", "field"),
    [
        (None, {}, "body"),
        (None, {"body": " ", "title": "\n"}, "body"),
        ({"text": ""}, {"body": "x"}, "options.sms.text"),
        ({"text": 17}, {"body": "x"}, "options.sms.text"),
        ({"txet": "x"}, {"body": "x"}, "options.sms.txet"),
        ({"text": "x", "sender": "me"}, {"body": "x"}, "options.sms.sender"),
        ({"text": "я" * 671}, {"body": "x"}, "options.sms.text"),
        (None, {"body": "x" * 1531}, "body"),
    ],
)
def test_what_can_never_be_sent(options: Any, content: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidNotification) as caught:
        channel().prepare(notification(options, **content))
    assert caught.value.field == field


def test_too_many_segments_say_the_numbers() -> None:
    assert channel().prepare(notification(body="x" * 1530))["segments"] == 10
    with pytest.raises(
        InvalidNotification,
        match=r"body: needs 3 SMS segments in UCS-2 \(70 UTF-16 units alone, 67 in each of several\); "
        r"the limit of this channel is 2 \(got 135 characters\)",
    ):
        channel(max_segments=2).prepare(notification(body="я" * 135))


# -------------------------------------------------------------------------------------------------------- sending


@pytest.mark.parametrize("number", ["+4915112345678", "+12025550123", "+2905112", "+123456789012345"])
def test_numbers_that_can_be(number: str) -> None:
    assert channel().problem(number) is None


@pytest.mark.parametrize(
    "number",
    [
        "",
        "+",
        "4915112345678",
        "004915112345678",
        "+04915112345678",
        "+49 151 12345678",
        "+49-151-12345678",
        "+123456",
        "+1234567890123456",
        "+4915112345678\n",
        " +4915112345678",
        "+49151١٢٣٤٥٦٧٨",
        "+49151x2345678",
        "a@example.org",
    ],
)
def test_numbers_that_nobody_has(number: str) -> None:
    assert "E.164" in str(channel().problem(number))


@settings(deadline=None)
@given(st.text())
def test_every_text_is_a_number_or_refused(text: str) -> None:
    if channel().problem(text) is None:
        assert text[0] == "+"
        assert text[1:].isdecimal()
        assert text.isascii()


def test_a_message_is_one_line_per_number(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "sms.jsonl"
    verdict = send(
        channel(file),
        delivery(
            "+4915112345678", "broken", "+12025550123", attempt=2, text="Grüße 😀\n\u2028", encoding="UCS-2", segments=1
        ),
    )
    common = {
        "text": "Grüße 😀\n\u2028",
        "encoding": "UCS-2",
        "segments": 1,
        "idempotency_key": f"{OUTGOING}-1",
        "outgoing_id": str(OUTGOING),
        "attempt": 2,
    }
    assert lines(file) == [{"to": "+4915112345678", **common}, {"to": "+12025550123", **common}]
    assert verdict == Sent(
        details={
            "addresses": [
                {"address": "+4915112345678", "verdict": "sent", "segments": 1},
                {"address": "broken", "verdict": "no_target", "reason": channel().problem("broken")},
                {"address": "+12025550123", "verdict": "sent", "segments": 1},
            ]
        }
    )


@pytest.mark.parametrize("addresses", [(), ("broken",)])
def test_no_wellformed_number_is_no_target(tmp_path: Path, addresses: tuple[str, ...]) -> None:
    assert isinstance(send(channel(tmp_path / "sms.jsonl"), delivery(*addresses)), NoTarget)
    assert not (tmp_path / "sms.jsonl").exists()


def test_rules_decide_by_number(tmp_path: Path) -> None:
    stub = channel(tmp_path / "sms.jsonl", rules=[Rule(match="+4915*", verdict="retryable", first_tries=1)])
    assert isinstance(send(stub, delivery("+4915112345678")), Retryable)
    assert isinstance(send(stub, delivery("+4915112345678", attempt=2)), Sent)
    assert [line["attempt"] for line in lines(tmp_path / "sms.jsonl")] == [2]


def write_many(file: Path, writer: int) -> None:
    for number in range(300):
        append(file, {"writer": writer, "number": number, "text": "é" * (number * 7 % 900)})


def test_processes_never_mix_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "sms.jsonl"
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write_many, args=(file, writer)) for writer in range(4)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0] * 4
    found = lines(file)
    for writer in range(4):
        assert list(range(300)) == [line["number"] for line in found if line["writer"] == writer]
    assert all(len(line["text"]) == line["number"] * 7 % 900 for line in found)


def test_a_disk_that_fills_up_spoils_no_other_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sms.jsonl"
    real_write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: real_write(descriptor, data[:10]))
        verdict = send(channel(file), delivery("+4915112345678"))
    assert isinstance(verdict, Outage)
    assert "only 10 of" in verdict.reason
    assert isinstance(send(channel(file), delivery("+12025550123")), Sent)
    broken, whole = file.read_text().splitlines()
    assert len(broken) == 10
    assert json.loads(whole)["to"] == "+12025550123"


def test_a_file_that_cannot_be_is_an_outage_and_a_doctors_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    stub = channel(tmp_path / "file" / "sms.jsonl")
    assert isinstance(send(stub, delivery("+4915112345678")), Outage)
    assert "cannot be made" in str(stub.check())
    assert channel(tmp_path / "good" / "sms.jsonl").check() is None


# ------------------------------------------------------------------------------------------------------- settings


def context(**channels: dict[str, Any]) -> Context:
    def no_engine() -> sa.Engine:
        raise AssertionError("a hook opened the database")

    return Context(Settings.load({"channels": channels}, environ={}), no_engine)


def test_the_default_channel_is_sms_and_needs_an_address() -> None:
    [stub] = plugin.sendoff_channels(context())
    assert isinstance(stub, SmsStubChannel)
    assert ("sms", True, Path("outbox/sms.jsonl")) == (stub.name, stub.needs_address, stub.file)


def test_settings_make_instances() -> None:
    channels = plugin.sendoff_channels(
        context(sms={"plugin": "sms_stub", "file": "/x.jsonl"}, alerts={"plugin": "sms_stub", "max_segments": "1"})
    )
    assert [(stub.name, stub.file) for stub in channels if isinstance(stub, SmsStubChannel)] == [
        ("sms", Path("/x.jsonl")),
        ("alerts", Path("outbox/alerts.jsonl")),
    ]


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"max_segments": 0}, "max_segments"),
        ({"max_segment": 1}, "did you mean 'max_segments'"),
        ({"rules": [{"verdict": "nope"}]}, "verdict"),
        ({"latency": "soon"}, "is not a duration"),
    ],
)
def test_settings_that_make_no_sense(section: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        plugin.sendoff_channels(context(sms=section))
