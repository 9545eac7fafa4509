"""How big a message is for FCM, and how to make it smaller. Bytes of UTF-8 throughout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sendoff.plugin import InvalidNotification, Notification, Priority
from sendoff_fcm.message import MAX_TTL, PLATFORMS, Facts, outline

__all__ = ["LIMIT", "cut", "fitted", "measured", "worst_case"]

#: FCM: "4096 bytes for most messages ... this includes both the keys and the values".
LIMIT = 4096
UUID_LENGTH = 36
#: An idempotency key is the row's id, after a requeue with the number of requeues behind it.
LONGEST_IDEMPOTENCY_KEY = UUID_LENGTH + len("-2147483647")
#: Bytes that stay of a body whose title is cut as well.
LEAST_BODY = 200
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def worst_case(notification: Notification) -> Facts:
    """The longest that the row's own parts can become, known before there is a row."""
    return Facts(
        collapse_key=notification.collapse_key or "k" * LONGEST_IDEMPOTENCY_KEY,
        notification_id="n" * UUID_LENGTH,
        outgoing_id="o" * UUID_LENGTH,
        priority=Priority.URGENT,
        ttl=MAX_TTL,
        expires=9_999_999_999,
    )


def measured(content: Mapping[str, Any], facts: Facts) -> int:
    """Bytes of keys and values, as one device gets them: what all share, and the largest platform's own part.

    Headers and options are counted too, though FCM may not: better to refuse a message that is a few bytes short of
    the limit here than to have it refused by FCM at night.
    """
    message = outline(content, facts)
    return _bytes(message.get("notification")) + max(_of_platform(message, platform) for platform in PLATFORMS)


def _of_platform(message: Mapping[str, Any], platform: str) -> int:
    own = message.get(platform, {})
    # Data of its own is sent instead of the common data.
    return _bytes(own) + (0 if "data" in own else _bytes(message.get("data")))


def _bytes(tree: object) -> int:
    match tree:
        case None:
            return 0
        case str():
            return len(tree.encode())
        case Mapping():
            return sum(len(str(key).encode()) + _bytes(value) for key, value in tree.items())
        case list():
            return sum(_bytes(value) for value in tree)
        case _:
            return len(str(tree))


def fitted(content: dict[str, Any], facts: Facts, *, truncate: bool) -> dict[str, Any]:
    """The content when it fits; with ``truncate``, with its body cut so that it does, and where that is not enough its
    title.

    :class:`InvalidNotification` has the size, and names the field that makes the most of it.
    """
    size = measured(content, facts)
    if size <= LIMIT:
        return content
    shorter = _shortened(content, size - LIMIT) if truncate else None
    if shorter is not None:
        return shorter
    parts = {name: _bytes(content.get(name)) for name in ("title", "body", "data", *PLATFORMS)}
    largest = max(parts, key=lambda name: parts[name])
    raise InvalidNotification(
        largest,
        f"makes the push {size} bytes of keys and values in UTF-8; FCM's limit is {LIMIT} (ids and collapse key count)"
        + ("; cutting the text is not enough" if truncate else '; overflow = "truncate" would cut its text'),
        kind=f"{parts[largest]} bytes",
    )


def _shortened(content: dict[str, Any], excess: int) -> dict[str, Any] | None:
    """``excess`` bytes shorter: its body, else its title, else both; None where that is not enough."""
    body, title = _cut_by(content, "body", excess), _cut_by(content, "title", excess)
    if body is not None or title is not None:
        return body or title
    spare = _bytes(content.get("body")) - LEAST_BODY
    both = _cut_by(content, "body", spare) if spare > 0 else None
    if both is None:
        return None
    return _cut_by(both, "title", excess - (_bytes(content["body"]) - _bytes(both["body"])))


def _cut_by(content: dict[str, Any], field: str, excess: int) -> dict[str, Any] | None:
    text: str = content.get(field, "")
    shorter = cut(text, len(text.encode()) - excess) if text else None
    return None if shorter is None else {**content, field: shorter}


def cut(text: str, limit: int) -> str | None:
    """The longest beginning of ``text`` that, with an ellipsis, has at most ``limit`` bytes.

    It ends between two of what a reader takes for characters (extended grapheme clusters, Unicode annex 29): no half
    flag, no letter without its accent. None where not even one fits.
    """
    if len(text.encode()) <= limit:
        return text
    # Only needed for what is too long.
    import regex  # type: ignore[import-untyped]  # it comes without types

    room = limit - len(ELLIPSIS.encode())
    end = 0
    for match in regex.finditer(r"\X", text):
        room -= len(match.group().encode())
        if room < 0:
            break
        end = match.end()
    return text[:end].rstrip() + ELLIPSIS if text[:end].rstrip() else None
