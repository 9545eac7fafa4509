"""The wall: whatever a channel does becomes exactly one verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from sendoff.deliver import accept_verdicts, classify, idempotency_key, is_async, knows_payload, make_delivery
from sendoff.notification import PAYLOAD_VERSION_KEY, Priority
from sendoff.plugin import BatchChannel, Channel, Delivery
from sendoff.plugin.channel import as_verdict
from sendoff.store.claim import Claimed
from sendoff.verdict import NoTarget, Outage, Permanent, Retryable, Sent, Verdict

ROW = Claimed(
    id=UUID(int=1),
    notification_id=UUID(int=2),
    channel="pager",
    recipient="u1",
    type="order",
    payload={PAYLOAD_VERSION_KEY: 1, "title": "Hi"},
    addresses=None,
    meta=None,
    priority=2,
    attempt_count=1,
    try_count=3,
    claim_count=5,
    lost_leases=0,
    requeue_count=0,
    collapse_key="c",
    progress={"part": 1},
    cancel_requested=False,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    first_due_at=0.0,
    expires_in=None,
    now=0.0,
    position=(datetime(2026, 1, 1, tzinfo=UTC), UUID(int=1)),
)


class Pager(Channel):
    name = "pager"

    def __init__(self, said: object = None) -> None:
        self._said = said

    def send(self, delivery: Delivery) -> None:
        """Accept everything."""

    def classify(self, error: Exception) -> Verdict:
        if isinstance(self._said, BaseException):
            raise self._said
        answer: Any = super().classify(error) if self._said is ... else self._said
        return answer  # type: ignore[no-any-return]  # what a careless channel returns


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


# --------------------------------------------------------------------------------------------------- what is returned


@pytest.mark.parametrize("verdict", [Sent("m-1"), NoTarget("x"), Retryable("x"), Permanent("x"), Outage("x")])
def test_a_verdict_is_taken_at_its_word(verdict: Verdict) -> None:
    assert verdict is as_verdict(verdict)


def test_nothing_means_sent() -> None:
    assert Sent() == as_verdict(None)


@pytest.mark.parametrize(
    "answer", [True, False, 0, "sent", [], {}, Sent, object(), [Sent()], Exception("x")], ids=range(10)
)
def test_nonsense_may_have_been_sent(answer: object) -> None:
    expected = Retryable(f"send() returned {type(answer).__name__} instead of a verdict", maybe_sent=True)
    assert expected == as_verdict(answer)


def test_a_batch_is_answered_one_by_one() -> None:
    assert [Sent(), Permanent("x"), Sent()] == accept_verdicts([None, Permanent("x"), Sent()], 3)
    assert [Sent(), Sent()] == accept_verdicts((Sent(), None), 2)
    [fine, odd] = accept_verdicts([Sent(), "ok"], 2)
    assert Sent() == fine
    assert Retryable("send_many() returned str instead of a verdict", maybe_sent=True) == odd


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (None, "NoneType"),
        ([], "0 verdicts"),
        ([Sent()], "1 verdicts"),
        ([Sent()] * 3, "3 verdicts"),
        (Sent(), "Sent"),
        ({0: Sent(), 1: Sent()}, "dict"),
        ({1, 2}, "set"),
        (iter([Sent(), Sent()]), "list_iterator"),
        (5, "int"),
        (True, "bool"),
    ],
    ids=range(10),
)
def test_a_wrong_number_of_answers_tells_nothing_about_any(answer: object, got: str) -> None:
    expected = Retryable(f"send_many() returned {got} for 2 deliveries", maybe_sent=True)
    assert [expected, expected] == accept_verdicts(answer, 2)


@pytest.mark.parametrize("answer", ["ok", b"no"])
def test_a_text_is_no_list_of_answers(answer: object) -> None:
    assert {True} == {isinstance(one, Retryable) and one.maybe_sent for one in accept_verdicts(answer, 2)}


# ----------------------------------------------------------------------------------------------------- what is raised


def test_the_channel_classifies_what_it_raised() -> None:
    assert Permanent("550") == classify(Pager(Permanent("550")), ValueError("x"))


@pytest.mark.parametrize("error", [ValueError("x"), Exception(), Mute(), KeyError(None), OSError()])
def test_every_error_has_a_verdict_by_default(error: Exception) -> None:
    verdict = classify(Pager(...), error)
    assert isinstance(verdict, Retryable)
    assert type(error).__name__ in verdict.reason


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), BaseException("x")])
def test_what_is_no_exception_may_have_been_sent(error: BaseException) -> None:
    assert Retryable(f"{type(error).__name__} in send()", maybe_sent=True) == classify(Pager(...), error)


def test_a_classifier_that_fails_is_not_believed() -> None:
    expected = Retryable("ValueError: x (and classify() raised KeyError)", maybe_sent=True)
    assert expected == classify(Pager(KeyError("y")), ValueError("x"))
    assert isinstance(classify(Pager(KeyError("y")), Mute()), Retryable)


def test_a_classifier_that_says_nothing_is_not_taken_for_sent() -> None:
    expected = Retryable("ValueError: x (and classify() returned None)", maybe_sent=True)
    assert expected == classify(Pager(None), ValueError("x"))
    assert isinstance(classify(Pager(None), Mute()), Retryable)


@pytest.mark.parametrize("said", [False, "retry", Sent, 5])
def test_a_classifier_that_says_nonsense_is_not_believed(said: object) -> None:
    expected = Retryable(f"classify() returned {type(said).__name__} instead of a verdict", maybe_sent=True)
    assert expected == classify(Pager(said), ValueError("x"))


class ConnectError(Exception):
    """As httpx and others call it."""


class ReadTimeout(Exception):
    """As httpx calls it."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectError("refused"), Retryable("ConnectError: refused", counts=False)),
        (ConnectionRefusedError(111, "no"), Retryable("ConnectionRefusedError: [Errno 111] no", counts=False)),
        (ReadTimeout("slow"), Retryable("ReadTimeout: slow", maybe_sent=True)),
        (TimeoutError(), Retryable("TimeoutError", maybe_sent=True)),
        (ConnectionResetError("gone"), Retryable("ConnectionResetError: gone", maybe_sent=True)),
        (ValueError("x"), Retryable("ValueError: x")),
    ],
    ids=range(6),
)
def test_usual_errors_are_known_by_their_class(error: Exception, expected: Verdict) -> None:
    assert expected == classify(Pager(...), error)


def test_the_innermost_error_that_is_known_decides() -> None:
    error = ConnectionError("could not send")
    error.__cause__ = ConnectionRefusedError("no")
    assert Retryable("ConnectionError: could not send", counts=False) == classify(Pager(...), error)


def test_an_error_that_holds_itself_is_no_trap() -> None:
    error = ValueError("x")
    error.args = (error,)
    error.__cause__ = error
    assert isinstance(classify(Pager(...), error), Retryable)


# ---------------------------------------------------------------------------------------------------------- deliveries


def test_the_row_as_its_channel_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    delivery = make_delivery(evolve(ROW, expires_in=60.0), ["a", "b"], 90.0, 20.0)
    assert ({"title": "Hi"}, ("a", "b"), 4, "c", Priority.BULK) == (
        delivery.payload,
        delivery.addresses,
        delivery.attempt,
        delivery.collapse_key,
        delivery.priority,
    )
    assert (20.0, 50.0, {"part": 1}, {}) == (
        delivery.remaining(),
        delivery.ttl(),
        delivery.progress,
        delivery.meta,
    )
    assert make_delivery(ROW, [], 90.0, 20.0).ttl() is None
    assert ROW.payload[PAYLOAD_VERSION_KEY] == 1


def test_the_idempotency_key_is_new_after_a_requeue_only() -> None:
    later = evolve(ROW, try_count=9, claim_count=9)
    assert str(ROW.id) == idempotency_key(ROW) == idempotency_key(later)
    assert f"{ROW.id}-2" == idempotency_key(evolve(ROW, requeue_count=2))


@pytest.mark.parametrize(("version", "known"), [(1, True), (0, True), (2, False), ("1", False), (None, False)])
def test_a_newer_payload_is_not_known(version: object, known: bool) -> None:
    assert known == knows_payload(evolve(ROW, payload={PAYLOAD_VERSION_KEY: version}), Pager())


def test_a_payload_without_a_version_is_the_first() -> None:
    assert knows_payload(evolve(ROW, payload={}), Pager())


def test_which_channels_run_on_the_loop() -> None:
    class Async(Channel):
        async def send(self, delivery: Delivery) -> None:
            """Accept everything."""

    class Batch(BatchChannel):
        def send_many(self, deliveries: Sequence[Delivery]) -> list[None]:
            return [None] * len(deliveries)

    class AsyncBatch(BatchChannel):
        async def send_many(self, deliveries: Sequence[Delivery]) -> list[None]:
            return [None] * len(deliveries)

    assert [True, False, True, False] == [is_async(one) for one in (Async(), Batch(), AsyncBatch(), Pager())]
    delivery = make_delivery(ROW, [], 0.0, 1.0)
    assert Batch().send(delivery) is None
