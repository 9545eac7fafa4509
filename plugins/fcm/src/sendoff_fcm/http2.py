"""One HTTP/2 connection that sends POSTs and nothing else (RFC 9113), on the protocol library ``h2``.

A request is written once. What becomes of it is told apart exactly: answered; not looked at (GOAWAY before it,
REFUSED_STREAM); or unknown. A request that is given up is reset, so that it takes no stream with it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error, StreamClosedError

from sendoff_fcm.replies import LONGEST_ANSWER, Answer, MaybeSentError, NotTakenError

__all__ = ["Connection", "connect"]

#: A connection that has carried nothing for so long may have been dropped by something on the way without a word.
IDLE_SECONDS = 60.0
#: Of the answers that we are willing to take at once, all streams together.
WINDOW = 2**20
#: Stream ids are odd and 31 bits long; before they are used up the connection is replaced.
LAST_STREAM = 2**30
FRAME_HEAD, GOAWAY = 9, 0x7
CLOSE_SECONDS = 1.0


async def connect(host: str, port: int, context: ssl.SSLContext | None) -> Connection:
    """A connection that is open; without TLS both sides know that it is HTTP/2 ("prior knowledge"). OSError."""
    loop = asyncio.get_running_loop()
    name = host if context is not None else None
    transport, connection = await loop.create_connection(Connection, host, port, ssl=context, server_hostname=name)
    if context is not None:
        agreed = transport.get_extra_info("ssl_object")
        if agreed is None or agreed.selected_alpn_protocol() != "h2":
            transport.abort()
            raise ConnectionError("the server does not speak HTTP/2; set http2 = false")
    return connection


class _Protocol(H2Connection):
    """h2 remembers closed streams, to tell a late frame from a wrong one: 65,536 of them, ten megabytes. What is late
    here belongs to one of the last requests."""

    MAX_CLOSED_STREAMS = 1000


@define(eq=False)
class _Stream:
    answered: asyncio.Future[Answer]
    written: bool = False
    status: int = 0
    headers: dict[str, str] = field(factory=dict)
    body: bytearray = field(factory=bytearray)


class Connection(asyncio.Protocol):
    """Made by :func:`connect`; belongs to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._h2 = _Protocol(
            H2Configuration(
                client_side=True,
                header_encoding=None,
                # Ours are right as they are, and checking them takes a third of the time of sending them.
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self._streams: dict[int, _Stream] = {}
        self._received = bytearray()
        self._flush_due = False
        self._window = asyncio.Event()
        self._room = asyncio.Event()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._leaving = False
        self._heard = time.monotonic()

    @property
    def closed(self) -> bool:
        """Whether it is gone."""
        return self._lost.done()

    @property
    def usable(self) -> bool:
        """Whether another request may be put on it."""
        idle = not self._streams and time.monotonic() - self._heard > IDLE_SECONDS
        return not (self._leaving or self.closed or idle)

    def when_closed(self, tell: Callable[[Connection], None]) -> None:
        """Call ``tell`` with this connection once it is gone."""
        self._lost.add_done_callback(lambda _: tell(self))

    def leave(self) -> None:
        """Take no more requests, and close after the last answer."""
        self._leaving = True
        if not self._streams and self._transport is not None:
            self._transport.close()

    async def close(self) -> None:
        """Close now; requests that are under way end as maybe sent."""
        self.leave()
        if self._transport is not None:
            self._transport.close()
            # TLS says good-bye first; a server that does not answer it is not waited for.
            done, _ = await asyncio.wait([self._lost], timeout=CLOSE_SECONDS)
            if not done:
                self._transport.abort()

    # -- one request -----------------------------------------------------------------------------------------------

    async def post(self, scheme: str, authority: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Write it once and wait for the answer. Cancelling it (a timeout around it) resets the stream.

        :raises NotTakenError: the server has not looked at it, or it could not even be written.
        :raises MaybeSentError: no answer will come.
        """
        while len(self._streams) >= self._h2.remote_settings.max_concurrent_streams and not self._leaving:
            self._room.clear()
            await self._room.wait()
        if self._leaving:
            raise NotTakenError("the connection ended before the request was written")
        began = time.monotonic()
        stream_id = self._h2.get_next_available_stream_id()
        stream = self._streams[stream_id] = _Stream(self._loop.create_future())
        try:
            pseudo = [(":method", "POST"), (":authority", authority), (":scheme", scheme), (":path", path)]
            length = ("content-length", str(len(body)))
            self._h2.send_headers(stream_id, [*pseudo, *headers.items(), length])
            await self._send(stream_id, stream, body)
            answer = await stream.answered
            if not stream.written:
                # Answered before it was read to its end: the rest is not sent, and the stream not kept for it.
                self._give_up(stream_id, began)
            return answer
        except H2Error as error:
            raise MaybeSentError(f"{type(error).__name__}: {error}") from None
        except asyncio.CancelledError:
            self._give_up(stream_id, began)
            raise
        finally:
            self._end(stream_id)

    async def _send(self, stream_id: int, stream: _Stream, body: bytes) -> None:
        left = memoryview(body)
        while not stream.answered.done():
            window = min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size)
            part, left = left[: max(0, window)], left[max(0, window) :]
            if part or not left:
                self._h2.send_data(stream_id, bytes(part), end_stream=not left)
                self._flush_soon()
            if not left:
                stream.written = True
                return
            if window <= 0:
                # The server has not taken up what was sent so far.
                self._window.clear()
                await self._window.wait()

    def _give_up(self, stream_id: int, began: float) -> None:
        if self.closed:
            return
        try:
            self._h2.reset_stream(stream_id, ErrorCodes.CANCEL)
        except StreamClosedError:
            return
        except H2Error:
            self._leaving = True
        self._flush_soon()
        if self._heard < began:
            # Not a word on the whole connection meanwhile: others should not wait on it too.
            self._leaving = True

    def _end(self, stream_id: int) -> None:
        del self._streams[stream_id]
        self._room.set()
        if stream_id >= LAST_STREAM:
            self._leaving = True
        if self._leaving and not self._streams and self._transport is not None:
            self._flush()
            self._transport.close()

    # -- the protocol ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._heard = time.monotonic()
        try:
            self._receive(data)
        except H2Error as error:
            self._fail(MaybeSentError(f"the server broke the protocol: {type(error).__name__}"))
            if self._transport is not None:
                self._transport.abort()
            return
        self._flush()
        if self._leaving and not self._streams and self._transport is not None:
            self._transport.close()

    def _receive(self, data: bytes) -> None:
        """Hand whole frames to ``h2``, but GOAWAY: after one it takes no more answers, and a server that is being
        drained sends it first and the answers to what it has taken afterwards."""
        received = self._received
        received += data
        start = at = 0
        while len(received) - at >= FRAME_HEAD:
            end = at + FRAME_HEAD + int.from_bytes(received[at : at + 3])
            if end > len(received):
                break
            if received[at + 3] == GOAWAY:
                self._handle_all(bytes(received[start:at]))
                self._goaway(bytes(received[at + FRAME_HEAD : end]))
                start = end
            at = end
        self._handle_all(bytes(received[start:at]))
        del received[:at]
        if len(received) > LONGEST_ANSWER:
            # Beyond any frame that we allow: not HTTP/2 at all. h2 says so when it sees it.
            self._handle_all(bytes(received))
            received.clear()

    def _handle_all(self, frames: bytes) -> None:
        if frames:
            for event in self._h2.receive_data(frames):
                self._handle(event)

    def _handle(self, event: Event) -> None:
        match event:
            case RemoteSettingsChanged() | WindowUpdated():
                self._window.set()
                self._room.set()
            case ResponseReceived(stream_id=int(id)) if id in self._streams:
                stream = self._streams[id]
                for name, value in event.headers or ():
                    stream.headers[_text(name)] = _text(value)
                stream.status = _status(stream.headers.pop(":status", ""))
            case DataReceived(stream_id=int(id)):
                # Also of streams that were given up: the connection's window is for all of them.
                self._h2.acknowledge_received_data(event.flow_controlled_length or 0, id)
                if id in self._streams and len(self._streams[id].body) < LONGEST_ANSWER:
                    self._streams[id].body += event.data or b""
            case StreamEnded(stream_id=int(id)) if id in self._streams:
                stream = self._streams[id]
                self._settle(stream, Answer(stream.status, stream.headers, bytes(stream.body[:LONGEST_ANSWER])))
            case StreamReset(stream_id=int(id)) if id in self._streams:
                if event.error_code == ErrorCodes.REFUSED_STREAM:
                    self._settle(self._streams[id], NotTakenError("the server refused the stream"))
                else:
                    self._settle(self._streams[id], MaybeSentError(f"the server reset the stream ({event.error_code})"))

    def _goaway(self, frame: bytes) -> None:
        """RFC 9113 section 6.8: streams beyond the last one named were not and will not be looked at."""
        self._leaving = True
        self._room.set()
        last = int.from_bytes(frame[:4]) & 0x7FFF_FFFF
        for id, stream in self._streams.items():
            if id > last:
                self._settle(stream, NotTakenError("the server is going away and has not looked at the request"))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(MaybeSentError(f"the connection was lost: {type(exc).__name__ if exc else 'closed'}"))
        if not self._lost.done():
            self._lost.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._leaving = True
        for stream in self._streams.values():
            self._settle(stream, error)
        self._window.set()
        self._room.set()

    def _settle(self, stream: _Stream, outcome: Answer | Exception) -> None:
        if stream.answered.done():
            return
        if isinstance(outcome, Answer):
            stream.answered.set_result(outcome)
        else:
            stream.answered.set_exception(outcome)
        # Somebody may be waiting to write what need not be written any more.
        self._window.set()

    # -- writing ---------------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        """Requests of one turn of the loop leave in one write."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._transport is not None and not self._transport.is_closing():
            data: Any = self._h2.data_to_send()
            if data:
                self._transport.write(data)


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _status(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) == 3 else 0
