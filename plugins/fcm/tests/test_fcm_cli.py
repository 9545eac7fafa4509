"""``sendoff fcm``: devices by hand, and whose fault it is that nothing arrives; ``sendoff doctor``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plugins.fcm.tests.helpers import kind_of
from sendoff.plugin import NoTarget, Outage, Permanent, Retryable, Sent, Verdict
from sendoff_fcm.access import Access
from sendoff_fcm.probe import judge
from sendoff_fcm.testing import Fault, LocalFCM
from tests.support.commands import Ran, run

pytestmark = pytest.mark.usefixtures("no_defaults")


@pytest.fixture
def no_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credential of whoever runs the tests."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "K_SERVICE", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def settings(folder: Path, fcm: LocalFCM, **changes: str) -> str:
    """A settings file for the local FCM; the values are TOML."""
    account = fcm.write_service_account(folder / "account.json")
    values = {"credentials": f'{{file = "{account}"}}', "endpoint": f'"{fcm.endpoint}"', "token_timeout": "2"}
    lines = [f"{key} = {value}" for key, value in {**values, **changes}.items()]
    path = folder / "sendoff.toml"
    path.write_text("[channels.fcm]\n" + "\n".join(lines) + "\n")
    return str(path)


def devices(url: str, *words: str) -> Ran:
    return run("fcm", "devices", *words, "--database-url", url)


def test_devices_by_hand(database_url: str) -> None:
    made = devices(database_url, "register", "u1", "t1", "--platform", "android", "--app", "shop", "--json")
    assert ("u1", "t1", True) == (made.json["recipient"], made.json["token"], made.json["active"])
    assert 0 == devices(database_url, "register", "u2", "f1", "--fid").code
    listed = devices(database_url, "list", "u1").out.splitlines()
    assert ["recipient", "token", "kind", "platform", "app", "state", "last", "seen"] == listed[0].split()
    assert ["u1", "t1", "token", "android", "shop", "active"] == listed[1].split()[:6]
    gone = devices(database_url, "unregister", "t1")
    assert (0, "unregistered\n") == (gone.code, gone.out)
    again = devices(database_url, "unregister", "t1")
    assert (1, "sendoff: no such device\n") == (again.code, again.err)
    assert ["f1"] == [one["token"] for one in devices(database_url, "list", "--active", "--json").json]
    assert {"deactivated": 0} == devices(database_url, "prune", "--json").json
    refused = devices(database_url, "register", "u1", "a b")
    assert (2, "token: has a blank") == (refused.code, refused.err[9:27])


def test_without_the_table_the_command_that_makes_it_is_named(empty_database_url: str) -> None:
    for words in (["list"], ["register", "u1", "t1"], ["unregister", "t1"], ["prune"]):
        ran = devices(empty_database_url, *words)
        assert (1, "sendoff: there is no table sendoff_device; `sendoff migrate` makes it\n") == (ran.code, ran.err)


def test_a_check_that_succeeds(fcm: LocalFCM, tmp_path: Path) -> None:
    ran = run("fcm", "check", "--config", settings(tmp_path, fcm))
    assert (0, f"fcm: ok: FCM took the message of project {fcm.project}") == (ran.code, ran.out.rpartition(" in ")[0])
    [request] = fcm.requests
    assert (True, "sendoff-check", False) == (request.validate_only, request.token, request.accepted)


def problem(ran: Ran) -> str:
    assert 1 == ran.code
    [finding] = json.loads(ran.out)
    found: str = finding["problem"]
    return found


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("our OAuth token rejected", "credential"),
        ("IAM permission missing", "project"),
        ("404 without FcmError detail", "project"),
        ("server overloaded", "provider"),
        (Fault.DROP, "network"),
    ],
)
def test_a_check_says_whose_problem_it_is(case: Any, expected: str, fcm: LocalFCM, tmp_path: Path) -> None:
    fcm.answer_everyone(case)
    assert expected == problem(run("fcm", "check", "--json", "--config", settings(tmp_path, fcm)))


def test_a_check_without_network_credential_or_project(fcm: LocalFCM, tmp_path: Path) -> None:
    config = settings(tmp_path, fcm)
    fcm.token_down("invalid_grant")
    assert "credential" == problem(run("fcm", "check", "--json", "--config", config))
    fcm.token_down("refuse")
    assert "network" == problem(run("fcm", "check", "--json", "--config", config))
    fcm.token_up()
    fcm.down("refuse")
    assert "network" == problem(run("fcm", "check", "--json", "--config", config))
    fcm.up()
    other = settings(tmp_path, fcm, project_id='"another"')
    assert "project" == problem(run("fcm", "check", "--json", "--config", other))
    missing = settings(tmp_path, fcm, credentials='{env = "NOT_THERE"}')
    assert "credential" == problem(run("fcm", "check", "--json", "--config", missing))


@pytest.mark.parametrize(
    ("verdict", "token", "expected"),
    [
        (Sent("r"), None, None),
        (NoTarget("gone"), None, None),
        (NoTarget("gone"), "t", None),
        (Permanent("bad"), None, None),
        (Outage("x", details={"status": 401}), None, "credential"),
        (Outage("x", details={"status": 302}), None, "network"),
        (Retryable("x", counts=False), None, "provider"),
        (Retryable("x", maybe_sent=True), None, "network"),
    ],
    ids=lambda value: kind_of(value) if not isinstance(value, str | None) else str(value),
)
def test_every_verdict_is_judged(verdict: Verdict, token: str | None, expected: str | None) -> None:
    assert expected == judge("fcm", Access("p", "secret"), verdict, 0.1, token).problem


def test_an_unknown_channel_is_wrong_usage() -> None:
    ran = run("fcm", "check", "-c", "sms")
    assert (2, "'sms' is no push channel; known: fcm") == (
        ran.code,
        ran.err.removeprefix("sendoff: ").partition(" (")[0],
    )


def test_the_doctor_warns_of_a_channel_that_nobody_set_up(sqlite_url: str) -> None:
    ran = run("doctor", "--json", "--database-url", sqlite_url)
    [found] = [item for item in ran.json if item["name"] == "channel fcm"]
    assert (0, "warning") == (ran.code, found["level"])
    assert found["message"].startswith("no credential")


def test_the_doctor_looks_at_credential_and_table(fcm: LocalFCM, tmp_path: Path, sqlite_url: str) -> None:
    config = settings(tmp_path, fcm)

    def told(url: str) -> tuple[str, str]:
        ran = run("doctor", "--json", "--database-url", url, "--config", config)
        [found] = [item for item in ran.json if item["name"] == "channel fcm"]
        return found["level"], found["message"]

    assert ("ok", "ready") == told(sqlite_url)
    level, message = told(f"sqlite:///{tmp_path / 'empty.db'}")
    assert ("error", True) == (level, "sendoff_device cannot be read" in message)
    (tmp_path / "account.json").write_text("{}")
    assert "error" == told(sqlite_url)[0]
