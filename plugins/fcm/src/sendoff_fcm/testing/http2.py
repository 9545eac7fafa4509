"""HTTP/2 on one connection, by h2: concurrent streams, flow control both ways."""

from __future__ import annotations

import contextlib
import enum
from asyncio import TimerHandle
from typing import Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from attrs import define

from sendoff_fcm.testing.answers import Answer, Fault
from sendoff_fcm.testing.link import Link
from sendoff_fcm.testing.site import MAX_BODY, Incoming

__all__ = ["MAX_STREAMS", "PREFACE", "Http2"]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Concurrent requests that a client may have on one connection, as the real one allows.
MAX_STREAMS: Final = 100
#: What a client may send before it waits for us: the room for a stream, and for the connection.
WINDOW: Final = 256 * 1024
CONNECTION_WINDOW: Final = 16 * 1024 * 1024

#: Bytes of a body that is too large, and answered, that are thrown away before the stream is reset.
UNREAD: Final = 16 * MAX_BODY

_SETTINGS: Final = {
    h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
    h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
    h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 64 * 1024,
}


class _State(enum.Enum):
    """Of a stream. READING: its request comes in. WAITING: for the answer's delay. SENDING: the answer's head is out.
    HANGING: for good. ANSWERED: all of the answer is out, and the client still sends.
    """

    READING = enum.auto()
    WAITING = enum.auto()
    SENDING = enum.auto()
    HANGING = enum.auto()
    ANSWERED = enum.auto()


_UNDER_WAY: Final = {_State.WAITING, _State.SENDING}


@define
class _Stream:
    """``ended``: the client has said all. ``unread``: bytes of the body thrown away. ``out``: what is left of the
    answer's body; ``then``: what follows it.
    """

    request: Incoming
    state: _State = _State.READING
    ended: bool = False
    unread: int = 0
    out: bytes = b""
    then: Fault | None = None
    timer: TimerHandle | None = None


class Http2:
    """Bytes in by :meth:`received`, out through the link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._http = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_inbound_headers=False,  # a tenth of the time; what is needed is checked in _begin
                validate_outbound_headers=False,  # ours are right, or wrong on purpose
                normalize_outbound_headers=False,
            )
        )
        self._http.local_settings = h2.settings.Settings(client=False, initial_values=_SETTINGS)
        self._http.initiate_connection()
        self._http.increment_flow_control_window(CONNECTION_WINDOW)
        self._streams: dict[int, _Stream] = {}
        self._leaving = False
        self._flush()

    def received(self, data: bytes) -> None:
        try:
            for event in self._http.receive_data(data):
                self._handle(event)
        except h2.exceptions.ProtocolError:
            # h2 has put a GOAWAY that says what was wrong into what is to be sent.
            self._link.broke()
            self._flush()
            self._link.close_unread()
            return
        self._flush()

    def closed(self) -> None:
        """The connection is gone: nothing more is answered."""
        for number in list(self._streams):
            self._forget(number)

    def _flush(self) -> None:
        data = self._http.data_to_send()
        if data:
            self._link.write(data)
        if self._leaving and not any(stream.state in _UNDER_WAY for stream in self._streams.values()):
            self._link.close_unread()

    def _forget(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            self._link.streaming(-1, 0)
            if stream.timer is not None:
                stream.timer.cancel()

    # ------------------------------------------------------------------------------------------------ requests in

    def _handle(self, event: h2.events.Event) -> None:
        if self._link.closing:
            return
        match event:
            case h2.events.RequestReceived():
                self._begin(event.stream_id, event.headers)
            case h2.events.DataReceived():
                self._data(event)
            case h2.events.StreamEnded():
                if (stream := self._streams.get(event.stream_id)) is not None:
                    stream.ended = True
                    if stream.state is _State.ANSWERED:
                        self._forget(event.stream_id)
                    elif stream.state is _State.READING:
                        self._serve(event.stream_id, stream)
            case h2.events.StreamReset():
                self._forget(event.stream_id)
            case h2.events.WindowUpdated():
                for number in [event.stream_id] if event.stream_id else list(self._streams):
                    self._push(number)
            case h2.events.RemoteSettingsChanged():
                for number in list(self._streams):
                    self._push(number)
            case h2.events.ConnectionTerminated():
                self._flush()
                self._link.close()

    def _begin(self, number: int, raw: list[tuple[bytes, bytes]]) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
        path = headers.get(":path", "")
        method = headers.get(":method", "")
        self._streams[number] = _Stream(Incoming(method, path, headers, "HTTP/2", self._link.number, number))
        self._link.streaming(1, len(self._streams))
        if not path or not method:
            self._reset(number, h2.errors.ErrorCodes.PROTOCOL_ERROR)
        elif self._leaving:
            self._reset(number, h2.errors.ErrorCodes.REFUSED_STREAM)
        elif self._link.site.before_reading(path):
            self._link.abort()

    def _data(self, event: h2.events.DataReceived) -> None:
        if event.flow_controlled_length:
            # Given back at once: what is kept is bounded by MAX_BODY for each of MAX_STREAMS.
            self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        if stream.state is not _State.READING:
            stream.unread += len(event.data)
            if stream.unread > UNREAD:
                self._reset(event.stream_id, h2.errors.ErrorCodes.NO_ERROR)
            return
        stream.request.body += event.data
        if len(stream.request.body) > MAX_BODY:
            self._respond(event.stream_id, self._link.site.too_large())

    def _serve(self, number: int, stream: _Stream) -> None:
        answer = self._link.serve(stream.request)
        if answer.delay:
            stream.state = _State.WAITING
            stream.timer = self._link.loop.call_later(answer.delay, self._late, number, answer)
        else:
            self._respond(number, answer)

    # ------------------------------------------------------------------------------------------------ answers out

    def _late(self, number: int, answer: Answer) -> None:
        if number in self._streams and not self._link.closing:
            self._respond(number, answer)
            self._flush()

    def _respond(self, number: int, answer: Answer) -> None:
        try:
            self._start(number, answer)
        except h2.exceptions.ProtocolError:
            # The client gave the stream or the connection up meanwhile: nobody is left to answer.
            self._forget(number)

    def _start(self, number: int, answer: Answer) -> None:
        stream = self._streams[number]
        match answer.fault:
            case Fault.DROP | Fault.DROP_UNREAD:
                self._link.abort()
                return
            case Fault.CLOSE:
                self._flush()
                self._link.close_unread()
                return
            case Fault.HANG:
                stream.state = _State.HANGING
                return
            case Fault.RST_STREAM:
                self._reset(number, h2.errors.ErrorCodes.REFUSED_STREAM)
                return
            case Fault.GOAWAY:
                # Client streams have odd numbers: this one and all above it were not processed.
                self._goaway(max(number - 2, 0))
                self._forget(number)
                return
        headers = [(":status", str(answer.status)), *answer.headers]
        if not any(name == "content-length" for name, _ in answer.headers):
            headers.append(("content-length", str(len(answer.body))))
        stream.then = answer.fault
        cut = answer.fault in {Fault.DROP_MID_BODY, Fault.HANG_MID_BODY}
        stream.out = answer.body[: len(answer.body) // 2] if cut else answer.body
        if answer.fault is Fault.GOAWAY_BEFORE:
            self._goaway(max(self._streams))
        self._http.send_headers(number, headers)
        stream.state = _State.SENDING
        self._push(number)

    def _push(self, number: int) -> None:
        """As much of the body as the client's windows let through; the rest when they open."""
        stream = self._streams.get(number)
        if stream is None or stream.state is not _State.SENDING:
            return
        try:
            self._send_some(number, stream)
        except h2.exceptions.ProtocolError:
            self._forget(number)

    def _send_some(self, number: int, stream: _Stream) -> None:
        cut = stream.then in {Fault.DROP_MID_BODY, Fault.HANG_MID_BODY}
        while True:
            room = max(min(self._http.local_flow_control_window(number), self._http.max_outbound_frame_size), 0)
            part, stream.out = stream.out[:room], stream.out[room:]
            if not stream.out and not cut:
                self._http.send_data(number, part, end_stream=True)
                self._finish(number, stream)
                return
            if not part:
                break
            self._http.send_data(number, part)
        if not stream.out and cut:
            stream.state = _State.HANGING
            if stream.then is Fault.DROP_MID_BODY:
                self._flush()
                self._link.close_unread()

    def _finish(self, number: int, stream: _Stream) -> None:
        if stream.then is Fault.GOAWAY_AFTER:
            self._goaway(max(self._streams))
        if stream.ended:
            self._forget(number)
        else:
            # Answered before its end (413). A reset would be in order (RFC 9113, 8.1), but there are clients that lose
            # the answer to it; what they still send is thrown away instead.
            stream.state = _State.ANSWERED

    def _reset(self, number: int, code: h2.errors.ErrorCodes) -> None:
        with contextlib.suppress(h2.exceptions.ProtocolError):  # the client may have been first
            self._http.reset_stream(number, code)
        self._forget(number)

    def _goaway(self, last: int) -> None:
        # Written by hand: after h2's own close_connection it would send nothing more, and streams that are counted in
        # are still to be answered.
        frame = b"\x00\x00\x08\x07\x00" + b"\x00" * 4 + last.to_bytes(4, "big") + b"\x00" * 4
        self._link.write(self._http.data_to_send() + frame)
        self._leaving = True
