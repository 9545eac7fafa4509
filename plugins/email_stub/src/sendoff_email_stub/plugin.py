"""The entry point: e-mail channels that write ``.eml`` files into a maildir.

::

    [channels.email]                                # found without any section as well
    directory = "outbox/email"                      # a maildir; default: outbox/<channel name>
    from_address = "notifications@example.org"
    from_name = "Example Shop"
    max_bytes = 1000000                             # of title, body and html together
    rules = [{match = "*@bounce.example", verdict = "permanent"}]   # sendoff.plugin.rehearsal

A second instance is another section with ``plugin = "email_stub"``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from sendoff.plugin import Channel, Context, Delivery, Notification, Sent, hookimpl
from sendoff.plugin.rehearsal import RehearsalChannel, RehearsalConfig
from sendoff_email_stub.address import Address, MalformedAddress, parse_address
from sendoff_email_stub.content import prepared
from sendoff_email_stub.headers import control_character
from sendoff_email_stub.maildir import deliver, make_maildir
from sendoff_email_stub.message import Sender, build, message_id

__all__ = ["EmailStubChannel", "EmailStubConfig", "sendoff_channels"]

PLUGIN = "email_stub"
DEFAULT_NAME = "email"


def _an_address(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    try:
        address = parse_address(value)
    except MalformedAddress as error:
        raise ValueError(f"{attribute.name}: {error}") from None
    if address.internationalised:
        raise ValueError(f"{attribute.name}: a sender's local part must be ASCII, or few could answer")


def _one_line(_: Any, attribute: attrs.Attribute[str | None], value: str | None) -> None:
    if value is not None and (not value.strip() or control_character(value) is not None):
        raise ValueError(f"{attribute.name} must be one line with something in it")


def _positive(_: Any, attribute: attrs.Attribute[int], value: int) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} must be above 0 (got {value})")


@frozen(kw_only=True)
class EmailStubConfig(RehearsalConfig):
    """``[channels.NAME]`` of an e-mail stub, on top of what every stub has (``rules``, ``latency``, ``seed``)."""

    directory: Path | None = None
    from_address: str = field(default="notifications@example.org", validator=_an_address)
    from_name: str | None = field(default=None, validator=_one_line)
    max_bytes: int = field(default=1_000_000, validator=_positive)


class EmailStubChannel(RehearsalChannel):
    """Writes one message per address into a maildir. See :mod:`sendoff_email_stub.message` for the message."""

    def __init__(self, name: str, config: EmailStubConfig) -> None:
        super().__init__(name, config)
        self.directory = config.directory or Path("outbox") / name
        self._max_bytes = config.max_bytes
        self._sender = Sender(parse_address(config.from_address), config.from_name)

    def prepare(self, notification: Notification) -> dict[str, Any]:
        """Title to Subject, body to plain text, ``options.<name>`` to the rest; see :func:`.content.prepared`."""
        return prepared(notification, self.name, max_bytes=self._max_bytes)

    def problem(self, address: str) -> str | None:
        """Only the form: nobody is asked whether the mailbox exists."""
        try:
            parse_address(address)
        except MalformedAddress as error:
            return str(error)
        return None

    def write(self, delivery: Delivery, address: str) -> Sent:
        """One file in ``new``; its name begins with the outgoing id and the number of the try."""
        to: Address = parse_address(address)
        name = deliver(self.directory, f"{delivery.id}.{delivery.attempt}", build(delivery, to, self._sender))
        return Sent(provider_ref=message_id(delivery, to, self._sender), details={"file": name})

    def check(self) -> str | None:
        """Whether the maildir can be made and written to."""
        try:
            make_maildir(self.directory)
        except OSError as error:
            return f"the maildir {self.directory} cannot be made: {error.strerror}"
        if not os.access(self.directory / "tmp", os.W_OK):
            return f"the maildir {self.directory} cannot be written to"
        return None


@hookimpl
def sendoff_channels(context: Context) -> list[Channel]:
    """One channel for each section with ``plugin = "email_stub"``; without any, one called ``email``."""
    return [
        EmailStubChannel(name, context.config(f"channels.{name}", EmailStubConfig))
        for name in context.instances(PLUGIN, default=DEFAULT_NAME)
    ]
