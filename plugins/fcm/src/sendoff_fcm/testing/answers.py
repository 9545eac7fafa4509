"""What the local FCM sends back: :class:`Answer`, and :class:`Fault` for what goes wrong on the way."""

from __future__ import annotations

import base64
import enum
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from attrs import evolve, field, frozen

__all__ = ["Answer", "Fault", "error", "html", "json_answer"]

JSON: Final = "application/json; charset=UTF-8"
HTML: Final = "text/html; charset=UTF-8"


class Fault(enum.StrEnum):
    """What happens to the connection instead of, or in the middle of, an answer.

    Where the request was read whole, the message counts as accepted (:attr:`Answer.accepts`): the sender cannot know,
    and the worst case is that the phone rings. ``RST_STREAM`` and ``GOAWAY`` say that it was not processed.
    """

    #: Reset as soon as the head of the request is there; the body is not read. Only for ``answer_next``: no token yet.
    DROP_UNREAD = "drop_unread"
    #: Reset after the whole request was read, without an answer.
    DROP = "drop"
    #: Closed in good order (FIN) after the whole request was read, without an answer.
    CLOSE = "close"
    #: The head and half of the body of the answer, then the connection is closed.
    DROP_MID_BODY = "drop_mid_body"
    #: The head and half of the body of the answer, then nothing more.
    HANG_MID_BODY = "hang_mid_body"
    #: The request is read, the connection stays open, and nothing comes.
    HANG = "hang"
    #: HTTP/2: RST_STREAM with REFUSED_STREAM; the connection stays. HTTP/1.1: as DROP.
    RST_STREAM = "rst_stream"
    #: HTTP/2: GOAWAY that leaves this stream out (NO_ERROR), then closed. HTTP/1.1: as CLOSE.
    GOAWAY = "goaway"
    #: HTTP/2: GOAWAY that counts this stream in, then the answer, then closed once the open streams are answered: how
    #: a front end that is being drained says good-bye. HTTP/1.1: the answer says ``Connection: close``.
    GOAWAY_BEFORE = "goaway_before"
    #: The same, with the GOAWAY after the answer.
    GOAWAY_AFTER = "goaway_after"


_NOT_PROCESSED = {Fault.DROP_UNREAD, Fault.RST_STREAM, Fault.GOAWAY}


#: Of a header: Latin-1 without control characters.
_SENDABLE: Final = re.compile(r"[\x20-\x7e\xa0-\xff]*")
#: Seconds: a day.
MAX_DELAY: Final = 86_400


def _lower(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name.lower(), value) for name, value in pairs)


@frozen
class Answer:
    """One answer: sent as it is, whatever it says.

    ``headers`` without ``content-length`` get the right one. ``delay``: seconds before anything is sent. ``case``: a
    name for the records. ``accept``: build the ordinary ``{"name": ...}`` body for the request at hand.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = field(default=(), converter=_lower)
    body: bytes = b""
    delay: float = field(default=0.0, kw_only=True)
    fault: Fault | None = field(default=None, kw_only=True)
    case: str = field(default="raw", kw_only=True)
    accept: bool = field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not 200 <= self.status <= 599:
            raise ValueError(f"status {self.status} is not one of a final answer, 200 to 599")
        if not 0 <= self.delay < MAX_DELAY:
            raise ValueError(f"delay {self.delay} is not between 0 and {MAX_DELAY} seconds")
        for name, value in self.headers:
            if not name or not _SENDABLE.fullmatch(name + value):
                raise ValueError(f"header {name!r}: {value!r} cannot be sent")

    @property
    def accepts(self) -> bool:
        """Whether the phone gets the message, as far as a sender has to fear."""
        return self.status == 200 and self.fault not in _NOT_PROCESSED

    def after(self, delay: float) -> Answer:
        """The same answer, ``delay`` seconds later."""
        return evolve(self, delay=delay)

    def with_headers(self, **headers: str | float) -> Answer:
        """The same answer with headers set: ``retry_after=7200`` is ``retry-after: 7200``."""
        new = {name.replace("_", "-").lower(): str(value) for name, value in headers.items()}
        kept = [(name, value) for name, value in self.headers if name not in new]
        return evolve(self, headers=(*kept, *new.items()))

    def to_json(self) -> dict[str, Any]:
        """As the control endpoint takes it; :meth:`from_json` reads it."""
        return {
            "status": self.status,
            "headers": [list(pair) for pair in self.headers],
            "body_base64": base64.b64encode(self.body).decode(),
            "delay": self.delay,
            "fault": self.fault,
            "case": self.case,
            "accept": self.accept,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Answer:
        """Any of ``status, headers, body (text), body_base64, delay, fault, case, accept``.

        :class:`ValueError` for anything else, and for values of the wrong type.
        """
        known = {"status", "headers", "body", "body_base64", "delay", "fault", "case", "accept"}
        if unknown := sorted(set(raw) - known):
            raise ValueError(f"an answer has no {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        try:
            body = base64.b64decode(raw.get("body_base64", ""), validate=True) or str(raw.get("body", "")).encode()
            headers = raw.get("headers") or ()
            return cls(
                int(raw.get("status", 200)),
                headers if isinstance(headers, Mapping) else [(str(name), str(value)) for name, value in headers],
                body,
                delay=float(raw.get("delay") or 0),
                fault=Fault(raw["fault"]) if raw.get("fault") else None,
                case=str(raw.get("case", "raw")),
                accept=bool(raw.get("accept", False)),
            )
        except (TypeError, AttributeError) as wrong:
            raise ValueError(f"not an answer: {wrong}") from wrong


def json_answer(status: int, content: object, *, case: str = "raw") -> Answer:
    """``content`` as Google's APIs write JSON: indented."""
    return Answer(
        status, (("content-type", JSON),), orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n", case=case
    )


def error(status: int, code: str, message: str, *found: Mapping[str, Any], case: str = "raw") -> Answer:
    """A ``google.rpc.Status`` as the REST APIs wrap it; ``details`` is left out where there are none."""
    content: dict[str, Any] = {"code": status, "message": message, "status": code}
    if found:
        content["details"] = found
    return json_answer(status, {"error": content}, case=case)


def html(status: int, title: str, *, case: str = "raw") -> Answer:
    """The page that Google's front ends and proxies answer with when no API was reached."""
    page = (
        f"<!DOCTYPE html>\n<html lang=en>\n  <meta charset=utf-8>\n  <title>Error {status} ({title})!!1</title>\n"
        f"  <p><b>{status}.</b> <ins>That’s an error.</ins>\n  <p>{title}.  <ins>That’s all we know.</ins>\n"
    )
    return Answer(status, (("content-type", HTML),), page.encode(), case=case)
