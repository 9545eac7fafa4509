"""One file per call and address, whole or not at all."""

from __future__ import annotations

import asyncio
import mailbox
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from plugins.email_stub.tests.helpers import OUTGOING, channel, delivery, read
from sendoff.errors import ConfigurationError
from sendoff.plugin import Context, Delivery, NoTarget, Outage, Permanent, Retryable, Sent, Verdict
from sendoff.plugin.rehearsal import Rule
from sendoff.settings import Settings
from sendoff_email_stub import maildir, plugin
from sendoff_email_stub.plugin import EmailStubChannel


def context(**channels: dict[str, Any]) -> Context:
    def no_engine() -> sa.Engine:
        raise AssertionError("a hook opened the database")

    return Context(Settings.load({"channels": channels}, environ={}), no_engine)


def send(stub: EmailStubChannel, row: Delivery) -> Verdict:
    return asyncio.run(stub.send(row))


def written(directory: Path) -> list[Path]:
    return sorted((directory / "new").iterdir())


def test_a_message_lands_in_the_maildir(tmp_path: Path) -> None:
    verdict = send(channel(tmp_path / "deep" / "mail"), delivery("a@example.org", subject="Grüße"))
    [file] = written(tmp_path / "deep" / "mail")
    message = read(file.read_bytes())
    assert verdict == Sent(
        provider_ref=message["Message-ID"],
        details={
            "addresses": [
                {
                    "address": "a@example.org",
                    "verdict": "sent",
                    "provider_ref": message["Message-ID"],
                    "file": file.name,
                }
            ]
        },
    )
    assert file.name.startswith(f"{OUTGOING}.1.")
    assert file.suffix == ".eml"
    assert list((tmp_path / "deep" / "mail" / "tmp").iterdir()) == []
    box = mailbox.Maildir(tmp_path / "deep" / "mail", create=False)
    assert [message["Message-ID"] for message in box] == [verdict.provider_ref]


def test_two_calls_are_two_files_with_one_message_id(tmp_path: Path) -> None:
    stub = channel(tmp_path)
    for _ in range(2):
        send(stub, delivery("a@example.org"))
    files = written(tmp_path)
    assert len(files) == 2
    assert len({read(file.read_bytes())["Message-ID"] for file in files}) == 1


def test_each_address_gets_its_own_message(tmp_path: Path) -> None:
    verdict = send(channel(tmp_path), delivery("a@example.org", "broken", "b@example.org"))
    assert {str(read(file.read_bytes())["To"]) for file in written(tmp_path)} == {"a@example.org", "b@example.org"}
    assert isinstance(verdict, Sent)
    assert verdict.details is not None
    assert [entry["verdict"] for entry in verdict.details["addresses"]] == ["sent", "no_target", "sent"]


@pytest.mark.parametrize("addresses", [(), ("broken",), ("broken", "a@", "x\r\nBcc: a@example.org")])
def test_no_wellformed_address_is_no_target(tmp_path: Path, addresses: tuple[str, ...]) -> None:
    assert isinstance(send(channel(tmp_path), delivery(*addresses)), NoTarget)
    assert not (tmp_path / "new").exists()


def test_rules_decide_by_address(tmp_path: Path) -> None:
    rules = [Rule(match="*@bounce.example", verdict="permanent", reason="550 no such user")]
    stub = channel(tmp_path, rules=rules)
    bounced = send(stub, delivery("a@bounce.example"))
    assert isinstance(bounced, Permanent)
    assert bounced.reason == "550 no such user"
    assert isinstance(send(stub, delivery("a@bounce.example", "a@example.org")), Sent)
    assert len(written(tmp_path)) == 1


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda number: maildir.deliver(tmp_path, "x", str(number).encode()), range(200)))
    assert {file.name: file.read_bytes() for file in written(tmp_path)} == {
        name: str(number).encode() for number, name in enumerate(names)
    }


def test_a_write_that_fails_leaves_no_half_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    verdict = send(channel(tmp_path), delivery("a@example.org"))
    assert isinstance(verdict, Outage)
    assert "No space left" in verdict.reason
    assert list((tmp_path / "tmp").iterdir()) == []
    assert written(tmp_path) == []


def test_a_directory_that_cannot_be_is_an_outage_and_a_doctors_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    stub = channel(tmp_path / "file")
    assert isinstance(send(stub, delivery("a@example.org")), Outage)
    assert "cannot be made" in str(stub.check())
    assert channel(tmp_path / "good").check() is None


def test_a_payload_it_cannot_build_a_message_of_is_retryable(tmp_path: Path) -> None:
    stub = channel(tmp_path)
    with pytest.raises(ValueError, match="control character") as caught:
        send(stub, delivery("a@example.org", subject="a\nb"))
    assert isinstance(stub.classify(caught.value), Retryable)


# ------------------------------------------------------------------------------------------------------- settings


def test_the_default_channel_is_email_and_needs_an_address() -> None:
    [stub] = plugin.sendoff_channels(context())
    assert isinstance(stub, EmailStubChannel)
    assert ("email", True, Path("outbox/email")) == (stub.name, stub.needs_address, stub.directory)


def test_settings_make_instances() -> None:
    channels = plugin.sendoff_channels(
        context(
            email={"plugin": "email_stub", "directory": "/mail", "rules": [{"verdict": "outage", "share": 0.5}]},
            news={"plugin": "email_stub", "from_address": "news@example.org", "from_name": "Neues"},
        )
    )
    assert [(stub.name, stub.directory) for stub in channels if isinstance(stub, EmailStubChannel)] == [
        ("email", Path("/mail")),
        ("news", Path("outbox/news")),
    ]


def test_another_plugins_email_makes_no_stub() -> None:
    assert plugin.sendoff_channels(context(email={"plugin": "ses"})) == []


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"from_address": "nobody"}, "from_address"),
        ({"from_address": "josé@example.org"}, "from_address"),
        ({"from_name": "a\nBcc: x"}, "from_name"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"directroy": "x"}, r"did you mean 'directory'"),
        ({"rules": [{"verdict": "nope"}]}, "verdict"),
    ],
)
def test_settings_that_make_no_sense(section: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        plugin.sendoff_channels(context(email=section))
