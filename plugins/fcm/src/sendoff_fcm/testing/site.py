"""Which answer a request gets: :class:`Site`. No sockets here; one call per request, in the server's thread."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import orjson
from attrs import define, evolve, field

from sendoff_fcm.testing.answers import JSON, Answer, Fault, html
from sendoff_fcm.testing.cases import answer_of
from sendoff_fcm.testing.oauth import OAuth
from sendoff_fcm.testing.records import HEADERS, KEEP, Records, Request
from sendoff_fcm.testing.rules import Rules
from sendoff_fcm.testing.schema import TARGETS
from sendoff_fcm.testing.validate import Parsed, Refused, read_message

__all__ = ["CONTROL", "MAX_BODY", "Incoming", "Site"]

#: Bytes of a request body; more is refused with 413 before it is read.
MAX_BODY: Final = 1024 * 1024
CONTROL: Final = "/_control/"
_SEND: Final = re.compile(r"/v1/projects/([^/]+)/messages:send")
_NOT_FOUND: Final = html(404, "Not Found", case="no such path")
_TOO_LARGE: Final = html(413, "Request Entity Too Large", case="body too large")
_UNSENT: Final = {Fault.DROP, Fault.DROP_UNREAD, Fault.CLOSE, Fault.HANG, Fault.RST_STREAM, Fault.GOAWAY}


@define
class Incoming:
    """A request as it came in. ``headers``: names in lower case, the last of several. ``stream``: see Request."""

    method: str
    path: str
    headers: dict[str, str]
    protocol: str
    connection: int
    stream: int
    body: bytearray = field(factory=bytearray)


class Site:
    """One server's state: rules, records, accounts, and whether it is down.

    ``send_down``, ``token_down``: what every request to that endpoint gets; None while it is up.
    ``control``: answers paths below ``/_control/``.
    """

    def __init__(self, project: str, log: Path | None = None, keep: int = KEEP) -> None:
        self.project = project
        self.rules = Rules()
        self.records = Records(log, keep)
        self.oauth = OAuth(project)
        self.send_down: Answer | None = None
        self.token_down: Answer | None = None
        self.control: Callable[[Incoming], Answer] = lambda _: _NOT_FOUND

    def before_reading(self, path: str) -> bool:
        """Whether the connection is to be dropped now that the head of the request is there."""
        return not path.startswith(CONTROL) and self.rules.before_reading()

    def too_large(self) -> Answer:
        """The answer to a body of more than :data:`MAX_BODY` bytes."""
        return _TOO_LARGE

    def serve(self, incoming: Incoming) -> Answer:
        """The answer to a request that was read whole; recorded before this returns."""
        path = incoming.path.partition("?")[0]
        if path.startswith(CONTROL):
            return self.control(incoming)
        if incoming.method != "POST":
            return _NOT_FOUND
        if path == "/token":
            self.records.token_calls += 1
            return self.token_down or self.oauth.answer(bytes(incoming.body))
        match = _SEND.fullmatch(path)
        return _NOT_FOUND if match is None else self._send(match[1], incoming)

    def _send(self, project: str, incoming: Incoming) -> Answer:
        body = bytes(incoming.body)
        refusal: Answer | None = None
        try:
            parsed = read_message(body)
        except Refused as refused:
            refusal = evolve(refused.answer, case="refused")
            parsed = _guess(body)
        answer = self._judge(project, incoming, parsed, refusal)
        name = None
        if answer.accept and answer.fault not in _UNSENT:
            name = f"projects/{project}/messages/{_message_id(parsed.validate_only)}"
            body_out = b'{\n  "name": "' + name.encode() + b'"\n}\n'
            answer = Answer(
                answer.status,
                (*answer.headers, ("content-type", JSON)),
                body_out,
                delay=answer.delay,
                fault=answer.fault,
                case=answer.case,
            )
        headers = incoming.headers

        def record(number: int, now: float) -> Request:
            return Request(
                number,
                now,
                project,
                incoming.protocol,
                incoming.connection,
                incoming.stream,
                {name: headers[name] for name in HEADERS if name in headers},
                parsed.target,
                parsed.token,
                body,
                parsed.validate_only,
                None if answer.fault in _UNSENT else answer.status,
                answer.case,
                answer.fault,
                answer.accepts and not parsed.validate_only,
                name,
            )

        self.records.add(record)
        return answer

    def _judge(self, project: str, incoming: Incoming, parsed: Parsed, refusal: Answer | None) -> Answer:
        """In the order in which the real one finds fault: the outage, the credential, the project, the message."""
        if self.send_down is not None:
            return self.send_down
        if not self.oauth.knows(incoming.headers.get("authorization", "")):
            return answer_of("our OAuth token rejected")
        if project != self.project:
            return answer_of("404 without FcmError detail")
        if refusal is not None:
            return refusal
        return self.rules.choose(parsed.token, self.records.seen(parsed.token))


def _message_id(validate_only: bool) -> str:
    """As the real ones look: microseconds and a number; unlike any other."""
    return "fake_message_id" if validate_only else f"0:{time.time_ns() // 1000}%{next(_numbers):016x}"


_numbers = iter(range(1, 1 << 62))


def _guess(body: bytes) -> Parsed:
    """Who a message that is refused was for, for the records; nobody where it does not say."""
    try:
        message = orjson.loads(body)["message"]
        found = {name: message[name] for name in TARGETS if isinstance(message.get(name), str)}
    except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError, IndexError):
        found = {}
    target, token = next(iter(found.items())) if len(found) == 1 else ("", "")
    return Parsed(target, token, False, {})
