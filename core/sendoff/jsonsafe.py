"""JSON that every database stores unchanged: checked at the door, named by its path when it is not."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import orjson

from sendoff.errors import InvalidNotification

__all__ = ["as_text", "check_json", "check_text", "clean_text", "dumps", "loads"]

MAX_DEPTH = 64
#: PostgreSQL's json stores integers of any size; orjson reads and writes 64 bits.
INT_MIN, INT_MAX = -(2**63), 2**64 - 1
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PLAIN_ONLY = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS

loads = orjson.loads


def dumps(value: object) -> str:
    """Compact JSON text."""
    return orjson.dumps(value).decode()


def check_text(value: object, field: str) -> str:
    """``value`` when it is text that both databases store: no NUL, no lone surrogate."""
    if not isinstance(value, str):
        raise InvalidNotification(field, "must be text", value=value)
    found = _UNSTORABLE.search(value)
    if found:
        what = "a NUL character" if found.group() == "\x00" else "a lone surrogate"
        raise InvalidNotification(field, f"has {what} at position {found.start()}; remove it", value=value)
    return value


def check_json(value: object, field: str) -> Any:
    """``value`` as plain JSON data (tuples become lists), or :class:`InvalidNotification` naming the path."""
    copy = _copied(value) if type(value) is dict or type(value) is list else None
    return _checked(value, field, 0) if copy is None else copy


def _copied(value: object) -> Any:
    """What most data is, there and back at C's speed; None where there may be something to object to or to convert."""
    try:
        text = orjson.dumps(value, option=_PLAIN_ONLY)
    except TypeError:
        return None
    if b"\\u0000" in text or text.count(b"{") + text.count(b"[") > MAX_DEPTH:
        return None
    copy = loads(text)
    return copy if copy == value else None


def _checked(value: object, field: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidNotification(field, f"is nested more than {MAX_DEPTH} levels deep; flatten it", value=value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return check_text(str.__str__(value), field)  # an enum's value, not its name
    if isinstance(value, int):
        if not INT_MIN <= value <= INT_MAX:
            raise InvalidNotification(field, "is an integer beyond 64 bits; pass it as text", value=value)
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidNotification(field, f"is {value}, which JSON cannot hold; use None or text", value=value)
        return float(value)
    if isinstance(value, Mapping):
        return {_key(key, field): _checked(item, f"{field}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_checked(item, f"{field}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise InvalidNotification(field, "is not JSON; convert it (dates with .isoformat(), bytes to base64)", value=value)


def _key(key: object, field: str) -> str:
    if not isinstance(key, str):
        raise InvalidNotification(field, f"has the key {key!r}; JSON keys are text", value=key)
    return check_text(str.__str__(key), f"{field} (key)")


def as_text(value: object) -> str:
    """The text of somebody else's object: its type's name where it cannot tell."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - __str__ may raise anything
        return type(value).__name__


def clean_text(text: str, *, limit: int = 2000) -> str:
    """``text`` made storable: NUL and lone surrogates become U+FFFD, cut to ``limit`` characters."""
    cleaned = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text[: limit + 1])
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
