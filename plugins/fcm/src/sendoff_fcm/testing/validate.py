"""What the real endpoint refuses before it looks at the device: :func:`read_message`.

Rules: the REST reference, https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode and its examples. Where
the real one says more than is public, this one refuses with the same status and field, in its own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
from attrs import frozen

from sendoff_fcm.testing.answers import Answer, error
from sendoff_fcm.testing.details import fcm_error, violation
from sendoff_fcm.testing.schema import REQUEST, TARGETS, Kind, snake

__all__ = ["MAX_BYTES", "MAX_TOPIC_BYTES", "MAX_TTL", "Parsed", "Refused", "payload_bytes", "read_message"]

#: Keys and values in UTF-8, for one device; and for a topic or condition.
MAX_BYTES: Final = 4096
MAX_TOPIC_BYTES: Final = 2048
#: Seconds: four weeks.
MAX_TTL: Final = 2_419_200
#: Nesting that the API's JSON parser takes.
MAX_DEPTH: Final = 100

_DURATION: Final = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,9})?s")
_LABEL: Final = re.compile(r"[a-zA-Z0-9\-_.~%]{1,50}")
_TOPIC: Final = re.compile(r"[a-zA-Z0-9\-_.~%]{1,900}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_RESERVED: Final = {"from", "message_type", "collapse_key"}
_RESERVED_PREFIXES: Final = ("google.", "gcm.")
_APNS_ID_BYTES: Final = 64


class Refused(Exception):
    """The request gets ``answer`` whatever the device."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


@frozen
class Parsed:
    """``target``: token, fid, topic or condition; ``token``: what it says."""

    target: str
    token: str
    validate_only: bool
    message: Mapping[str, Any]


def read_message(body: bytes) -> Parsed:
    """The request in ``body``. :class:`Refused` with a 400 that names the field."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as wrong:
        raise _refused(f"Invalid JSON payload received. {wrong}", "") from wrong
    if not isinstance(content, dict):
        raise _refused("Invalid JSON payload received. Root element must be a message.", "")
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        _check_depth(content)
    request = _object(content, REQUEST, "")
    message = request.get("message")
    if message is None:
        raise _refused(f"Invalid value at 'message' ({_MESSAGE_TYPE}), null", "message")
    targets = [name for name in TARGETS if message.get(name) is not None]
    if not targets:
        raise _invalid("Recipient of the message is not set.", "message")
    if len(targets) > 1:
        text = f"oneof field 'target' is already set. Cannot set '{targets[1]}'"
        raise _refused(f"Invalid value at 'message' (oneof), {text}", "message")
    target = targets[0]
    token = message[target]
    _check_target(target, token)
    _check_values(message)
    limit = MAX_BYTES if target in {"token", "fid"} else MAX_TOPIC_BYTES
    # No text takes fewer bytes in JSON than by itself; most messages are so small that there is nothing to count.
    for platform, count in payload_bytes(message).items() if len(body) > limit else ():
        if count > limit:
            raise Refused(error(400, "INVALID_ARGUMENT", _too_big(platform), fcm_error("INVALID_ARGUMENT")))
    return Parsed(target, token, request.get("validate_only") is True, message)


_MESSAGE_TYPE: Final = "type.googleapis.com/google.firebase.fcm.v1.Message"


def _too_big(platform: str) -> str:
    names = {"android": "Android", "apns": "iOS", "webpush": "WebPush"}
    return f"{names[platform]} message is too big"


def _refused(text: str, field: str) -> Refused:
    """What the JSON layer finds: a BadRequest, and no word of FCM's own."""
    found = violation(field, text)
    if not field:
        del found["fieldViolations"][0]["field"]
    return Refused(error(400, "INVALID_ARGUMENT", text, found, case="refused"))


def _invalid(text: str, field: str) -> Refused:
    """What FCM itself finds."""
    found = violation(field, text)
    return Refused(error(400, "INVALID_ARGUMENT", text, found, fcm_error("INVALID_ARGUMENT"), case="refused"))


# ------------------------------------------------------------------------------------------- fields and their types


def _object(content: Mapping[str, Any], fields: Mapping[str, Kind], where: str) -> dict[str, Any]:
    """``content`` with its names in snake case and nulls left out, as proto3 JSON reads it."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = key if key in fields else snake(key)
        kind = fields.get(name)
        if kind is None:
            at = f" at '{where}'" if where else ""
            raise _refused(f'Invalid JSON payload received. Unknown name "{key}"{at}: Cannot find field.', where)
        if value is not None:
            found[name] = _value(value, kind, f"{where}.{name}" if where else name)
    return found


def _value(value: object, kind: Kind, where: str) -> object:
    if not isinstance(kind, str):
        if not isinstance(value, dict):
            raise _wrong(where, "TYPE_MESSAGE", value)
        return _object(value, kind, where)
    match kind:
        case "string" | "enum" | "label" | "duration":
            if not isinstance(value, str):
                raise _wrong(where, {"enum": "TYPE_ENUM"}.get(kind, "TYPE_STRING"), value)
            if kind == "label" and not _LABEL.fullmatch(value):
                raise _invalid(f"Invalid analytics label: {value[:60]}", where)
            if kind == "duration" and not _DURATION.fullmatch(value):
                raise _refused(f"Invalid value at '{where}' (type.googleapis.com/google.protobuf.Duration)", where)
        case "bool":
            if not isinstance(value, bool):
                raise _wrong(where, "TYPE_BOOL", value)
        case "int" | "number":
            allowed = int if kind == "int" else (int, float)
            if isinstance(value, bool) or not isinstance(value, allowed):
                raise _wrong(where, "TYPE_INT32" if kind == "int" else "TYPE_FLOAT", value)
        case "strings" | "durations":
            if not isinstance(value, list):
                raise _wrong(where, "TYPE_STRING", value)
            for place, each in enumerate(value):
                _value(each, "string" if kind == "strings" else "duration", f"{where}[{place}]")
        case "map":
            if not isinstance(value, dict):
                raise _wrong(where, "TYPE_MESSAGE", value)
            for place, each in enumerate(value.values()):
                if not isinstance(each, str):
                    raise _wrong(f"{where}[{place}].value", "TYPE_STRING", each)
        case _:
            if not isinstance(value, dict):
                raise _wrong(where, "TYPE_MESSAGE", value)
    return value


def _wrong(where: str, kind: str, value: object) -> Refused:
    return _refused(f"Invalid value at '{where}' ({kind}), {orjson.dumps(value).decode()[:200]}", where)


def _check_depth(content: object) -> None:
    """Level by level, not by recursion: what is too deep must not exhaust the stack either."""
    level = [content]
    for _ in range(MAX_DEPTH):
        level = [each for item in level for each in _inside(item)]
        if not level:
            return
    raise _refused("Invalid JSON payload received. Message too deep. Max recursion depth reached.", "")


def _inside(item: object) -> Iterator[object]:
    if isinstance(item, dict):
        yield from item.values()
    elif isinstance(item, list):
        yield from item


# ----------------------------------------------------------------------------------------------------- FCM's own


def _check_target(target: str, token: str) -> None:
    if target in {"token", "fid"} and not _TOKEN.fullmatch(token):
        raise _invalid("The registration token is not a valid FCM registration token", f"message.{target}")
    if target == "topic" and not _TOPIC.fullmatch(token):
        raise _invalid("Invalid topic name", "message.topic")


def _check_values(message: Mapping[str, Any]) -> None:
    android, apns, webpush = (message.get(name, {}) for name in ("android", "apns", "webpush"))
    for where, data in (("message", message), ("message.android", android), ("message.webpush", webpush)):
        for key in data.get("data", ()):
            if key in _RESERVED or key.startswith(_RESERVED_PREFIXES):
                raise _invalid(f"Invalid data payload key: {key}", f"{where}.data")
    if (ttl := android.get("ttl")) is not None and not 0 <= float(ttl[:-1]) <= MAX_TTL:
        raise _invalid(f"Invalid TTL: {ttl}; must be between 0 and {MAX_TTL} seconds", "message.android.ttl")
    if (priority := android.get("priority")) is not None and priority.upper() not in {"NORMAL", "HIGH"}:
        raise _wrong("message.android.priority", "TYPE_ENUM", priority)
    if len(apns.get("headers", {}).get("apns-collapse-id", "").encode()) > _APNS_ID_BYTES:
        raise _invalid(f"apns-collapse-id is longer than {_APNS_ID_BYTES} bytes", "message.apns.headers")


def payload_bytes(message: Mapping[str, Any]) -> dict[str, int]:
    """Bytes of keys and values in UTF-8 that each platform's devices would get.

    Common ``data`` and ``notification``, where the platform has none of its own, and the platform's: ``android``
    always, ``apns`` and ``webpush`` where the message has such a part.
    """
    common = {name: message[name] for name in ("data", "notification") if name in message}
    android = message.get("android", {})
    sizes = {"android": _size(common | {name: android[name] for name in ("data", "notification") if name in android})}
    if "apns" in message:
        sizes["apns"] = _size(common) + _size(message["apns"].get("payload", {}))
    if "webpush" in message:
        webpush = message["webpush"]
        sizes["webpush"] = _size(common | {name: webpush[name] for name in ("data", "notification") if name in webpush})
    return sizes


def _size(content: Mapping[str, Any]) -> int:
    total = 0
    left: list[object] = list(content.values())
    while left:
        item = left.pop()
        if isinstance(item, dict):
            total += sum(len(key.encode()) for key in item)
        elif isinstance(item, str):
            total += len(item.encode())
        elif not isinstance(item, list):
            total += len(orjson.dumps(item))
        left.extend(_inside(item))
    return total
