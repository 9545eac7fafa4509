"""Rules, shares and the verdict on several addresses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sendoff.errors import ConfigurationError
from sendoff.plugin import Delivery, NoTarget, Outage, Permanent, Retryable, Sent, Verdict
from sendoff.plugin.rehearsal import RehearsalChannel, RehearsalConfig, RehearsedError, Rule, choose, combine
from sendoff.settings import Settings


class Stub(RehearsalChannel):
    """Writes into a list; an address without a colon is malformed, and one that begins with full finds no room."""

    def __init__(self, *rules: Rule, **config: Any) -> None:
        super().__init__("stub", RehearsalConfig(rules=list(rules), **config))
        self.written: list[str] = []

    def problem(self, address: str) -> str | None:
        return None if ":" in address else "malformed"

    def write(self, delivery: Delivery, address: str) -> Sent:
        if address.startswith("full"):
            raise PermissionError(13, "Permission denied", "/outbox")
        self.written.append(address)
        return Sent(provider_ref=f"ref {address}", details={"place": len(self.written)})


def delivery(*addresses: str, attempt: int = 1, key: str = "key") -> Delivery:
    return Delivery(
        id=uuid4(),
        notification_id=uuid4(),
        recipient="u1",
        channel="stub",
        type="t",
        payload={},
        addresses=addresses,
        attempt=attempt,
        idempotency_key=key,
        created_at=datetime.now(UTC),
        deadline=time.monotonic() + 20,
    )


def send(stub: Stub, *addresses: str, attempt: int = 1) -> Verdict:
    return asyncio.run(stub.send(delivery(*addresses, attempt=attempt)))


# ---------------------------------------------------------------------------------------------------------- rules


def pick(*rules: Rule, address: str = "a:b", attempt: int = 1, key: str = "key", seed: int = 0) -> Rule | None:
    return choose(rules, seed=seed, key=key, attempt=attempt, address=address)


def test_the_first_rule_that_matches_decides() -> None:
    one, two = Rule(match="*@Bounce.example", verdict="permanent"), Rule(verdict="outage")
    assert pick(one, two, address="A@bounce.EXAMPLE") is one
    assert pick(one, two, address="a@example.org") is two
    assert pick(one, address="a@example.org") is None
    assert pick() is None


def test_first_tries_end() -> None:
    rule = Rule(verdict="retryable", first_tries=2)
    assert [rule, rule, None, None] == [pick(rule, attempt=attempt) for attempt in (1, 2, 3, 4)]


def test_all_and_nothing_are_exact() -> None:
    keys = [str(number) for number in range(500)]
    assert all(pick(Rule(verdict="outage", share=1.0), key=key) for key in keys)
    assert not any(pick(Rule(verdict="outage", share=0.0), key=key) for key in keys)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_a_share_is_about_that_share(share: float) -> None:
    hits = sum(pick(Rule(verdict="outage", share=share), key=str(number)) is not None for number in range(4000))
    assert abs(hits / 4000 - share) < 0.03


def test_two_rules_fail_different_messages() -> None:
    one, two = Rule(verdict="outage", share=0.5), Rule(verdict="permanent", share=0.5)
    counts = [pick(one, two, key=str(number)) for number in range(4000)]
    assert abs(counts.count(one) / 4000 - 0.5) < 0.03
    assert abs(counts.count(two) / 4000 - 0.25) < 0.03


@settings(deadline=None)
@given(st.integers(), st.text(), st.integers(1, 50), st.floats(0, 1))
def test_the_same_try_is_always_judged_the_same(seed: int, key: str, attempt: int, share: float) -> None:
    rule = Rule(verdict="outage", share=share)
    key = key.encode(errors="replace").decode()
    first = pick(rule, seed=seed, key=key, attempt=attempt)
    assert first is pick(rule, seed=seed, key=key, attempt=attempt)
    if first is not None:  # a larger share fails these and more
        assert pick(Rule(verdict="outage"), seed=seed, key=key, attempt=attempt) is not None


def test_another_seed_picks_others() -> None:
    rule = Rule(verdict="outage", share=0.5)
    picks = [[pick(rule, key=str(number), seed=seed) is None for number in range(64)] for seed in (1, 2)]
    assert picks[0] != picks[1]


# ------------------------------------------------------------------------------------------------------- settings


def config(rules: Any, **more: Any) -> RehearsalConfig:
    values = {"channels": {"stub": {"rules": rules, **more}}}
    return Settings.load(values, environ={}).section("channels.stub", RehearsalConfig)


def test_rules_come_from_settings() -> None:
    rules = [{"match": "*@a", "verdict": "retryable", "share": 0.5, "retry_after": "2m", "counts": False}]
    found = config(rules, latency="50ms", seed=7)
    assert found == RehearsalConfig(
        rules=[Rule(match="*@a", verdict="retryable", share=0.5, retry_after=120.0, counts=False)],
        latency=0.05,
        seed=7,
    )
    assert found.rules[0].answer() == Retryable("rehearsed", retry_after=timedelta(minutes=2), counts=False)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"verdict": "permament"}, "did you mean 'permanent'"),
        ({"verdict": "sent", "share": 1.5}, "share must be from 0 to 1"),
        ({"verdict": "sent", "share": -0.1}, "share must be from 0 to 1"),
        ({"verdict": "outage", "retry_after": -1}, "retry_after must not be negative"),
        ({"verdict": "outage", "first_tries": -1}, "first_tries must not be negative"),
        ({"verdict": "outage", "counts": "perhaps"}, "must be true or false"),
        ({"verdict": "outage", "sahre": 0.5}, "sahre"),
        ({"match": "*"}, "verdict"),
    ],
)
def test_a_rule_that_makes_no_sense_is_named(rule: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        config([rule])
    assert "channels.stub" in str(caught.value)


# -------------------------------------------------------------------------------------------------------- sending


def test_without_rules_every_address_is_written_to() -> None:
    stub = Stub()
    assert send(stub, "a:1", "b", "c:2") == Sent(
        provider_ref="ref a:1",
        details={
            "addresses": [
                {"address": "a:1", "verdict": "sent", "provider_ref": "ref a:1", "place": 1},
                {"address": "b", "verdict": "no_target", "reason": "malformed"},
                {"address": "c:2", "verdict": "sent", "provider_ref": "ref c:2", "place": 2},
            ]
        },
    )
    assert stub.written == ["a:1", "c:2"]


@pytest.mark.parametrize("addresses", [(), ("a",), ("a", "b")])
def test_no_usable_address_is_no_target(addresses: tuple[str, ...]) -> None:
    stub = Stub()
    assert isinstance(send(stub, *addresses), NoTarget)
    assert stub.written == []


@pytest.mark.parametrize(
    ("verdict", "answer"),
    [
        ("no_target", NoTarget),
        ("retryable", Retryable),
        ("permanent", Permanent),
        ("outage", Outage),
    ],
)
def test_each_verdict_can_be_asked_for(verdict: str, answer: type[Verdict]) -> None:
    stub = Stub(Rule(verdict=verdict, reason="why"))
    given = send(stub, "a:1")
    assert isinstance(given, answer)
    assert not isinstance(given, Sent)
    assert given.reason == "why"
    assert stub.written == []


def test_a_lost_answer_leaves_the_message_behind() -> None:
    stub = Stub(Rule(verdict="retryable", written=True, maybe_sent=True, first_tries=1))
    first = send(stub, "a:1")
    assert isinstance(first, Retryable)
    assert first.maybe_sent
    assert isinstance(send(stub, "a:1", attempt=2), Sent)
    assert stub.written == ["a:1", "a:1"]


def test_a_provider_that_loses_messages_says_sent() -> None:
    stub = Stub(Rule(verdict="sent", written=False))
    assert isinstance(send(stub, "a:1"), Sent)
    assert stub.written == []


def test_raise_raises_and_is_retryable() -> None:
    stub = Stub(Rule(verdict="raise", reason="boom"))
    with pytest.raises(RehearsedError, match="boom") as caught:
        send(stub, "a:1")
    assert stub.classify(caught.value) == Retryable("RehearsedError: boom")


def test_hang_does_not_answer() -> None:
    stub = Stub(Rule(verdict="hang"))

    async def wait() -> None:
        await asyncio.wait_for(stub.send(delivery("a:1")), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())
    assert stub.written == []


def test_crash_ends_the_process_at_once() -> None:
    program = (
        "import asyncio\n"
        "from tests.unit.plugin.test_rehearsal import Rule, Stub, delivery\n"
        "try:\n    asyncio.run(Stub(Rule(verdict='crash')).send(delivery('a:1')))\n"
        "finally:\n    print('cleaned up')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (137, "", "")


def test_a_folder_that_cannot_be_written_to_is_an_outage() -> None:
    verdict = send(Stub(), "full:1")
    assert isinstance(verdict, Outage)
    assert verdict.reason == "cannot write /outbox: Permission denied"


def test_latency_is_waited_for() -> None:
    started = time.monotonic()
    send(Stub(latency=0.05), "a:1")
    assert time.monotonic() - started >= 0.05


# ------------------------------------------------------------------------------------------------------- combining


def verdict_of(*verdicts: Verdict) -> Verdict:
    return combine([(f"a{index}", verdict) for index, verdict in enumerate(verdicts)])


def test_one_acceptance_is_enough() -> None:
    found = verdict_of(Outage("o"), Permanent("p"), Sent(), Sent(provider_ref="r"))
    assert isinstance(found, Sent)
    assert found.provider_ref == "r"


def test_what_leaves_most_open_wins() -> None:
    rising: list[Verdict] = [NoTarget("n"), Permanent("p"), Retryable("r"), Outage("o")]
    for count in range(1, 5):
        found = verdict_of(*rising[:count])
        assert type(found) is type(rising[count - 1])
        assert not isinstance(found, Sent)
        assert found.reason == "npro"[count - 1]


def test_retryables_add_up() -> None:
    one = Retryable("a", retry_after=timedelta(seconds=5), counts=False)
    two = Retryable("b", retry_after=timedelta(seconds=9), counts=False, maybe_sent=True)
    found = verdict_of(one, two, one)
    assert isinstance(found, Retryable)
    assert ("a; b", timedelta(seconds=9), False, True) == (
        found.reason,
        found.retry_after,
        found.counts,
        found.maybe_sent,
    )
    counted = verdict_of(one, Retryable("c"))
    assert isinstance(counted, Retryable)
    assert counted.counts


def test_details_are_storable_whatever_an_address_is() -> None:
    found = combine([("a\ud800\0", NoTarget("malformed"))])
    assert found.details == {"addresses": [{"address": "a??", "verdict": "no_target", "reason": "malformed"}]}
