"""The message of FCM's v1 API (`projects.messages`) for one row, but for the device it goes to.

:func:`build` makes it with the SDK's own model, which checks it once more. :func:`outline` is the same message without
the SDK, for measuring at enqueue in a process that has no Firebase; a test holds the two equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
from attrs import frozen

from sendoff.plugin import Priority
from sendoff_fcm.data import NOTIFICATION_ID, OUTGOING_ID
from sendoff_fcm.overrides import APNS_COLLAPSE_BYTES, merged

if TYPE_CHECKING:
    from firebase_admin import messaging  # type: ignore[import-untyped]  # the SDK has no types

__all__ = ["MAX_TTL", "PLATFORMS", "Facts", "apns_collapse_id", "build", "outline", "webpush_topic"]

PLATFORMS = ("android", "apns", "webpush")
#: Seconds; FCM keeps nothing for longer than four weeks.
MAX_TTL = 2_419_200
#: RFC 8030 section 5.4: at most 32 characters of the URL-safe base64 alphabet.
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,32}")


@frozen
class Facts:
    """What the row adds to its content. ``ttl``: seconds to its expiry, at most :data:`MAX_TTL`, None for no expiry.
    ``expires``: the same moment in seconds since 1970, "0" meaning now or never."""

    collapse_key: str
    notification_id: str
    outgoing_id: str
    priority: Priority = Priority.NORMAL
    ttl: int | None = None
    expires: int | None = None


def apns_collapse_id(key: str) -> str:
    """The key itself where Apple takes it, else its hash: the same on every try."""
    if key.isascii() and key.isprintable() and len(key) <= APNS_COLLAPSE_BYTES:
        return key
    return sha256(key.encode()).hexdigest()


def webpush_topic(key: str) -> str:
    """The key itself where push services take it, else a part of its hash: the same on every try."""
    return key if _TOPIC.fullmatch(key) else sha256(key.encode()).hexdigest()[:32]


def _is_visible(content: Mapping[str, Any]) -> bool:
    """Whether the system shows something; else the message is data for the app."""
    return "title" in content or "body" in content


def _data(content: Mapping[str, Any], facts: Facts) -> dict[str, str]:
    link = {"link": content["link"]} if "link" in content else {}
    ids = {NOTIFICATION_ID: facts.notification_id, OUTGOING_ID: facts.outgoing_id}
    return {**link, **content.get("data", {}), **ids}


def _android_priority(facts: Facts) -> str:
    return "normal" if facts.priority is Priority.BULK else "high"


def _apns_headers(content: Mapping[str, Any], facts: Facts) -> dict[str, str]:
    # 5 is the only priority Apple takes for what it does not show.
    relaxed = facts.priority is Priority.BULK or not _is_visible(content)
    headers = {"apns-collapse-id": apns_collapse_id(facts.collapse_key), "apns-priority": "5" if relaxed else "10"}
    if facts.expires is not None:
        headers["apns-expiration"] = str(facts.expires)
    return headers


def _webpush_headers(facts: Facts) -> dict[str, str]:
    headers = {"Topic": webpush_topic(facts.collapse_key)}
    if facts.ttl is not None:
        headers["TTL"] = str(facts.ttl)
    return headers


def _webpush_link(content: Mapping[str, Any]) -> str | None:
    """FCM opens https links only; any other is for the app, which finds it in the data."""
    link: str | None = content.get("link")
    return link if link is not None and link.startswith("https://") else None


# ------------------------------------------------------------------------------------------------------ with the SDK


def build(content: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """The JSON of the ``message`` object without its target. :class:`ValueError` where the SDK refuses it."""
    from firebase_admin import messaging

    visible = _is_visible(content)
    label = content.get("analytics_label")
    message = messaging.Message(
        # A target is needed, and `token` would warn: the SDK is moving to installation ids. The device's own follows.
        fid="-",
        data=_data(content, facts),
        notification=messaging.Notification(
            title=content.get("title"), body=content.get("body"), image=content.get("image")
        )
        if visible
        else None,
        android=messaging.AndroidConfig(
            collapse_key=facts.collapse_key,
            priority=_android_priority(facts),
            ttl=None if facts.ttl is None else timedelta(seconds=facts.ttl),
            notification=messaging.AndroidNotification(
                tag=facts.collapse_key,
                sound=content.get("sound"),
                channel_id=content.get("android_channel"),
                notification_count=content.get("badge"),
            )
            if visible
            else None,
        ),
        apns=_apns(messaging, content, facts, visible=visible),
        webpush=messaging.WebpushConfig(
            headers=_webpush_headers(facts),
            notification=messaging.WebpushNotification(tag=facts.collapse_key) if visible else None,
            fcm_options=messaging.WebpushFCMOptions(link=_webpush_link(content)) if _webpush_link(content) else None,
        ),
        fcm_options=messaging.FCMOptions(analytics_label=label) if label else None,
    )
    made: dict[str, Any] = orjson.loads(str(message))
    del made["fid"]
    return _with_overrides(made, content)


def _apns(sdk: Any, content: Mapping[str, Any], facts: Facts, *, visible: bool) -> messaging.APNSConfig:
    image = content.get("image")
    aps = sdk.Aps(
        badge=content.get("badge"),
        sound=content.get("sound"),
        content_available=None if visible else True,
        # The app's extension needs it to fetch the image.
        mutable_content=True if image and visible else None,
    )
    return sdk.APNSConfig(
        headers=_apns_headers(content, facts),
        payload=sdk.APNSPayload(aps),
        fcm_options=sdk.APNSFCMOptions(image=image) if image and visible else None,
    )


# --------------------------------------------------------------------------------------------------- without the SDK


def outline(content: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """What :func:`build` makes of content that it does not refuse."""
    visible = _is_visible(content)
    image = content.get("image") if visible else None
    android: dict[str, Any] = {
        "collapse_key": facts.collapse_key,
        "priority": _android_priority(facts),
        "ttl": None if facts.ttl is None else f"{facts.ttl}s",
    }
    if visible:
        android["notification"] = {
            "tag": facts.collapse_key,
            "sound": content.get("sound"),
            "channel_id": content.get("android_channel"),
            "notification_count": content.get("badge"),
        }
    aps = {
        "badge": content.get("badge"),
        "sound": content.get("sound"),
        "content-available": None if visible else 1,
        "mutable-content": 1 if image else None,
    }
    made = {
        "data": _data(content, facts),
        "notification": {key: content.get(key) for key in ("title", "body", "image")} if visible else None,
        "android": android,
        "apns": {
            "headers": _apns_headers(content, facts),
            "payload": {"aps": aps},
            "fcm_options": {"image": image},
        },
        "webpush": {
            "headers": _webpush_headers(facts),
            "notification": {"tag": facts.collapse_key} if visible else None,
            "fcm_options": {"link": _webpush_link(content)},
        },
        "fcm_options": {"analytics_label": content.get("analytics_label")},
    }
    return _with_overrides(_without_nothing(made), content)


def _without_nothing(tree: Mapping[str, Any]) -> dict[str, Any]:
    """As the SDK does: no null, no empty mapping. Texts, also empty ones, stay."""
    pruned = {key: _without_nothing(one) if isinstance(one, Mapping) else one for key, one in tree.items()}
    return {key: one for key, one in pruned.items() if one is not None and one != {}}


def _with_overrides(message: dict[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    given = {platform: content[platform] for platform in PLATFORMS if platform in content}
    for platform, override in given.items():
        if "data" in override:
            # A platform's own data is sent instead of the common data: what lies on top has ours below it.
            given[platform] = {**override, "data": {**message["data"], **override["data"]}}
    return merged(message, given) if given else message
