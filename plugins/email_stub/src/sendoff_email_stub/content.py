"""What an e-mail needs of a notification, checked at enqueue: :func:`prepared` is the channel's ``prepare``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from sendoff.plugin import InvalidNotification, Notification
from sendoff_email_stub.address import MalformedAddress, parse_address
from sendoff_email_stub.headers import MAX_LINE, control_character

__all__ = ["prepared"]

OPTIONS = ("html", "reply_to", "from_name", "unsubscribe", "headers")
#: Structured headers that an application may set; their values are ASCII on one line. All else is ``X-...``, because
#: the other names address, route or describe the message, which is this channel's work.
STRUCTURED = {"in-reply-to", "references", "list-id", "list-help", "list-archive", "importance", "feedback-id"}
_EXTENSION = re.compile(r"x-(?!sendoff-)[a-z0-9-]+", re.IGNORECASE)
MAX_NAME = 40
MAX_HEADERS = 20


def prepared(notification: Notification, channel: str, *, max_bytes: int) -> dict[str, Any]:
    """The payload: ``subject, text, html, reply_to, from_name, unsubscribe, headers``, those that are there.

    Pure. :class:`InvalidNotification` names the field of what no server would take or no reader could show.
    """
    payload: dict[str, Any] = {}
    if notification.title is not None and notification.title.strip():
        payload["subject"] = _header(notification.title, "title")
    if notification.body is None or not notification.body.strip():
        raise InvalidNotification(
            "body", "is missing; it is the plain text of the e-mail, and html only comes beside it", kind="nothing"
        )
    payload["text"] = notification.body
    payload.update(_options(notification.options.get(channel, {}), f"options.{channel}"))
    size = sum(len(payload.get(part, "").encode()) for part in ("subject", "text", "html"))
    if size > max_bytes:
        raise InvalidNotification(
            "body",
            f"title, body and html are {size} bytes together; the limit of this channel is {max_bytes}",
            kind=f"{size} bytes",
        )
    return payload


def _options(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in options.items():
        field = f"{where}.{key}"
        match key:
            case "html":
                if not isinstance(value, str) or not value.strip():
                    raise InvalidNotification(field, "must be text with something in it", value=value)
                found[key] = value
            case "from_name":
                found[key] = _header(value, field)
            case "reply_to":
                found[key] = _address(value, field)
            case "unsubscribe":
                found[key] = _unsubscribe(value, field)
            case "headers":
                found[key] = _headers(value, field)
            case _:
                raise InvalidNotification(field, f"is no option of e-mail; known: {', '.join(OPTIONS)}", value=value)
    return found


def _header(value: object, field: str) -> str:
    """Text for one header line. A line end in it would begin a header of the sender's choosing."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidNotification(field, "must be text with something in it", value=value)
    position = control_character(value)
    if position is not None:
        raise InvalidNotification(
            field, f"has a line break or control character at position {position}; a header is one line", value=value
        )
    if len(value) > MAX_LINE:
        raise InvalidNotification(field, f"is {len(value)} characters; the limit is {MAX_LINE}", value=value)
    return value.strip()


def _address(value: object, field: str) -> str:
    try:
        parsed = parse_address(_header(value, field))
    except MalformedAddress as error:
        raise InvalidNotification(field, str(error), value=value) from None
    if parsed.internationalised:
        raise InvalidNotification(field, "has a local part outside ASCII, which few servers can answer", value=value)
    return str(parsed)


def _unsubscribe(value: object, field: str) -> str:
    """RFC 2369 section 3.2: a mailto or http URL; RFC 8058 adds the one click of https."""
    text = _structured(value, field)
    try:
        parts = urlsplit(text)
    except ValueError:
        raise InvalidNotification(field, "is not a URL", value=value) from None
    if not ((parts.scheme == "https" and parts.netloc) or (parts.scheme == "mailto" and parts.path)):
        raise InvalidNotification(field, "must be an https: or mailto: URL", value=value)
    if set(text) & set("<>, "):
        raise InvalidNotification(field, "has a blank, a comma or a bracket; write them as %20, %2C, %3C", value=value)
    return text


def _structured(value: object, field: str) -> str:
    text = _header(value, field)
    if not text.isascii():
        raise InvalidNotification(field, "must be ASCII", value=value)
    if len(text) > MAX_LINE - MAX_NAME - 10:
        raise InvalidNotification(field, f"is {len(text)} characters; it must fit in one line", value=value)
    return text


def _headers(value: object, field: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidNotification(field, 'must map names to text, {"X-Campaign": "spring"}', value=value)
    if len(value) > MAX_HEADERS:
        raise InvalidNotification(field, f"has {len(value)} headers; the limit is {MAX_HEADERS}", value=value)
    found: dict[str, str] = {}
    for name, text in value.items():
        at = f"{field}.{name}"
        if name.lower() in {other.lower() for other in found}:
            raise InvalidNotification(at, "is given twice", value=text)
        if name.lower() in STRUCTURED:
            found[name] = _structured(text, at)
        elif _EXTENSION.fullmatch(name) and len(name) <= MAX_NAME:
            found[name] = _header(text, at)
        else:
            known = ", ".join(sorted(STRUCTURED))
            raise InvalidNotification(
                at, f"is not a header to set here; names are X-... (not X-Sendoff-...), or one of {known}", value=text
            )
    return found
