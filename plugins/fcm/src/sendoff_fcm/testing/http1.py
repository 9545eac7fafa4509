"""HTTP/1.1 on one connection, by h11: keep-alive, one request at a time."""

from __future__ import annotations

from asyncio import TimerHandle
from typing import Final

import h11

from sendoff_fcm.testing.answers import Answer, Fault
from sendoff_fcm.testing.link import Link
from sendoff_fcm.testing.site import MAX_BODY, Incoming

__all__ = ["Http1"]

#: Bytes that a client may send ahead, while its request waits for an answer.
AHEAD: Final = 4 * MAX_BODY


class Http1:
    """Bytes in by :meth:`received`, out through the link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=64 * 1024)
        self._request: Incoming | None = None
        self._count = 0
        self._timer: TimerHandle | None = None
        self._busy = False
        self._ahead = 0

    def received(self, data: bytes) -> None:
        if self._busy:
            self._ahead += len(data)
            if self._ahead > AHEAD:
                self._link.abort()
                return
        self._http.receive_data(data)
        self._run()

    def closed(self) -> None:
        """The connection is gone: nothing more is answered."""
        if self._timer is not None:
            self._timer.cancel()
        if self._request is not None:
            self._link.streaming(-1, 0)
            self._request = None

    def _run(self) -> None:
        try:
            self._work()
        except h11.RemoteProtocolError as wrong:
            self._link.broke()
            self._refuse(wrong.error_status_hint)

    def _work(self) -> None:
        while not self._busy and not self._link.closing:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    self._send(h11.InformationalResponse(status_code=100, headers=[]))
                return
            if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return
            if isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.Data) and self._request is not None:
                self._request.body += event.data
                if len(self._request.body) > MAX_BODY:
                    self._answer(self._link.site.too_large(), last=True)
            elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                self._busy = True
                answer = self._link.serve(self._request)
                if answer.delay:
                    self._timer = self._link.loop.call_later(answer.delay, self._late, answer)
                else:
                    self._answer(answer)

    def _begin(self, head: h11.Request) -> None:
        self._count += 1
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        path = head.target.decode("latin-1")
        self._request = Incoming(
            head.method.decode("latin-1"), path, headers, "HTTP/1.1", self._link.number, self._count
        )
        self._link.streaming(1, 1)
        if self._link.site.before_reading(path):
            self._link.abort()
        elif int(headers.get("content-length", "0")) > MAX_BODY:
            # h11 lets only digits, at most 20 of them, through.
            self._answer(self._link.site.too_large(), last=True)

    def _late(self, answer: Answer) -> None:
        self._timer = None
        self._answer(answer)
        self._run()

    def _answer(self, answer: Answer, *, last: bool = False) -> None:
        match answer.fault:
            case Fault.DROP | Fault.DROP_UNREAD | Fault.RST_STREAM:
                self._link.abort()
                return
            case Fault.CLOSE | Fault.GOAWAY:
                self._link.close()
                return
            case Fault.HANG:
                return
            case Fault.GOAWAY_BEFORE | Fault.GOAWAY_AFTER:
                last = True
        sent_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        if not any(name in {b"content-length", b"transfer-encoding"} for name, _ in sent_headers):
            sent_headers.append((b"content-length", b"%d" % len(answer.body)))
        if last:
            sent_headers.append((b"connection", b"close"))
        try:
            self._send(h11.Response(status_code=answer.status, headers=sent_headers))
            if answer.fault in {Fault.DROP_MID_BODY, Fault.HANG_MID_BODY}:
                self._send(h11.Data(data=answer.body[: len(answer.body) // 2]))
                if answer.fault is Fault.DROP_MID_BODY:
                    # Not an abort: that would throw away what was written and is not sent yet.
                    self._link.close()
                return
            self._send(h11.Data(data=answer.body))
            self._send(h11.EndOfMessage())
        except h11.LocalProtocolError:
            # An answer that breaks HTTP on purpose (a content-length that is not the body's): as far as it got.
            self._link.close()
            return
        self._link.streaming(-1, 0)
        self._request = None
        self._busy = False
        self._ahead = 0
        if self._http.their_state is h11.SEND_BODY:
            self._link.close_unread()
        elif last or self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            self._link.close()
        else:
            self._http.start_next_cycle()

    def _refuse(self, status: int) -> None:
        """What arrived is not HTTP."""
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            text = b"Bad Request\n"
            headers = [("content-type", "text/plain"), ("content-length", str(len(text))), ("connection", "close")]
            self._send(h11.Response(status_code=status, headers=headers))
            self._send(h11.Data(data=text))
            self._send(h11.EndOfMessage())
        self._link.close_unread()

    def _send(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> None:
        data = self._http.send(event)
        if data:
            self._link.write(data)
