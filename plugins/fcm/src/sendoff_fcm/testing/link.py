"""One accepted connection: :class:`Link`, which finds out what is spoken on it."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from typing import Protocol

from sendoff_fcm.testing.answers import Answer
from sendoff_fcm.testing.site import CONTROL, Incoming, Site

__all__ = ["Link", "Speaker"]

#: Seconds that a client gets to stop sending, once its answer is out.
LINGER = 2.0
_log = logging.getLogger(__name__)


class Speaker(Protocol):
    """One protocol on one connection."""

    def received(self, data: bytes) -> None: ...

    def closed(self) -> None: ...


class Link(asyncio.Protocol):
    """``open_links``: where it is listed while it is open. ``speakers``: makes the speaker for HTTP/1.1 and HTTP/2.

    A client whose first bytes are the preface speaks HTTP/2 (RFC 9113, 3.3), any other HTTP/1.1.
    """

    def __init__(
        self,
        site: Site,
        loop: asyncio.AbstractEventLoop,
        open_links: set[Link],
        speakers: tuple[Callable[[Link], Speaker], Callable[[Link], Speaker]],
        preface: bytes,
    ) -> None:
        self.site = site
        self.loop = loop
        self.number = 0
        #: Whoever tells the server to go down gets an answer to that.
        self.spared = False
        self._open_links = open_links
        self._speakers = speakers
        self._preface = preface
        self._first = b""
        self._speaker: Speaker | None = None
        self._transport: asyncio.Transport | None = None
        self._discarding = False
        self._deadline: asyncio.TimerHandle | None = None

    # ----------------------------------------------------------------------------------------- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_links.add(self)
        self.number = self.site.records.connected()

    def data_received(self, data: bytes) -> None:
        if self.closing:
            return
        try:
            if self._speaker is None:
                self._first += data
                wanted = self._preface[: len(self._first)]
                if self._first.startswith(wanted) and len(self._first) < len(self._preface):
                    return
                self._speaker = self._speakers[self._first.startswith(self._preface)](self)
                data, self._first = self._first, b""
            self._speaker.received(data)
        except Exception:  # noqa: BLE001 - whatever bytes a client finds to send, they end its own connection only
            _log.warning("connection %d ended by what it sent", self.number, exc_info=True)
            self.broke()
            self.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, wrong: Exception | None) -> None:
        self._open_links.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._speaker is not None:
            self._speaker.closed()
        self.site.records.disconnected()

    def pause_writing(self) -> None:
        # The client does not read its answers: nothing more of it is read either.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # ------------------------------------------------------------------------------------------ what speakers call

    def serve(self, incoming: Incoming) -> Answer:
        """The answer to a request that was read whole."""
        self.spared = incoming.path.startswith(CONTROL)
        return self.site.serve(incoming)

    @property
    def closing(self) -> bool:
        return self._transport is None or self._discarding or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        if not self.closing:
            assert self._transport is not None
            self._transport.write(data)

    def close(self) -> None:
        """In good order, after what was written."""
        if self._transport is not None:
            self._transport.close()

    def close_unread(self) -> None:
        """In good order, though the client is still sending: closed at once, the kernel would send a reset for what
        is unread, and the client could lose the answer to it.
        """
        if not self.closing:
            assert self._transport is not None
            self._discarding = True
            self._transport.write_eof()
            self._deadline = self.loop.call_later(LINGER, self._transport.abort)

    def abort(self) -> None:
        """At once, with a reset (RST) as a crashed peer sends it; what was written may be lost."""
        if self._transport is not None:
            sock = self._transport.get_extra_info("socket")
            if sock is not None:
                # To linger for 0 seconds: the kernel sends RST instead of FIN.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def broke(self) -> None:
        self.site.records.broken += 1

    def streaming(self, by: int, on_connection: int) -> None:
        self.site.records.streaming(by, on_connection)
