"""What a push holds, checked at enqueue: :func:`prepared` is the channel's ``prepare``."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from sendoff.plugin import InvalidNotification, Notification
from sendoff_fcm.address import address_problem
from sendoff_fcm.data import flat_map
from sendoff_fcm.message import PLATFORMS
from sendoff_fcm.overrides import LABEL, checked
from sendoff_fcm.size import fitted, worst_case

__all__ = ["prepared"]

#: The longest URL that every browser and proxy in use takes.
MAX_URL = 2048
MAX_NAME = 200
OPTIONS = ("image", "link", "badge", "sound", "android_channel", "analytics_label", *PLATFORMS)
NO_ROW = (
    "cannot be sent to: FCM's answer says nothing about any recipient, so no row could have a verdict; "
    "address the recipients"
)


def prepared(notification: Notification, channel: str, *, truncate: bool) -> dict[str, Any]:
    """The payload: ``title, body, data`` (strings), the options, those that are there.

    Without title and body it is a message for the app, which the system does not show. Pure;
    :class:`InvalidNotification` names the field, and the size in bytes where that is what is wrong.
    """
    texts = {"title": notification.title, "body": notification.body}
    content: dict[str, Any] = {name: text for name, text in texts.items() if text and text.strip()}
    if notification.data:
        content["data"] = flat_map(notification.data, "data")
    content.update(_options(notification.options.get(channel, {}), f"options.{channel}"))
    if not content.keys() & {"title", "body", "data", *PLATFORMS}:
        raise InvalidNotification("title", "is missing, and so are body and data; a push needs one", kind="nothing")
    _check_addresses(notification.addresses.get(channel, ()), f"addresses.{channel}")
    return fitted(content, worst_case(notification), truncate=truncate)


def _check_addresses(addresses: Sequence[str], field: str) -> None:
    for index, address in enumerate(addresses):
        problem = address_problem(address)
        if problem is not None:
            raise InvalidNotification(f"{field}[{index}]", problem, value=address)


def _options(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in options.items():
        field = f"{where}.{key}"
        match key:
            case "image":
                found[key] = _image(value, field)
            case "link":
                found[key] = _line(value, field, MAX_URL)
            case "sound" | "android_channel":
                found[key] = _line(value, field, MAX_NAME)
            case "badge":
                if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
                    raise InvalidNotification(field, "must be a whole number, 0 or more", value=value)
                found[key] = value
            case "analytics_label":
                if not isinstance(value, str) or not LABEL.fullmatch(value):
                    raise InvalidNotification(field, "must be 1 to 50 of a-z A-Z 0-9 - _ . ~ %", value=value)
                found[key] = value
            case "android" | "apns" | "webpush":
                found[key] = checked(key, value, field)
            case "topic" | "topics" | "condition":
                raise InvalidNotification(field, NO_ROW, value=value)
            case "ttl":
                raise InvalidNotification(field, "is the notification's own: Notification(ttl=...)", value=value)
            case "collapse_key":
                raise InvalidNotification(field, "is the notification's own: Notification(collapse_key=...)")
            case _:
                raise InvalidNotification(field, f"is no option of fcm; known: {', '.join(OPTIONS)}", value=value)
    return found


def _image(value: object, field: str) -> str:
    url = _line(value, field, MAX_URL)
    if not url.startswith("https://"):
        raise InvalidNotification(field, "must be an https:// URL; phones fetch nothing else", value=value)
    return url


def _line(value: object, field: str, limit: int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidNotification(field, "must be text with something in it", value=value)
    if any(unicodedata.category(char) in {"Cc", "Zl", "Zp"} for char in value):
        raise InvalidNotification(field, "has a line break or control character; remove it", value=value)
    if len(value) > limit:
        raise InvalidNotification(field, f"is {len(value)} characters; the limit is {limit}", value=value)
    return value
