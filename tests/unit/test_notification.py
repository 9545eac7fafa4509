"""Notifications are checked where they are made: the error names the field, the value's kind and the way out."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given

from sendoff import Delivery, Enqueued, EnqueuedRow, InvalidNotification, Notification, Priority, Step
from tests.support.values import JSON_VALUES

MOMENT = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)


def made(**changes: Any) -> Notification:
    return Notification(**{"recipient": "u1", "type": "order.shipped", **changes})


BAD_TEXTS = [
    (5, "int", "must be text"),
    (None, "NoneType", "must be text"),
    (b"u1", "bytes", "must be text"),
    ("", "str", "is empty; give the id"),
    (" \t\n", "str", "is empty"),
    ("u\x00", "str", "has a NUL character at position 1; remove it"),
    ("u\ud800", "str", "has a lone surrogate at position 1; remove it"),
    ("x" * 513, None, "is 513 characters"),
    ("é" * 512 + "x", None, r"\(1025 bytes\)"),
]


@pytest.mark.parametrize("field", ["recipient", "type", "dedup_key", "collapse_key"])
@pytest.mark.parametrize(("value", "kind", "problem"), BAD_TEXTS, ids=range(len(BAD_TEXTS)))
def test_a_bad_key_is_refused_by_its_name(field: str, value: object, kind: str | None, problem: str) -> None:
    if value is None and field.endswith("_key"):
        return
    with pytest.raises(InvalidNotification, match=problem) as caught:
        made(**{field: value})
    assert caught.value.field == field
    if kind is not None:
        assert caught.value.kind == kind


def test_a_key_may_be_as_long_as_the_limit() -> None:
    assert made(recipient="é" * 512).recipient == "é" * 512


BAD_FIELDS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"title": 5}, "title", "int", "must be text"),
    ({"body": "a\x00"}, "body", "str", "NUL"),
    ({"body": "\udcff"}, "body", "str", "lone surrogate"),
    ({"channels": "inbox"}, "channels", "str", r'write \["inbox"\]'),
    ({"channels": Step("inbox")}, "channels", "Step", "must be a list"),
    ({"channels": 5}, "channels", "int", "must be a list of channel names or steps"),
    ({"channels": []}, "channels", "list", "is empty; name at least one, or None for the default"),
    ({"channels": ["inbox", "fcm", "inbox"]}, r"channels[2]", "str", "names 'inbox' a second time"),
    ({"channels": ["inbox", Step("inbox")]}, r"channels[1]", "Step", "names 'inbox' a second time"),
    ({"channels": ["inbox", 5]}, r"channels[1]", "int", "must be text"),
    ({"channels": ["inbox", " "]}, r"channels[1]", "str", "is empty"),
    ({"data": [1]}, "data", "list", "must be a mapping"),
    ({"data": None}, "data", "NoneType", "must be a mapping"),
    ({"data": {"a": [float("nan")]}}, r"data.a[0]", "float", "JSON cannot hold"),
    ({"data": {"at": MOMENT}}, "data.at", "datetime", r"dates with \.isoformat\(\)"),
    ({"data": {"raw": b"x"}}, "data.raw", "bytes", "bytes to base64"),
    ({"data": {"n": 2**64}}, "data.n", "int", "pass it as text"),
    ({"data": {5: 1}}, "data", "int", "JSON keys are text"),
    ({"meta": {"a": {1}}}, "meta.a", "set", "is not JSON"),
    ({"meta": "de"}, "meta", "str", "must be a mapping"),
    ({"options": {"fcm": ["x"]}}, "options.fcm", "list", "must be a mapping"),
    ({"options": {"fcm": {"ttl": float("inf")}}}, "options.fcm.ttl", "float", "JSON cannot hold"),
    ({"addresses": ["a@x"]}, "addresses", "list", r'\{"email": \["a@example.org"\]\}'),
    ({"addresses": {"email": "a@x"}}, "addresses.email", "str", "must be a list of addresses"),
    ({"addresses": {"email": [5]}}, r"addresses.email[0]", "int", "must be text"),
    ({"addresses": {"email": ["a\x00"]}}, r"addresses.email[0]", "str", "NUL"),
    ({"addresses": {"": ["a@x"]}}, "addresses (key)", "str", "is empty"),
    ({"priority": 3}, "priority", "int", r"URGENT \(0\), NORMAL \(1\) or BULK \(2\)"),
    ({"priority": True}, "priority", "bool", "must be a Priority"),
    ({"priority": 1.0}, "priority", "float", "must be a Priority"),
    ({"priority": "high"}, "priority", "str", "must be a Priority"),
    ({"not_before": "2026-03-29"}, "not_before", "str", "must be a datetime with a time zone"),
    ({"not_before": datetime(2026, 3, 29)}, "not_before", "naive datetime", r"use datetime\.now\(timezone\.utc\)"),  # noqa: DTZ001 - the point
    ({"expires_at": datetime(2026, 3, 29)}, "expires_at", "naive datetime", "has no time zone"),  # noqa: DTZ001 - the point
    ({"expires_at": MOMENT.date()}, "expires_at", "date", "must be a datetime"),
    ({"not_before": datetime.max.replace(tzinfo=UTC)}, "not_before", "datetime", "between 1970 and 9000"),
    ({"expires_at": datetime.min.replace(tzinfo=UTC)}, "expires_at", "datetime", "between 1970 and 9000"),
    ({"not_before": datetime.max.replace(tzinfo=timezone(-timedelta(hours=12)))}, "not_before", "datetime", "9000"),
    ({"ttl": "1h"}, "ttl", "str", "must be a timedelta or a number of seconds"),
    ({"ttl": True}, "ttl", "bool", "must be a timedelta"),
    ({"ttl": -1}, "ttl", "timedelta", "is negative"),
    ({"ttl": 0}, "ttl", "timedelta", "would expire before its first try"),
    ({"ttl": float("nan")}, "ttl", "float", "not a usable number of seconds"),
    ({"ttl": float("inf")}, "ttl", "float", "not a usable number of seconds"),
    ({"ttl": timedelta.max}, "ttl", "timedelta", "more than 100 years"),
    ({"ttl": 60, "expires_at": MOMENT}, "ttl", "timedelta", "give one of them"),
    ({"not_before": MOMENT, "expires_at": MOMENT}, "expires_at", "datetime", "is not later than not_before"),
    ({"sensitive": 1}, "sensitive", "int", "must be True or False"),
    ({"sensitive": "no"}, "sensitive", "str", "must be True or False"),
]


@pytest.mark.parametrize(("changes", "field", "kind", "problem"), BAD_FIELDS, ids=range(len(BAD_FIELDS)))
def test_a_bad_field_is_refused_by_its_name(changes: dict[str, Any], field: str, kind: str, problem: str) -> None:
    with pytest.raises(InvalidNotification, match=problem) as caught:
        made(**changes)
    error = caught.value
    assert (field, kind) == (error.field, error.kind)
    assert str(error) == f"{field}: {error.problem} (got {kind})"


def test_the_error_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="recipient"):
        made(recipient="")


@pytest.mark.parametrize(
    ("step", "field", "problem"),
    [
        ({"channel": ""}, "channels.channel", "is empty"),
        ({"channel": "sms", "after": " "}, "channels.after", "is empty"),
        ({"channel": "sms", "after": "inbox", "when": "dea"}, "channels.when", "'dead'"),
        (
            {"channel": "sms", "after": "inbox", "when": "zzz"},
            "channels.when",
            "finished, sent, no_target, dead, unseen",
        ),
        ({"channel": "sms", "after": "inbox", "delay": -1}, "channels.delay", "is negative"),
        ({"channel": "sms", "after": "inbox", "delay": "1h"}, "channels.delay", "must be a timedelta"),
        ({"channel": "sms", "after": "inbox", "delay": timedelta.max}, "channels.delay", "more than 100 years"),
        ({"channel": "sms", "delay": 3600}, "channels.delay", "needs after="),
        ({"channel": "sms", "when": "no_target"}, "channels.when", "needs after="),
    ],
)
def test_a_bad_step_is_refused_by_its_name(step: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(InvalidNotification, match=problem) as caught:
        Step(**step)
    assert caught.value.field == field


def test_seconds_are_welcome_where_a_span_is_meant() -> None:
    assert made(ttl=90).ttl == timedelta(seconds=90)
    assert Step("sms", after="inbox", delay=1.5).delay == timedelta(seconds=1.5)  # type: ignore[arg-type]  # a number


@pytest.mark.parametrize(("given_", "expected"), [("urgent", 0), ("BULK", 2), (1, 1), (Priority.BULK, 2)])
def test_a_priority_may_be_a_name_or_a_number(given_: Any, expected: int) -> None:
    assert made(priority=given_).priority is Priority(expected)


def test_content_is_taken_as_it_was_when_it_was_given() -> None:
    data = {"items": [1]}
    notification = made(data=data, channels=(name for name in ["inbox"]))
    data["items"].append(2)
    assert notification.data == {"items": [1]}
    assert notification.channels == ("inbox",)


@given(JSON_VALUES)
def test_any_json_may_be_data(value: object) -> None:
    assert made(data={"value": value}).data == {"value": value}


def test_a_repr_shows_no_content_of_data_and_addresses() -> None:
    shown = repr(
        made(
            data={"a": "private"}, options={"b": {"a": "private"}}, addresses={"c": ["private"]}, meta={"d": "private"}
        )
    )
    assert "private" not in shown
    assert "u1" in shown


# ----------------------------------------------------------------------------------------------------------- answers


def test_an_answer_is_found_by_its_channel() -> None:
    row = EnqueuedRow("inbox", "created", UUID(int=1))
    answer = Enqueued(UUID(int=2), (row,))
    assert answer.row("inbox") is row
    with pytest.raises(KeyError, match="fcm"):
        answer.row("fcm")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A monotonic clock that the test moves."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


DELIVERY = Delivery(
    id=UUID(int=1),
    notification_id=UUID(int=2),
    recipient="u1",
    channel="fcm",
    type="order",
    payload={"title": "private"},
    addresses=["private"],
    progress={"a": "private"},
    meta={"a": "private"},
    created_at=MOMENT,
    deadline=1020.0,
)


def test_the_time_that_is_left_never_falls_below_zero(clock: list[float]) -> None:
    expiring = evolve(DELIVERY, expiry=1060.0)
    assert (20.0, 60.0, None) == (expiring.remaining(), expiring.ttl(), DELIVERY.ttl())
    clock[0] += 15
    assert (5.0, 45.0) == (expiring.remaining(), expiring.ttl())
    clock[0] += 500
    assert (0.0, 0.0) == (expiring.remaining(), expiring.ttl())


def test_a_delivery_shows_no_content() -> None:
    assert "private" not in repr(DELIVERY)
    assert "u1" in repr(DELIVERY)
