"""What the local FCM was asked and what it answered: :class:`Request`, kept by :class:`Records`."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson
from attrs import fields_dict, frozen

__all__ = ["HEADERS", "Counters", "Records", "Request"]

#: Request headers that are kept; never the credential.
HEADERS: Final = ("content-type", "user-agent", "accept-encoding", "x-goog-api-client", "x-firebase-client")
#: Requests kept in memory: about 1 KB each. Older ones are forgotten (the file has them all).
KEEP: Final = 100_000


@frozen(slots=True, eq=False)
class Request:
    """One request to ``messages:send`` that was read whole, or as far as a fault let it.

    number       1, 2, 3, ... in the order of arrival
    time         seconds since 1970 when it had been read, by the server's clock
    protocol     ``HTTP/1.1`` or ``HTTP/2``
    connection   number of the connection; ``stream``: HTTP/2 stream id, or 1, 2, 3, ... on HTTP/1.1
    target       ``token``, ``fid``, ``topic`` or ``condition``; "" where the message named none, or several
    token        what the target says: for a token or an installation id, the device
    body         the request's bytes; :attr:`message` is the ``message`` object in it
    status       of the answer; None where none was sent (see ``fault``)
    case         the name of the answer; ``refused``: this server's own judgement of the request
    accepted     whether the phone gets the message, as far as a sender has to fear; never for ``validate_only``
    """

    number: int
    time: float
    project: str
    protocol: str
    connection: int
    stream: int
    headers: dict[str, str]
    target: str
    token: str
    body: bytes
    validate_only: bool
    status: int | None
    case: str
    fault: str | None
    accepted: bool
    name: str | None

    @property
    def message(self) -> dict[str, Any]:
        """The ``message`` object; ``{}`` where the body has none."""
        try:
            content = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return {}
        message = content.get("message") if isinstance(content, dict) else None
        return message if isinstance(message, dict) else {}

    @property
    def collapse_keys(self) -> tuple[str | None, str | None, str | None]:
        """``android.collapse_key``, the header ``apns-collapse-id``, ``android.notification.tag``."""
        message = self.message
        return (
            _at(message, "android", "collapse_key"),
            _at(message, "apns", "headers", "apns-collapse-id"),
            _at(message, "android", "notification", "tag"),
        )

    def to_json(self) -> dict[str, Any]:
        """As the log has it: every field, with ``message`` (null where it is none) instead of ``body``."""
        fields = {name: getattr(self, name) for name in fields_dict(Request) if name != "body"}
        return fields | {"message": self.message or None, "bytes": len(self.body)}


def _at(content: object, *path: str) -> str | None:
    for step in path:
        content = content.get(step) if isinstance(content, dict) else None
    return content if isinstance(content, str) else None


@frozen
class Counters:
    """Numbers since the start (or :meth:`Records.reset`); ``_open`` ones are of this moment.

    ``streams`` are requests under way: on HTTP/1.1 at most one for each connection. ``broken``: connections ended for
    breaking their protocol.
    """

    requests: int
    accepted: int
    token_calls: int
    connections: int
    connections_open: int
    connections_peak: int
    streams_open: int
    streams_peak: int
    connection_streams_peak: int
    broken: int


class Records:
    """Written by the server's thread, read by any."""

    def __init__(self, log: Path | None = None, keep: int = KEEP) -> None:
        self._changed = threading.Condition()
        self._kept: deque[Request] = deque(maxlen=keep)
        self._by_token: Counter[str] = Counter()
        # One write per line at the end of the file: lines of several writers do not mix, and a process that is killed
        # leaves whole lines behind.
        self._file = None if log is None else os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._waiters = 0
        self._last_connection = 0
        self.connections_open = 0
        self.streams_open = 0
        self._zero()

    def _zero(self) -> None:
        self.requests = 0
        self.accepted = 0
        self.token_calls = 0
        self.connections = self.connections_open
        self.connections_peak = self.connections_open
        self.streams_peak = self.streams_open
        self.connection_streams_peak = 0
        self.broken = 0

    # ------------------------------------------------------------------------------------------ the server's side

    def add(self, request: Callable[[int, float], Request]) -> Request:
        """Keeps what ``request(number, time)`` makes; in the file before the answer is on its way."""
        with self._changed:
            self.requests += 1
            made = request(self.requests, time.time())
            self.accepted += made.accepted
            self._kept.append(made)
            if made.token:
                self._by_token[made.token] += 1
            if self._file is not None:
                os.write(self._file, orjson.dumps(made.to_json()) + b"\n")
            if self._waiters:
                self._changed.notify_all()
        return made

    def seen(self, token: str) -> int:
        """Requests that named this token so far."""
        return self._by_token.get(token, 0)

    def connected(self) -> int:
        """The number of the new connection: 1, 2, 3, ..., whatever is reset."""
        self._last_connection += 1
        self.connections += 1
        self.connections_open += 1
        self.connections_peak = max(self.connections_peak, self.connections_open)
        return self._last_connection

    def disconnected(self) -> None:
        self.connections_open -= 1

    def streaming(self, by: int, on_connection: int = 0) -> None:
        """``on_connection``: streams now open on the connection that this is about."""
        self.streams_open += by
        if by > 0:
            self.streams_peak = max(self.streams_peak, self.streams_open)
            self.connection_streams_peak = max(self.connection_streams_peak, on_connection)

    # ------------------------------------------------------------------------------------------- the reader's side

    def all(self) -> list[Request]:
        with self._changed:
            return list(self._kept)

    def wait(self, count: int, timeout: float) -> list[Request]:
        """All requests, once there are ``count``; :class:`TimeoutError` after ``timeout`` seconds."""
        with self._changed:
            self._waiters += 1
            try:
                if not self._changed.wait_for(lambda: self.requests >= count, timeout):
                    raise TimeoutError(f"{self.requests} of {count} requests came within {timeout:g} s")
                return list(self._kept)
            finally:
                self._waiters -= 1

    def counters(self) -> Counters:
        return Counters(**{name: getattr(self, name) for name in fields_dict(Counters)})

    def reset(self) -> None:
        """Forgets requests and numbers, not the file."""
        with self._changed:
            self._kept.clear()
            self._by_token.clear()
            self._zero()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
