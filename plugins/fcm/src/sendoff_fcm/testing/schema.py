"""The fields of a message and their types: https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages

Names are as the reference writes them in snake case; :func:`snake` brings the camel case that the API takes as well
to the same. ``apns.payload`` and ``webpush.notification`` are free-form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["REQUEST", "TARGETS", "Kind", "snake"]

#: string, bool, int, number, strings (a list), map (strings by name), struct (any object), duration ("3.5s"),
#: durations, label (an analytics label), enum (a name, any case), object of fields.
Kind = str | Mapping[str, "Kind"]

TARGETS: Final = ("token", "fid", "topic", "condition")

_FCM_OPTIONS: Final[Mapping[str, Kind]] = {"analytics_label": "label"}

_ANDROID_NOTIFICATION: Final[Mapping[str, Kind]] = {
    "title": "string",
    "body": "string",
    "icon": "string",
    "color": "string",
    "sound": "string",
    "tag": "string",
    "click_action": "string",
    "body_loc_key": "string",
    "body_loc_args": "strings",
    "title_loc_key": "string",
    "title_loc_args": "strings",
    "channel_id": "string",
    "ticker": "string",
    "sticky": "bool",
    "event_time": "string",
    "local_only": "bool",
    "notification_priority": "enum",
    "default_sound": "bool",
    "default_vibrate_timings": "bool",
    "default_light_settings": "bool",
    "vibrate_timings": "durations",
    "visibility": "enum",
    "notification_count": "int",
    "light_settings": {
        "color": {"red": "number", "green": "number", "blue": "number", "alpha": "number"},
        "light_on_duration": "duration",
        "light_off_duration": "duration",
    },
    "image": "string",
    "bypass_proxy_notification": "bool",
    "proxy": "enum",
}

_MESSAGE: Final[Mapping[str, Kind]] = {
    "name": "string",
    "token": "string",
    "fid": "string",
    "topic": "string",
    "condition": "string",
    "data": "map",
    "notification": {"title": "string", "body": "string", "image": "string"},
    "android": {
        "collapse_key": "string",
        "priority": "enum",
        "ttl": "duration",
        "restricted_package_name": "string",
        "data": "map",
        "notification": _ANDROID_NOTIFICATION,
        "fcm_options": _FCM_OPTIONS,
        "direct_boot_ok": "bool",
        "bandwidth_constrained_ok": "bool",
        "restricted_satellite_ok": "bool",
    },
    "webpush": {
        "headers": "map",
        "data": "map",
        "notification": "struct",
        "fcm_options": {"link": "string", "analytics_label": "label"},
    },
    "apns": {
        "headers": "map",
        "payload": "struct",
        "fcm_options": {"analytics_label": "label", "image": "string"},
        "live_activity_token": "string",
    },
    "fcm_options": _FCM_OPTIONS,
}

#: The body of ``messages:send``.
REQUEST: Final[Mapping[str, Kind]] = {"validate_only": "bool", "message": _MESSAGE}

_HUMP: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


def snake(name: str) -> str:
    """``collapseKey`` as ``collapse_key``."""
    return _HUMP.sub(lambda hump: "_" + hump.group(1).lower(), name)
