"""Notifications from JSON lines: what is read, and what each mistake is called."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from sendoff.cli.lines import FIELDS, merged, parse_json, parse_line
from sendoff.errors import InvalidNotification
from sendoff.notification import Notification, Priority, Step


def problem(line: bytes) -> tuple[str, str]:
    with pytest.raises(InvalidNotification) as caught:
        parse_line(line, {})
    return caught.value.field, caught.value.problem


def test_the_keys_of_a_line_are_the_fields_of_a_notification() -> None:
    assert set(FIELDS) == {field.name for field in attrs.fields(Notification)}


def test_a_full_line_becomes_a_notification() -> None:
    line = (
        b'{"recipient": "u1", "type": "order.shipped", "channels": ["inbox", {"channel": "sms", "after": "inbox", '
        b'"when": "unseen", "delay": "1h"}], "title": "On its way", "data": {"order": 17}, "priority": "urgent", '
        b'"not_before": "2026-12-01T09:00:00+01:00", "ttl": "2h", "sensitive": true, "meta": {"locale": "de"}}'
    )

    assert parse_line(line, {}) == Notification(
        recipient="u1",
        type="order.shipped",
        channels=["inbox", Step("sms", after="inbox", when="unseen", delay=timedelta(hours=1))],
        title="On its way",
        data={"order": 17},
        priority=Priority.URGENT,
        not_before=datetime(2026, 12, 1, 8, 0, tzinfo=UTC),
        ttl=timedelta(hours=2),
        sensitive=True,
        meta={"locale": "de"},
    )


def test_defaults_fill_what_a_line_leaves_out() -> None:
    defaults = {"type": "news", "channels": ["inbox"], "data": {"a": 1, "b": 1}}

    found = parse_line(b'{"recipient": "u1", "data": {"b": 2}}', defaults)

    assert found == Notification(recipient="u1", type="news", channels=["inbox"], data={"a": 1, "b": 2})


def test_null_is_the_same_as_not_given() -> None:
    assert parse_line(b'{"recipient": "u1", "type": "t", "title": null}', {}) == Notification(recipient="u1", type="t")


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        (b"{", "line", "is not JSON"),
        (b"[1]", "line", "must be an object"),
        (b"\xff\xfe", "line", "is not UTF-8 (at byte 0)"),
        (b'{"type": "t"}', "recipient", "is missing"),
        (b'{"recipient": "u1"}', "type", "is missing"),
        (b'{"recipient": null, "type": "t"}', "recipient", "must be text"),
        (b'{"recipient": " ", "type": "t"}', "recipient", "is empty"),
        (b'{"recipient": 7, "type": "t"}', "recipient", "must be text"),
        (b'{"recipient": "u", "type": "t", "titel": "x"}', "titel", "did you mean 'title'?"),
        (b'{"recipient": "u", "type": "t", "data": {"x": NaN}}', "line", "has NaN, which JSON cannot hold"),
        (b'{"recipient": "u", "type": "t", "data": {"x": -Infinity}}', "line", "has -Infinity"),
        (b'{"recipient": "u", "type": "t", "title": "\\ud800"}', "line", "surrogate"),
        (b'{"recipient": "u", "type": "t", "data": {"x": "\\u0000"}}', "data.x", "has a NUL character at position 0"),
        (b'{"recipient": "u", "type": "t", "data": [1]}', "data", "must be a mapping"),
        (b'{"recipient": "u", "type": "t", "not_before": "tomorrow"}', "not_before", "2026-12-01T09:00:00+01:00"),
        (
            b'{"recipient": "u", "type": "t", "not_before": "2026-12-01T09:00:00"}',
            "not_before",
            "has no time zone; write 2026-12-01T09:00:00Z for UTC, or its offset such as +01:00",
        ),
        (b'{"recipient": "u", "type": "t", "expires_at": 1764576000}', "expires_at", "must be a datetime"),
        (b'{"recipient": "u", "type": "t", "ttl": "soon"}', "ttl", "'soon' is not a duration"),
        (b'{"recipient": "u", "type": "t", "priority": "high"}', "priority", "URGENT (0), NORMAL (1) or BULK (2)"),
        (b'{"recipient": "u", "type": "t", "channels": "inbox"}', "channels", 'write ["inbox"]'),
        (b'{"recipient": "u", "type": "t", "channels": [{"afer": "x"}]}', "channels.afer", "did you mean 'after'?"),
        (b'{"recipient": "u", "type": "t", "channels": [{"after": "x"}]}', "channels.channel", "is missing"),
    ],
)
def test_each_mistake_is_called_by_its_name(line: bytes, field: str, words: str) -> None:
    found_field, found = problem(line)

    assert (found_field, words in found) == (field, True), found


def test_text_from_the_command_line_may_hold_bytes_that_are_not_utf8() -> None:
    with pytest.raises(InvalidNotification, match=r"data: has a lone surrogate at position 6"):
        parse_json('{"a":"\udcff"}', "data")


def test_objects_are_merged_key_by_key_and_everything_else_replaced() -> None:
    below = {"title": "a", "options": {"fcm": {"ttl": 1, "android": {"priority": "high"}}}, "channels": ["x"]}
    above = {"title": "b", "options": {"fcm": {"android": {"icon": "bell"}}}, "channels": ["y"]}

    assert merged(below, above) == {
        "title": "b",
        "options": {"fcm": {"ttl": 1, "android": {"priority": "high", "icon": "bell"}}},
        "channels": ["y"],
    }
