"""Raw additions to a message: ``options.<channel>.android``, ``.apns`` and ``.webpush``, as FCM's REST reference names
them (`projects.messages`). Checked at enqueue, so that a misspelt field fails in the caller's hands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sendoff.plugin import InvalidNotification
from sendoff_fcm.data import flat_map

__all__ = ["checked", "merged"]

#: The fields of AndroidConfig, ApnsConfig and WebpushConfig.
FIELDS: dict[str, set[str]] = {
    "android": {
        "collapse_key",
        "priority",
        "restricted_package_name",
        "data",
        "notification",
        "fcm_options",
        "direct_boot_ok",
        "bandwidth_constrained_ok",
        "restricted_satellite_ok",
    },
    "apns": {"headers", "payload", "fcm_options", "live_activity_token"},
    "webpush": {"headers", "data", "notification", "fcm_options"},
}
#: The fields of AndroidNotification. The other platforms' notifications are open: they are Apple's and the browsers'.
ANDROID_NOTIFICATION = {
    "title",
    "body",
    "icon",
    "color",
    "sound",
    "tag",
    "click_action",
    "body_loc_key",
    "body_loc_args",
    "title_loc_key",
    "title_loc_args",
    "channel_id",
    "ticker",
    "sticky",
    "event_time",
    "local_only",
    "notification_priority",
    "default_sound",
    "default_vibrate_timings",
    "default_light_settings",
    "vibrate_timings",
    "visibility",
    "notification_count",
    "light_settings",
    "image",
    "bypass_proxy_notification",
    "proxy",
}
#: Written anew on every try from what the notification has left to live.
TIMES = {("android", "ttl"), ("apns", "apns-expiration"), ("webpush", "ttl")}
MAPPINGS = {"headers", "data", "notification", "fcm_options", "payload"}


def checked(platform: str, value: object, field: str) -> dict[str, Any]:
    """The override, its data made strings; :class:`InvalidNotification` names the first thing that is wrong."""
    override = _mapping(value, field)
    known = FIELDS[platform]
    result: dict[str, Any] = {}
    for key, content in override.items():
        at = f"{field}.{key}"
        if (platform, key) in TIMES:
            raise _timed(at, content)
        if key not in known:
            names = ", ".join(sorted(known))
            raise InvalidNotification(at, f"is no field of FCM's {platform} message; known: {names}", value=content)
        result[key] = _content(platform, key, content, at)
    return result


def _content(platform: str, key: str, content: object, at: str) -> Any:
    if key not in MAPPINGS:
        if platform == "android" and key == "priority" and content not in {"high", "normal"}:
            raise InvalidNotification(at, 'must be "high" or "normal"', value=content)
        wanted = bool if key.endswith("_ok") else str
        if not isinstance(content, wanted):
            what = "true or false" if wanted is bool else "text"
            raise InvalidNotification(at, f"must be {what}", value=content)
        return content
    mapping = _mapping(content, at)
    if key == "data":
        return flat_map(mapping, at)
    if key == "headers":
        return _headers(platform, mapping, at)
    if key == "payload" and "aps" in mapping:
        _mapping(mapping["aps"], f"{at}.aps")
    if platform == "android" and key == "notification":
        for name in mapping:
            if name not in ANDROID_NOTIFICATION:
                raise InvalidNotification(
                    f"{at}.{name}", "is no field of FCM's AndroidNotification", value=mapping[name]
                )
    return mapping


def _headers(platform: str, headers: Mapping[str, Any], at: str) -> dict[str, Any]:
    for name, value in headers.items():
        if (platform, name.lower()) in TIMES:
            raise _timed(f"{at}.{name}", value)
        if not isinstance(value, str):
            raise InvalidNotification(f"{at}.{name}", "must be text; headers are", value=value)
    return dict(headers)


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
