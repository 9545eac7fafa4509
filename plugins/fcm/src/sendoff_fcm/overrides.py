"""Raw additions to a message: ``options.<channel>.android``, ``.apns`` and ``.webpush``, as FCM's REST reference names
them (`projects.messages`). Checked at enqueue, so that a misspelt field fails in the caller's hands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from sendoff.plugin import InvalidNotification
from sendoff_fcm.data import flat_map

__all__ = ["APNS_COLLAPSE_BYTES", "LABEL", "checked", "merged"]

#: text, flag, whole, number, texts, map (of data), headers, open (anybody's object), duration, durations, label, color;
#: the words that may be written there; or the fields of an object.
Kind = str | frozenset[str] | Mapping[str, "Kind"]

LABEL = re.compile(r"[a-zA-Z0-9\-_.~%]{1,50}")
#: Bytes of ``apns-collapse-id`` (Apple, "Sending notification requests to APNs").
APNS_COLLAPSE_BYTES = 64
_DURATION = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?s")
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")

_PRIORITIES = frozenset(f"PRIORITY_{name}" for name in ("UNSPECIFIED", "MIN", "LOW", "DEFAULT", "HIGH", "MAX"))
ANDROID_NOTIFICATION: Mapping[str, Kind] = {
    "title": "text",
    "body": "text",
    "icon": "text",
    "color": "color",
    "sound": "text",
    "tag": "text",
    "click_action": "text",
    "body_loc_key": "text",
    "body_loc_args": "texts",
    "title_loc_key": "text",
    "title_loc_args": "texts",
    "channel_id": "text",
    "ticker": "text",
    "sticky": "flag",
    "event_time": "text",
    "local_only": "flag",
    "notification_priority": _PRIORITIES,
    "default_sound": "flag",
    "default_vibrate_timings": "flag",
    "default_light_settings": "flag",
    "vibrate_timings": "durations",
    "visibility": frozenset({"VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"}),
    "notification_count": "whole",
    "light_settings": {
        "color": {"red": "number", "green": "number", "blue": "number", "alpha": "number"},
        "light_on_duration": "duration",
        "light_off_duration": "duration",
    },
    "image": "text",
    "bypass_proxy_notification": "flag",
    "proxy": frozenset({"PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"}),
}
#: The fields of AndroidConfig, ApnsConfig and WebpushConfig. What is open is Apple's and the browsers'.
FIELDS: Mapping[str, Mapping[str, Kind]] = {
    "android": {
        "collapse_key": "text",
        "priority": frozenset({"high", "normal"}),
        "restricted_package_name": "text",
        "data": "map",
        "notification": ANDROID_NOTIFICATION,
        "fcm_options": {"analytics_label": "label"},
        "direct_boot_ok": "flag",
        "bandwidth_constrained_ok": "flag",
        "restricted_satellite_ok": "flag",
    },
    "apns": {
        "headers": "headers",
        "payload": "open",
        "fcm_options": {"analytics_label": "label", "image": "text"},
        "live_activity_token": "text",
    },
    "webpush": {
        "headers": "headers",
        "data": "map",
        "notification": "open",
        "fcm_options": {"link": "text", "analytics_label": "label"},
    },
}
#: Written anew on every try from what the notification has left to live.
TIMES = {("android", "ttl"), ("apns", "apns-expiration"), ("webpush", "ttl")}
#: Our own spelling of headers: whatever the case, it is the same header.
_HEADERS = {("webpush", "topic"): "Topic"}


def checked(platform: str, value: object, field: str) -> dict[str, Any]:
    """The override, its data made strings; :class:`InvalidNotification` names the first thing that is wrong."""
    override = _mapping(value, field)
    for key, content in override.items():
        if (platform, key) in TIMES:
            raise _timed(f"{field}.{key}", content)
    result: dict[str, Any] = _checked(platform, FIELDS[platform], override, field)
    payload = result.get("payload")
    if payload is not None and "aps" in payload:
        _mapping(payload["aps"], f"{field}.payload.aps")
    return result


def _checked(platform: str, kind: Kind, value: object, at: str) -> Any:
    if isinstance(kind, Mapping):
        mapping = _mapping(value, at)
        for key in mapping:
            if key not in kind:
                problem = f"is no field of FCM's {platform} message there; known: {', '.join(sorted(kind))}"
                raise InvalidNotification(f"{at}.{key}", problem, value=mapping[key])
        return {key: _checked(platform, kind[key], one, f"{at}.{key}") for key, one in mapping.items()}
    if isinstance(kind, frozenset):
        if not isinstance(value, str) or value not in kind:
            raise InvalidNotification(at, "must be " + " or ".join(f'"{word}"' for word in sorted(kind)), value=value)
        return value
    match kind:
        case "map":
            return flat_map(_mapping(value, at), at)
        case "headers":
            return _headers(platform, _mapping(value, at), at)
        case "open":
            return _mapping(value, at)
    wanted = _WANTED[kind]
    if not wanted.holds(value):
        raise InvalidNotification(at, f"must be {wanted.words}", value=value)
    return value


def _is_list(value: object, holds: Callable[[object], bool]) -> bool:
    return isinstance(value, list) and all(holds(one) for one in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_duration(value: object) -> bool:
    return isinstance(value, str) and _DURATION.fullmatch(value) is not None


@frozen
class _Wanted:
    words: str
    holds: Callable[[object], bool]


_WANTED = {
    "text": _Wanted("text", _is_text),
    "texts": _Wanted("a list of texts", lambda value: _is_list(value, _is_text)),
    "flag": _Wanted("true or false", lambda value: isinstance(value, bool)),
    "number": _Wanted("a number", _is_number),
    "whole": _Wanted(
        "a whole number, 0 or more",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31,
    ),
    "duration": _Wanted('seconds, "3.5s"', _is_duration),
    "durations": _Wanted('a list of seconds, ["3.5s"]', lambda value: _is_list(value, _is_duration)),
    "label": _Wanted(
        "1 to 50 of a-z A-Z 0-9 - _ . ~ %",
        lambda value: isinstance(value, str) and LABEL.fullmatch(value) is not None,
    ),
    "color": _Wanted('"#rrggbb"', lambda value: isinstance(value, str) and _COLOR.fullmatch(value) is not None),
}


def _headers(platform: str, headers: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Names as we write them, so that one of ours is replaced and not sent a second time: Apple's are in small
    letters."""
    found: dict[str, Any] = {}
    for name, value in headers.items():
        small = name.lower()
        if (platform, small) in TIMES:
            raise _timed(f"{at}.{name}", value)
        if not isinstance(value, str):
            raise InvalidNotification(f"{at}.{name}", "must be text; headers are", value=value)
        if small == "apns-collapse-id" and len(value.encode()) > APNS_COLLAPSE_BYTES:
            problem = f"is {len(value.encode())} bytes; Apple takes {APNS_COLLAPSE_BYTES}"
            raise InvalidNotification(f"{at}.{name}", problem, value=value)
        found[small if platform == "apns" else _HEADERS.get((platform, small), name)] = value
    return found


def _timed(at: str, value: object) -> InvalidNotification:
    return InvalidNotification(at, "is written afresh on every try; give the notification a ttl", value=value)


def _mapping(value: object, at: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidNotification(at, "must be a mapping", value=value)
    return dict(value)


def merged(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``override`` on top, mapping by mapping; everything else is replaced."""
    result = dict(base)
    for key, value in override.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result
