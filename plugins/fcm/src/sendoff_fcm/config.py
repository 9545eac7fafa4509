"""The settings of one push channel: ``[channels.NAME]`` with ``plugin = "fcm"``."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

import attrs
from attrs import field, frozen

from sendoff.plugin import Secret

__all__ = ["GOOGLE", "FcmConfig"]

GOOGLE = "https://fcm.googleapis.com"
#: FCM's documentation asks for at least ten seconds: shorter ones give up on messages that are accepted.
SHORTEST_TIMEOUT = 10.0


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _an_endpoint(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    parts = urlsplit(value)
    if parts.scheme not in {"https", "http"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{attribute.name} must be a URL such as {GOOGLE}")
    if parts.scheme == "http" and not _loopback(parts.hostname):
        # Every request carries an access token to the whole project.
        raise ValueError(f"{attribute.name} may be http:// on this machine only; write https://")


def _at_least(least: float) -> Any:
    def check(_: Any, attribute: attrs.Attribute[float], value: float) -> None:
        if not value >= least:
            raise ValueError(f"{attribute.name} must be at least {least:g} (got {value:g})")

    return check


def _seconds(value: timedelta | float) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


@frozen(kw_only=True)
class FcmConfig:
    """See the README for what each is for. Seconds where a duration is meant."""

    #: The service account: ``{file = "path"}``, ``{env = "NAME"}`` with its JSON or the path of its file, or the path
    #: as plain text. None: application default credentials.
    credentials: Secret | None = None
    #: None: the service account's own, or what the environment says (``GOOGLE_CLOUD_PROJECT``).
    project_id: str | None = None
    endpoint: str = field(default=GOOGLE, validator=_an_endpoint)
    #: Whether one accepting device makes the row sent, or every one has to.
    success: Literal["any", "all"] = "any"
    #: What becomes of content that is too long: refused at enqueue, or its body (or title) cut.
    overflow: Literal["refuse", "truncate"] = "refuse"
    #: Ask FCM to check every message and deliver none.
    dry_run: bool = False
    #: Only devices registered for this app; None: all of a recipient's.
    app: str | None = None
    #: Connections per worker. With HTTP/2 each carries 90 requests at once, without one.
    connections: int = field(default=2, validator=_at_least(1))
    http2: bool = True
    #: How long one request may take, at most what the delivery has left.
    timeout: float = field(default=15.0, converter=_seconds, validator=_at_least(SHORTEST_TIMEOUT))
    #: How long the token endpoint may take.
    token_timeout: float = field(default=10.0, converter=_seconds, validator=_at_least(0.1))
    #: Dead tokens in a row, no success between, that are an outage.
    dead_limit: int = field(default=100, validator=_at_least(2))
