"""``data`` as FCM takes it: one flat map of strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from sendoff.plugin import InvalidNotification

__all__ = ["NOTIFICATION_ID", "OUTGOING_ID", "flat_map"]

#: Always there, so that the client can say which message it received, opened or read.
NOTIFICATION_ID = "notification_id"
OUTGOING_ID = "outgoing_id"
#: FCM's own keys; it refuses a message with one of them, or overwrites its value.
RESERVED = {"from", "message_type", "collapse_key"}
RESERVED_PREFIXES = ("google.", "gcm.")


def flat_map(data: Mapping[str, Any], field: str) -> dict[str, str]:
    """Strings stay as they are, everything else is compact JSON: ``true``, ``21465``, ``{}``.

    Raises :class:`InvalidNotification` for keys that FCM or this channel keeps for itself.
    """
    flat: dict[str, str] = {}
    for key, value in data.items():
        if key in RESERVED or key.startswith(RESERVED_PREFIXES):
            raise InvalidNotification(f"{field}.{key}", "is a key that FCM keeps for itself; rename it", value=value)
        if key in {NOTIFICATION_ID, OUTGOING_ID}:
            raise InvalidNotification(f"{field}.{key}", "is always set by this channel; rename yours", value=value)
        flat[key] = value if isinstance(value, str) else orjson.dumps(value).decode()
    return flat
