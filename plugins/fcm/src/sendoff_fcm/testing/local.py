"""The local FCM in this process: :class:`LocalFCM`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from sendoff_fcm.testing.answers import Answer, Fault, html
from sendoff_fcm.testing.cases import CASES, UNAVAILABLE, answer_of
from sendoff_fcm.testing.control import Control
from sendoff_fcm.testing.oauth import INVALID_GRANT
from sendoff_fcm.testing.records import KEEP, Counters, Request
from sendoff_fcm.testing.server import HOST, Server
from sendoff_fcm.testing.site import Site

__all__ = ["PROJECT", "LocalFCM", "Spec"]

#: A case's name, an answer, a fault, or an answer as JSON.
Spec = str | Answer | Fault | Mapping[str, Any]
PROJECT: Final = "sendoff-local"
#: Seconds; only a machine that stands still takes as long.
_ANSWERS_WITHIN: Final = 30.0

#: The doors of the server.
_SEND: Final = 0
_TOKEN: Final = 1

_T = TypeVar("_T")

_DOWN: Final = {
    "unavailable": UNAVAILABLE,
    "invalid_grant": INVALID_GRANT,
    "html": html(502, "Server Error", case="html"),
    "hang": answer_of(Fault.HANG),
}


def _answer(spec: Spec) -> Answer:
    return Answer.from_json(spec) if isinstance(spec, Mapping) else answer_of(spec)


class LocalFCM:
    """FCM's v1 endpoint and Google's token endpoint on loopback, in a thread of its own::

        with LocalFCM() as fcm:
            fcm.answer("phone-1", "server overloaded", "accepted")   # first 503, from then on 200
            ...                                                      # point the plugin at fcm.endpoint
            assert 2 == len(fcm.requests_of("phone-1"))

    Every token is accepted unless a rule or its name says otherwise (``dead-...``, ``slow-250-...``: see
    :data:`sendoff_fcm.testing.NAMES`). A request needs an access token from this server's token endpoint, or from
    :meth:`access_token`; its project must be ``project``; a message must be one that FCM would take.

    ``port``, ``token_port``: 0 for any that is free; the token endpoint has its own so that one can refuse
    connections while the other works. ``log``: a file that gets a JSON line for each request. ``keep``: requests kept
    in memory.

    Methods may be called from any thread, and see to it that what they say holds when they return.
    """

    def __init__(
        self, *, port: int = 0, token_port: int = 0, project: str = PROJECT, log: Path | None = None, keep: int = KEEP
    ) -> None:
        self.project = project
        self._ports = (port, token_port)
        self._site = Site(project, log, keep)
        self._site.control = Control(self)
        self._loop = asyncio.new_event_loop()
        self._server = Server(self._site, self._loop)
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._thread = threading.Thread(target=self._run, name="local-fcm", daemon=True)

    # ---------------------------------------------------------------------------------------------- start and stop

    def start(self) -> Self:
        """Listens. :class:`OSError` where a port is taken."""
        self._thread.start()
        try:
            self._call(lambda: self._server.start(self._ports))
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Connections are reset, ports given back, the thread ended. Again: does nothing."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            self._call(self._server.stop)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        self._site.records.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._server.stopped())

    def _call(self, work: Callable[[], _T]) -> _T:
        """``work()`` in the server's thread, which may be this one."""
        if threading.current_thread() is self._thread:
            return work()
        if not self._thread.is_alive():
            raise RuntimeError("the local FCM is not running")

        async def called() -> _T:
            return work()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(_ANSWERS_WITHIN)

    # ------------------------------------------------------------------------------------------------- where it is

    @property
    def endpoint(self) -> str:
        """``http://127.0.0.1:PORT``: stands for ``https://fcm.googleapis.com``."""
        return f"http://{HOST}:{self._server.doors[_SEND].port}"

    @property
    def send_url(self) -> str:
        """Where messages go: the endpoint with ``/v1/projects/PROJECT/messages:send``."""
        return f"{self.endpoint}/v1/projects/{self.project}/messages:send"

    @property
    def token_uri(self) -> str:
        """Stands for ``https://oauth2.googleapis.com/token``."""
        return f"http://{HOST}:{self._server.doors[_TOKEN].port}/token"

    # --------------------------------------------------------------------------------------------------- credentials

    def service_account(self) -> dict[str, str]:
        """The JSON of a service account whose key this process made and whose ``token_uri`` is this server."""
        return self._site.oauth.service_account(self.token_uri)

    def write_service_account(self, path: Path) -> Path:
        """:meth:`service_account` in a file."""
        path.write_text(json.dumps(self.service_account(), indent=2), encoding="utf-8")
        return path

    def access_token(self, lifetime: float | None = None) -> str:
        """A token that ``messages:send`` takes for ``lifetime`` seconds (an hour), without the token endpoint."""
        return self._site.oauth.issue(lifetime)

    def expire_tokens(self) -> None:
        """Every access token given out so far is refused with 401."""
        self._site.oauth.expire_all()

    def token_lifetime(self, seconds: float) -> None:
        """What the token endpoint gives from now on; 3,599 s at first."""
        self._site.oauth.lifetime = seconds

    # --------------------------------------------------------------------------------------------------------- rules

    def answer(self, token: str, *specs: Spec) -> None:
        """``token`` (or installation id, topic, condition) gets these in turn; the last one stays. None: no rule.

        A name of a case that is no answer takes effect for the whole server: "connection refused / DNS" refuses
        connections, "token endpoint invalid_grant" is :meth:`token_down`; the two cases that go wrong before anything
        is sent do nothing here. :class:`ValueError` for a name that is none of :data:`sendoff_fcm.testing.CASES`.
        """
        if len(specs) == 1 and isinstance(specs[0], str) and specs[0] in CASES:
            match CASES[specs[0]].reach:
                case "server":
                    self.down("refuse")
                    return
                case "oauth":
                    self.token_down("invalid_grant")
                    return
                case "client":
                    return
        self._site.rules.set(token, [_answer(spec) for spec in specs])

    def answer_next(self, *specs: Spec) -> None:
        """For the next requests, one each, whatever their tokens and rules."""
        self._site.rules.set_next([_answer(spec) for spec in specs])

    def answer_everyone(self, spec: Spec | None) -> None:
        """For all tokens without a rule of their own; None: no longer."""
        self._site.rules.set_everyone(None if spec is None else _answer(spec))

    # -------------------------------------------------------------------------------------------------------- outages

    def down(self, how: Spec = "unavailable", *, seconds: float | None = None) -> None:
        """``messages:send`` is down: ``unavailable`` (503 for everything), ``hang``, ``refuse`` or any other answer.

        ``refuse``: connections are refused, open ones reset. After ``seconds``, where given, it is up by itself.
        """
        self._down(_SEND, how, seconds)

    def up(self) -> None:
        """``messages:send`` works again; what hangs goes on hanging."""
        self._up(_SEND)

    def token_down(self, how: Spec = "unavailable", *, seconds: float | None = None) -> None:
        """The token endpoint is down: as :meth:`down`; also ``invalid_grant`` and ``html`` (502)."""
        self._down(_TOKEN, how, seconds)

    def token_up(self) -> None:
        self._up(_TOKEN)

    def _down(self, which: int, how: Spec, seconds: float | None) -> None:
        answer = None
        if how != "refuse":
            answer = _DOWN[how] if isinstance(how, str) and how in _DOWN else _answer(how)
        self._call(lambda: self._set(which, answer, refuse=answer is None, seconds=seconds))

    def _up(self, which: int) -> None:
        self._call(lambda: self._set(which, None))

    def _set(self, which: int, answer: Answer | None, *, refuse: bool = False, seconds: float | None = None) -> None:
        if (timer := self._timers.pop(which, None)) is not None:
            timer.cancel()
        if which == _SEND:
            self._site.send_down = answer
        else:
            self._site.token_down = answer
        door = self._server.doors[which]
        if refuse:
            self._server.refuse(door)
        else:
            self._server.open(door)
        if seconds is not None:
            self._timers[which] = self._loop.call_later(seconds, self._set, which, None)

    # -------------------------------------------------------------------------------------------------------- records

    @property
    def requests(self) -> list[Request]:
        """Requests to ``messages:send`` in the order of arrival; the last ``keep`` of them."""
        return self._site.records.all()

    def requests_of(self, token: str) -> list[Request]:
        """Those that named this token, installation id, topic or condition."""
        return [request for request in self.requests if request.token == token]

    def collapse_keys(self, token: str) -> list[tuple[str | None, str | None, str | None]]:
        """Of each request of the token: ``android.collapse_key``, ``apns-collapse-id``, the notification's tag."""
        return [request.collapse_keys for request in self.requests_of(token)]

    def wait_for(self, count: int, timeout: float = 10.0) -> list[Request]:
        """All requests, once there have been ``count``; :class:`TimeoutError` after ``timeout`` seconds."""
        return self._site.records.wait(count, timeout)

    @property
    def counters(self) -> Counters:
        return self._site.records.counters()

    def reset(self) -> None:
        """As new: no rules, no records, up. Access tokens, connections and the log file stay."""
        self._site.rules.clear()
        self.up()
        self.token_up()
        self._site.records.reset()
