"""The entry point: SMS channels that append JSON lines to a file.

::

    [channels.sms]                                  # found without any section as well
    file = "outbox/sms.jsonl"                       # default: outbox/<channel name>.jsonl
    max_segments = 10
    rules = [{match = "+4915*", verdict = "retryable", share = 0.1}]    # sendoff.plugin.rehearsal

A second instance is another section with ``plugin = "sms_stub"``. A line has ``to, text, encoding`` (``GSM-7`` or
``UCS-2``), ``segments`` (their number), ``idempotency_key, outgoing_id, attempt``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from sendoff.plugin import Channel, Context, Delivery, InvalidNotification, Notification, Sent, hookimpl
from sendoff.plugin.rehearsal import RehearsalChannel, RehearsalConfig
from sendoff_sms_stub.lines import append
from sendoff_sms_stub.segments import CAPACITY, encode

__all__ = ["SmsStubChannel", "SmsStubConfig", "sendoff_channels"]

PLUGIN = "sms_stub"
DEFAULT_NAME = "sms"
#: ITU-T E.164 section 6: a plus, a country code that does not begin with 0, at most 15 digits. The shortest numbers in
#: use, with their country code, have 7.
_E164 = re.compile(r"\+[1-9][0-9]{6,14}")


def _positive(_: Any, attribute: attrs.Attribute[int], value: int) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} must be above 0 (got {value})")


@frozen(kw_only=True)
class SmsStubConfig(RehearsalConfig):
    """``[channels.NAME]`` of an SMS stub, on top of what every stub has (``rules``, ``latency``, ``seed``)."""

    file: Path | None = None
    max_segments: int = field(default=10, validator=_positive)


class SmsStubChannel(RehearsalChannel):
    """Appends one JSON line per address."""

    def __init__(self, name: str, config: SmsStubConfig) -> None:
        super().__init__(name, config)
        self.file = config.file or Path("outbox") / f"{name}.jsonl"
        self._max_segments = config.max_segments

    def prepare(self, notification: Notification) -> dict[str, Any]:
        """``text, encoding, segments``: the text is ``options.<name>.text``, else the body, else the title.

        :class:`InvalidNotification` without any text, or where it takes more than ``max_segments``.
        """
        field_name, text = self._text(notification)
        sms = encode(text)
        if len(sms.segments) > self._max_segments:
            alone, joined = CAPACITY[sms.encoding]
            unit = "septets" if sms.encoding == "GSM-7" else "UTF-16 units"
            raise InvalidNotification(
                field_name,
                f"needs {len(sms.segments)} SMS segments in {sms.encoding} ({alone} {unit} alone, {joined} in each of "
                f"several); the limit of this channel is {self._max_segments}",
                kind=f"{len(text)} characters",
            )
        return {"text": text, "encoding": sms.encoding, "segments": len(sms.segments)}

    def _text(self, notification: Notification) -> tuple[str, str]:
        where = f"options.{self.name}"
        options = notification.options.get(self.name, {})
        for key, value in options.items():
            if key != "text":
                raise InvalidNotification(f"{where}.{key}", "is no option of SMS; known: text", value=value)
            if not isinstance(value, str) or not value.strip():
                raise InvalidNotification(f"{where}.text", "must be text with something in it", value=value)
        if "text" in options:
            return f"{where}.text", options["text"]
        for name, content in (("body", notification.body), ("title", notification.title)):
            if content is not None and content.strip():
                return name, content
        raise InvalidNotification("body", "is missing, and so is the title: an SMS needs a text", kind="nothing")

    def problem(self, address: str) -> str | None:
        """E.164 to the letter, as providers take it: no blanks, no dashes, no 00."""
        if _E164.fullmatch(address):
            return None
        return "malformed number: E.164 is a plus and 7 to 15 digits, the first not 0"

    def write(self, delivery: Delivery, address: str) -> Sent:
        """One line."""
        payload = delivery.payload
        append(
            self.file,
            {
                "to": address,
                "text": payload["text"],
                "encoding": payload["encoding"],
                "segments": payload["segments"],
                "idempotency_key": delivery.idempotency_key,
                "outgoing_id": str(delivery.id),
                "attempt": delivery.attempt,
            },
        )
        return Sent(details={"segments": payload["segments"]})

    def check(self) -> str | None:
        """Whether the file can be made and appended to."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"the folder of {self.file} cannot be made: {error.strerror}"
        target = self.file if self.file.exists() else self.file.parent
        return None if os.access(target, os.W_OK) else f"{self.file} cannot be written to"


@hookimpl
def sendoff_channels(context: Context) -> list[Channel]:
    """One channel for each section with ``plugin = "sms_stub"``; without any, one called ``sms``."""
    return [
        SmsStubChannel(name, context.config(f"channels.{name}", SmsStubConfig))
        for name in context.instances(PLUGIN, default=DEFAULT_NAME)
    ]
