"""JSON is checked at the door: what passes is stored unchanged, what does not is named by its path."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import UTC, datetime
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendoff.errors import InvalidNotification
from sendoff.jsonsafe import MAX_DEPTH, check_json, check_text, clean_text, dumps, loads
from tests.support.values import JSON_VALUES


class Size(str, Enum):  # noqa: UP042 - what applications have; a StrEnum is spelt by its value anyway
    SMALL = "small"


class Level(IntEnum):
    HIGH = 3


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "path", "kind", "problem"),
    [
        (float("nan"), "data", "float", "is nan, which JSON cannot hold"),
        (float("inf"), "data", "float", "is inf"),
        ({"a": {"b": [1, -float("inf")]}}, "data.a.b[1]", "float", "is -inf"),
        ({"a": "x\ud800y"}, "data.a", "str", "a lone surrogate at position 1"),
        (["\ud83d\ude00"], "data[0]", "str", "a lone surrogate at position 0"),
        ({"a": "x\x00"}, "data.a", "str", "a NUL character at position 1"),
        ({"a\x00": 1}, "data (key)", "str", "a NUL character at position 1"),
        ({"a": {"\udfff": 1}}, "data.a (key)", "str", "a lone surrogate"),
        ({"a": b"raw"}, "data.a", "bytes", "is not JSON; convert it"),
        (bytearray(b"raw"), "data", "bytearray", "is not JSON"),
        ({"a": 2**64}, "data.a", "int", "is an integer beyond 64 bits; pass it as text"),
        (-(2**63) - 1, "data", "int", "beyond 64 bits"),
        ({1: "a"}, "data", "int", "has the key 1; JSON keys are text"),
        ({None: "a"}, "data", "NoneType", "has the key None"),
        ({"a": {(): 1}}, "data.a", "tuple", r"has the key \(\)"),
        ({"a": {1, 2}}, "data.a", "set", "is not JSON"),
        ([object()], "data[0]", "object", "is not JSON"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "data.at", "datetime", r"\.isoformat\(\)"),
        ({"id": UUID(int=1)}, "data.id", "UUID", "is not JSON"),
        (3 + 4j, "data", "complex", "is not JSON"),
        (nested(MAX_DEPTH + 1), "data" + "[0]" * (MAX_DEPTH + 1), "int", "is nested more than 64 levels deep"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() and "\x00" not in value else "",
)
def test_what_json_cannot_hold_is_named_by_its_path(value: object, path: str, kind: str, problem: str) -> None:
    with pytest.raises(InvalidNotification, match=problem) as caught:
        check_json(value, "data")
    assert (path, kind) == (caught.value.field, caught.value.kind)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(InvalidNotification, match="nested more than 64 levels"):
        check_json(value, "data")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, (2, "x")), [1, [2, "x"]]),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (Size.SMALL, "small"),
        ({"size": Size.SMALL, Size.SMALL: 1}, {"size": "small", "small": 1}),
        (Level.HIGH, 3),
        (True, True),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (nested(MAX_DEPTH), nested(MAX_DEPTH)),
        ({"": {"": None}}, {"": {"": None}}),
        ("e\u0301 \u2028 🛎️ שלום", "e\u0301 \u2028 🛎️ שלום"),
    ],
    ids=str,
)
def test_what_json_can_hold_becomes_plain_data(value: object, expected: object) -> None:
    checked = check_json(value, "data")
    assert expected == checked
    assert json.dumps(expected) == json.dumps(checked)
    assert expected == loads(dumps(checked))


@given(JSON_VALUES)
def test_what_passes_comes_back_unchanged(value: object) -> None:
    checked = check_json(value, "data")
    assert value == checked
    assert value == loads(dumps(checked))


@given(st.recursive(st.none() | st.text() | st.binary() | st.floats() | st.integers(), st.lists))
def test_whatever_comes_is_either_plain_or_refused(value: object) -> None:
    try:
        checked = check_json(value, "data")
    except InvalidNotification as error:
        named = error.field
    else:
        assert checked == loads(dumps(checked))
        named = "data"
    assert named.startswith("data")


def test_a_text_is_text() -> None:
    with pytest.raises(InvalidNotification, match=r"^title: must be text \(got int\)$"):
        check_text(5, "title")


# ----------------------------------------------------------------------------- texts of other people's making


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain 🛎️", "plain 🛎️"),
        ("a\x00b", "a\ufffdb"),
        ("a\ud800b\udfff", "a\ufffdb\ufffd"),
        ("x" * 2000, "x" * 2000),
        ("x" * 2001, "x" * 1999 + "…"),
        ("🛎" * 3000, "🛎" * 1999 + "…"),
    ],
)
def test_a_reason_is_made_storable(text: str, expected: str) -> None:
    assert expected == clean_text(text)


@given(st.text(st.characters(), max_size=50), st.integers(1, 40))
def test_a_clean_text_can_be_stored_and_is_short_enough(text: str, limit: int) -> None:
    cleaned = clean_text(text, limit=limit)
    assert len(cleaned) <= limit
    assert check_text(cleaned, "reason") == cleaned
