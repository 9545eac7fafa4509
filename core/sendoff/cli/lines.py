"""A notification from plain values: a line of JSON, or the options of a command."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

from sendoff.cli.values import moment, seconds
from sendoff.errors import InvalidNotification, nearest
from sendoff.notification import Notification, Step

__all__ = ["FIELDS", "merged", "notification_from", "parse_json", "parse_line"]

#: The keys of a line, which are the fields of a notification.
FIELDS = (
    "recipient", "type", "channels", "title", "body", "data", "options", "addresses", "dedup_key", "collapse_key",
    "priority", "not_before", "expires_at", "ttl", "sensitive", "meta",
)  # fmt: skip
STEP = ("channel", "after", "when", "delay")
#: Options on the command line reach into these objects; in others a line's value replaces them.
DEEP = ("data", "options", "addresses", "meta")
#: Where an integer might not fit into 64 bits.
MANY_DIGITS = re.compile(r"[0-9]{19}")


def parse_json(text: str | bytes, field: str) -> Any:
    """JSON in the strict sense; what Python's own parser lets through is named."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidNotification(field, _why(text, error), kind="text") from None
    if MANY_DIGITS.search(text if isinstance(text, str) else text.decode()):
        # orjson rounds integers beyond 64 bits; Python's parser keeps them, and the notification refuses them by name.
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidNotification(field, "has an integer beyond 64 bits; pass it as text", kind="int") from None
    return value


def _why(text: str | bytes, error: orjson.JSONDecodeError) -> str:
    """orjson calls NaN an invalid number and says little about surrogates; a person wants to know what to change."""
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as wrong:
            return f"is not UTF-8 (at byte {wrong.start})"
    for position, character in enumerate(text):
        if "\ud800" <= character <= "\udfff":
            return f"has a lone surrogate at position {position}; remove it"
    found: list[str] = []
    try:
        json.loads(text, parse_constant=found.append)
    except (ValueError, RecursionError):
        return f"is not JSON: {error.msg} at column {error.colno}"
    if found:
        return f"has {found[0]}, which JSON cannot hold; use null or text"
    return f"is not JSON that every database stores: {error.msg} at column {error.colno}"


def parse_line(line: bytes, defaults: Mapping[str, Any]) -> Notification:
    """One line of JSON, with ``defaults`` for what it does not say."""
    values = parse_json(line, "line")
    if not isinstance(values, dict):
        raise InvalidNotification("line", 'must be an object such as {"recipient": "u1", "type": "t"}', value=values)
    return notification_from(merged(defaults, values))


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``; the objects of a notification key by key."""
    result = {**below, **above}
    for key in DEEP:
        if isinstance(below.get(key), Mapping) and isinstance(above.get(key), Mapping):
            result[key] = _deep(below[key], above[key])
    return result


def _deep(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = _deep(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return result


def notification_from(values: Mapping[str, Any]) -> Notification:
    """The notification that plain JSON values describe; :class:`~sendoff.InvalidNotification` names what is wrong."""
    _known(values, FIELDS, "a notification")
    for name in ("recipient", "type"):
        if name not in values:
            raise InvalidNotification(name, "is missing", kind="nothing")
    built = {key: value for key, value in values.items() if value is not None}
    for name in ("not_before", "expires_at"):
        if isinstance(built.get(name), str):
            built[name] = moment(built[name], name)
    if isinstance(built.get("ttl"), str):
        built["ttl"] = seconds(built["ttl"], "ttl")
    if isinstance(built.get("channels"), list):
        built["channels"] = [_step(item) if isinstance(item, dict) else item for item in built["channels"]]
    # A null recipient is not a missing one: the notification itself says what is wrong with it.
    return Notification(**{"recipient": None, "type": None, **built})


def _step(values: Mapping[str, Any]) -> Step:
    _known(values, STEP, "a step", "channels.")
    if "channel" not in values:
        raise InvalidNotification("channels.channel", "is missing", kind="nothing")
    built = {key: value for key, value in values.items() if value is not None}
    if isinstance(built.get("delay"), str):
        built["delay"] = seconds(built["delay"], "channels.delay")
    return Step(**built)


def _known(values: Mapping[str, Any], known: tuple[str, ...], what: str, where: str = "") -> None:
    for key in values:
        if key not in known:
            guess = nearest(str(key), known)
            hint = f"did you mean {guess!r}?" if guess else f"known: {', '.join(known)}"
            raise InvalidNotification(f"{where}{key}", f"is not a field of {what}; {hint}", value=values[key])
