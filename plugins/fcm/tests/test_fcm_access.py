"""Access tokens: once for everyone, ahead of their end, never on the loop; and what happens when there is none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from plugins.fcm.tests.helpers import (
    channel_for,
    config_for,
    context_for,
    delivery,
    kind_of,
    no_engine,
    on_a_loop,
    sent_by,
)
from sendoff.errors import ConfigurationError
from sendoff.plugin import Outage, Secret, Sent, Verdict
from sendoff_fcm import access
from sendoff_fcm.access import AccessError, AccessTokens, Account, load_account
from sendoff_fcm.channel import FcmChannel
from sendoff_fcm.config import FcmConfig
from sendoff_fcm.plugin import sendoff_channels
from sendoff_fcm.testing import LocalFCM

ACCOUNT = Account(credential=None, project_id="p")


@contextlib.asynccontextmanager
async def heartbeat() -> AsyncIterator[list[float]]:
    """The longest times for which the loop did not run, in seconds."""
    gaps: list[float] = []

    async def beat() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            gaps.append(time.perf_counter() - before - 0.005)

    task = asyncio.get_running_loop().create_task(beat())
    try:
        yield gaps
    finally:
        task.cancel()


class Endpoint:
    """Counts renewals, and answers when told to."""

    def __init__(self, *, lives: float = 3600.0, error: Exception | None = None) -> None:
        self.calls = 0
        self.lives = lives
        self.error = error
        self.open = threading.Event()
        self.open.set()

    def __call__(self, account: Account, timeout: float) -> tuple[str, float]:
        self.calls += 1
        number = self.calls
        assert self.open.wait(10)
        if self.error is not None:
            raise self.error
        return f"token-{number}", self.lives


def tokens_of(endpoint: Endpoint, load: Callable[[], Account] = lambda: ACCOUNT, timeout: float = 5.0) -> AccessTokens:
    return AccessTokens(load, timeout=timeout, renew=endpoint)


def test_one_call_for_everyone_who_waits() -> None:
    endpoint = Endpoint()
    endpoint.open.clear()

    async def forty() -> set[str]:
        tokens = tokens_of(endpoint)
        waiting = [asyncio.ensure_future(tokens.get(5.0)) for _ in range(40)]
        await asyncio.sleep(0)
        endpoint.open.set()
        return {one.token for one in await asyncio.gather(*waiting)}

    assert ({"token-1"}, 1) == (asyncio.run(forty()), endpoint.calls)


def test_a_token_near_its_end_serves_while_it_is_renewed() -> None:
    endpoint = Endpoint(lives=access.AHEAD - 1)

    async def ahead() -> tuple[str, str]:
        tokens = tokens_of(endpoint)
        await tokens.get(5.0)
        endpoint.open.clear()
        endpoint.lives = 3600.0
        old = (await tokens.get(0.0)).token
        endpoint.open.set()
        async with asyncio.timeout(5):
            while (new := (await tokens.get(5.0)).token) == old:  # noqa: ASYNC110 - the thread has no event to wait for
                await asyncio.sleep(0)
        return old, new

    assert (("token-1", "token-2"), 2) == (asyncio.run(ahead()), endpoint.calls)


def test_a_failed_renewal_ahead_of_time_costs_nothing() -> None:
    endpoint = Endpoint(lives=access.AHEAD - 1)

    async def ahead() -> list[str]:
        tokens = tokens_of(endpoint)
        await tokens.get(5.0)
        endpoint.error = AccessError("network", "away")
        return [(await tokens.get(5.0)).token for _ in range(20)]

    assert ["token-1"] * 20 == asyncio.run(ahead())
    assert endpoint.calls <= 2


def test_a_spent_token_is_not_used() -> None:
    endpoint = Endpoint(lives=access.SPENT - 1)

    async def twice() -> list[str]:
        tokens = tokens_of(endpoint)
        return [(await tokens.get(5.0)).token for _ in range(2)]

    assert ["token-1", "token-2"] == asyncio.run(twice())


def test_who_gives_up_waiting_takes_it_from_nobody() -> None:
    endpoint = Endpoint()
    endpoint.open.clear()

    async def wait() -> str:
        tokens = tokens_of(endpoint)
        patient = asyncio.ensure_future(tokens.get(5.0))
        with pytest.raises(AccessError, match="gave no answer within"):
            await tokens.get(0.01)
        endpoint.open.set()
        return (await patient).token

    assert "token-1" == asyncio.run(wait())


def test_a_thread_that_hangs_for_good_is_left_to_itself() -> None:
    endpoint = Endpoint()
    endpoint.open.clear()

    async def wait() -> int:
        tokens = tokens_of(endpoint, timeout=0.01)
        for _ in range(2):
            with pytest.raises(AccessError):
                await tokens.get(0.05)
        return endpoint.calls

    assert 2 == asyncio.run(wait())
    endpoint.open.set()


def test_after_a_refusal_the_credential_is_read_afresh() -> None:
    endpoint = Endpoint(error=AccessError("credential", "invalid_grant"))
    loaded = []

    def load() -> Account:
        loaded.append(1)
        return ACCOUNT

    async def twice() -> str:
        tokens = tokens_of(endpoint, load)
        with pytest.raises(AccessError):
            await tokens.get(5.0)
        endpoint.error = None
        first = await tokens.get(5.0)
        tokens.reject("another token")
        assert first.token == (await tokens.get(5.0)).token
        tokens.reject(first.token)
        return (await tokens.get(5.0)).token

    assert ("token-3", 3) == (asyncio.run(twice()), len(loaded))


# ------------------------------------------------------------------------------------------------- the token endpoint


def test_the_first_message_after_the_start_does_not_hold_up_the_loop(fcm: LocalFCM) -> None:
    channel = channel_for(fcm)

    async def send() -> tuple[Verdict, float]:
        await channel.start()
        async with heartbeat() as gaps:
            verdict = await channel.send(delivery())
        await channel.stop()
        return verdict, max(gaps, default=0.0)

    # On this machine other processes run too: the best of a few is what the channel itself takes.
    found = [asyncio.run(send()) for _ in range(3)]
    assert {"sent"} == {kind_of(verdict) for verdict, _ in found}
    assert min(gap for _, gap in found) < 0.05


@pytest.mark.parametrize("how", ["invalid_grant", "unavailable", "html", "hang", "refuse"])
def test_a_token_endpoint_that_fails_is_an_outage_and_the_loop_goes_on(how: str, fcm: LocalFCM) -> None:
    channel = channel_for(fcm, token_timeout=1.0)

    async def send() -> tuple[Verdict, float, Verdict]:
        # The SDK is loaded once per process, in a thread; what is measured here is every token after that.
        await channel.send(delivery())
        fcm.token_down(how)
        channel.tokens.reject((await channel.tokens.get(5.0)).token)
        async with heartbeat() as gaps:
            down = (await asyncio.gather(*[channel.send(delivery(f"phone-{index}")) for index in range(40)]))[0]
        fcm.token_up()
        return down, sorted(gaps)[-3] if len(gaps) > 3 else 0.0, await channel.send(delivery())

    down, gap, up = on_a_loop(channel, send)
    assert isinstance(down, Outage)
    assert "token endpoint" in down.reason
    assert isinstance(up, Sent)
    assert gap < 0.05


def test_an_access_token_that_is_refused_is_replaced(fcm: LocalFCM) -> None:
    channel = channel_for(fcm)

    async def send() -> list[Verdict]:
        first = await channel.send(delivery())
        fcm.expire_tokens()
        return [first, await channel.send(delivery()), await channel.send(delivery())]

    assert ["sent", "outage", "sent"] == [kind_of(verdict) for verdict in on_a_loop(channel, send)]


# -------------------------------------------------------------------------------------------------------- credentials


def test_a_service_account_by_path_environment_or_text(
    fcm: LocalFCM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fcm.write_service_account(tmp_path / "account.json")
    monkeypatch.setenv("ACCOUNT_JSON", path.read_text())
    monkeypatch.setenv("ACCOUNT_PATH", str(path))
    sources = [
        {"file": str(path)},
        {"env": "ACCOUNT_JSON"},
        {"env": "ACCOUNT_PATH"},
        str(path),
    ]
    for source in sources:
        context = context_for(no_engine, fcm={"credentials": source, "endpoint": fcm.endpoint})
        [channel] = sendoff_channels(context)
        assert isinstance(channel, FcmChannel)
        assert ["sent"] == [kind_of(verdict) for verdict in sent_by(channel, delivery())]


def test_application_default_credentials(fcm: LocalFCM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fcm.write_service_account(tmp_path / "account.json")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    channel = channel_for(fcm, credentials=None)
    assert ["sent"] == [kind_of(verdict) for verdict in sent_by(channel, delivery())]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot be read"),
        ("", "is empty"),
        ("{", "JSONDecodeError"),
        ("{}", "ValueError"),
        ('{"type": "service_account"}', "ValueError"),
        ('{"type": "authorized_user"}', "ValueError"),
    ],
)
def test_a_credential_that_cannot_be_used_says_where_it_is_from(
    content: str | None, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "account.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(AccessError, match=expected) as refused:
        load_account(FcmConfig(credentials=Secret(file=str(path))))
    assert ("credential", True) == (refused.value.kind, str(path) in refused.value.reason)


def test_a_private_key_is_never_shown(fcm: LocalFCM) -> None:
    from sendoff.plugin import scrub

    account = fcm.service_account()
    load_account(config_for(fcm))
    assert account["private_key"] not in scrub(f"text {account['private_key']} text")


def test_a_project_has_to_be_known(fcm: LocalFCM, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "FIREBASE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    nameless = {key: value for key, value in fcm.service_account().items() if key != "project_id"}
    config = FcmConfig(credentials=Secret(json.dumps(nameless)))
    with pytest.raises(AccessError, match="set project_id") as refused:
        load_account(config)
    assert "project" == refused.value.kind
    assert "mine" == load_account(FcmConfig(credentials=config.credentials, project_id="mine")).project_id


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"endpoint": "http://fcm.example.org"}, "on this machine only"),
        ({"endpoint": "fcm.googleapis.com"}, "must be a URL"),
        ({"timeout": 5}, "at least 10"),
        ({"connections": 0}, "at least 1"),
        ({"sucess": "all"}, "success"),
        ({"success": "most"}, "success"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        sendoff_channels(context_for(no_engine, fcm=settings))


# -------------------------------------------------------------------------------------------------------- lightness

LIGHT = """
import sys
from sendoff.plugin import Context, Notification
from sendoff.settings import Settings
from sendoff_fcm import plugin, devices
[channel] = plugin.sendoff_channels(Context(Settings.load(environ={}), None))
channel.prepare(Notification(recipient="u1", type="t", title="t", body="b" * 3000, data={"a": 1},
                             options={"fcm": {"android": {"priority": "high"}}}))
heavy = ("firebase_admin", "google.auth", "httpx", "h2", "requests", "grpc", "cryptography")
print([name for name in heavy if name in sys.modules])
"""


def test_a_process_that_only_enqueues_loads_nothing_heavy() -> None:
    ran = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False)
    assert ("[]\n", "") == (ran.stdout, ran.stderr)


@pytest.mark.parametrize("token", [5, "", "\u00e9", "x\r\nA: b"])
@pytest.mark.parametrize("http2", [True, False])
def test_an_access_token_that_no_header_carries_is_none(token: object, http2: bool, fcm: LocalFCM) -> None:
    fcm.token_down({"status": 200, "body": json.dumps({"access_token": token, "expires_in": 3599})})
    assert [Outage("the token endpoint gave no token")] == sent_by(channel_for(fcm, http2=http2), delivery())
