"""What an inbox entry holds, checked at enqueue: :func:`prepared` is the channel's ``prepare``."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

import orjson

from sendoff.plugin import InvalidNotification, Notification

__all__ = ["MAX_BYTES", "prepared"]

#: Bytes of the payload as JSON: a feed reads dozens of entries at a time.
MAX_BYTES = 64 * 1024
#: The longest URL that every browser and proxy in use takes.
MAX_URL = 2048
MAX_LABEL = 200
MAX_ACTIONS = 5
OPTIONS = ("link", "icon", "image", "actions")
ACTION = ("label", "link")
#: Schemes that run or embed what they are given: a feed that renders one as a link runs it as its own page.
REFUSED_SCHEMES = {"javascript", "vbscript", "data", "blob", "file"}


def prepared(notification: Notification, channel: str) -> dict[str, Any]:
    """The payload: ``title, body, data, link, options`` (``icon, image, actions``), those that are there.

    Pure. :class:`InvalidNotification` names the field.
    """
    texts = {"title": notification.title, "body": notification.body}
    payload: dict[str, Any] = {name: content for name, content in texts.items() if content and content.strip()}
    if not payload:
        raise InvalidNotification("title", "is missing, and so is the body; an inbox entry needs one", kind="nothing")
    if notification.data:
        payload["data"] = dict(notification.data)
    options = _options(notification.options.get(channel, {}), f"options.{channel}")
    if "link" in options:
        payload["link"] = options.pop("link")
    if options:
        payload["options"] = options
    size = len(orjson.dumps(payload))
    if size > MAX_BYTES:
        raise InvalidNotification(
            max(payload, key=lambda name: len(orjson.dumps(payload[name]))),
            f"makes the inbox entry {size} bytes of JSON; the limit is {MAX_BYTES}",
            kind=f"{size} bytes",
        )
    return payload


def _options(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in options.items():
        field = f"{where}.{key}"
        match key:
            case "link" | "icon" | "image":
                # An icon may also be the name of one of the client's own.
                found[key] = _link(value, field)
            case "actions":
                found[key] = _actions(value, field)
            case _:
                raise InvalidNotification(field, f"is no option of inbox; known: {', '.join(OPTIONS)}", value=value)
    return found


def _actions(value: object, field: str) -> list[dict[str, str]]:
    if not isinstance(value, list):
        raise InvalidNotification(field, 'must be a list, [{"label": "Pay", "link": "/pay/17"}]', value=value)
    if not 1 <= len(value) <= MAX_ACTIONS:
        raise InvalidNotification(field, f"has {len(value)} actions; give 1 to {MAX_ACTIONS}", value=value)
    return [_action(action, f"{field}[{index}]") for index, action in enumerate(value)]


def _action(value: object, field: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidNotification(field, 'must be {"label": ..., "link": ...}', value=value)
    for key in value:
        if key not in ACTION:
            raise InvalidNotification(
                f"{field}.{key}", f"is no part of an action; known: {', '.join(ACTION)}", value=value[key]
            )
    return {
        "label": _line(value.get("label"), f"{field}.label", MAX_LABEL),
        "link": _link(value.get("link"), f"{field}.link"),
    }


def _link(value: object, field: str) -> str:
    """A path (``/orders/17``), a URL, or an app's own scheme (``shop://orders/17``)."""
    link = _line(value, field, MAX_URL)
    if not all(char.isprintable() and char != " " for char in link):
        raise InvalidNotification(field, "has a blank or an invisible character; write %20", value=value)
    if link.startswith(("//", "/\\", "\\")):
        raise InvalidNotification(
            field, "begins with two slashes, which leads to another host; write https://", value=value
        )
    scheme, colon, _ = link.partition(":")
    if colon and scheme.lower() in REFUSED_SCHEMES:
        raise InvalidNotification(
            field, f"is a {scheme.lower()}: link, which a client would run; use https: or a path", value=value
        )
    return link


def _line(value: object, field: str, limit: int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidNotification(field, "must be text with something in it", value=value)
    # Browsers drop tabs and line ends from a URL before they look at its scheme.
    if any(unicodedata.category(char) in {"Cc", "Zl", "Zp"} for char in value):
        raise InvalidNotification(field, "has a line break or control character; remove it", value=value)
    if len(value) > limit:
        raise InvalidNotification(field, f"is {len(value)} characters; the limit is {limit}", value=value)
    return value
