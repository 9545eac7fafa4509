"""The HTTP side: one POST per try over few connections. Imported with the first message, because httpx is.

httpx on its own would send everything over one HTTP/2 connection, wait in it for a free stream without saying so, and
keep a stream open for each request that was given up. So a :class:`Wire` holds a fixed number of lanes, each a
transport with one connection of its own and at most :data:`IN_FLIGHT` requests in it, and replaces a lane on which
requests were given up.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
from attrs import define, frozen

__all__ = ["IN_FLIGHT", "Answer", "BusyError", "MaybeSentError", "UnreachableError", "Wire", "tls_context"]

#: Requests at once in one HTTP/2 connection: below the 100 streams that Google's servers, and httpx, allow.
IN_FLIGHT = 90
#: A lane on which so many requests were given up is replaced: their streams stay open in it.
GIVEN_UP = 10
#: An answer of FCM has a few hundred bytes; of whatever else answers, more than this tells nothing.
LONGEST_ANSWER = 65_536
CONNECT_SECONDS = 5.0


class BusyError(Exception):
    """Every connection was taken until the time was over. Nothing was sent."""


class UnreachableError(Exception):
    """Nobody was there to take the request: refused, no such name, no route, no TLS. Nothing was sent."""


class MaybeSentError(Exception):
    """The request was written, or part of it, and no answer came: FCM may have accepted the message."""


@frozen(eq=False)
class Answer:
    """What came back. Header names are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def tls_context() -> ssl.SSLContext:
    """Reads the certificate authorities: tens of milliseconds, for a thread."""
    return httpx.create_ssl_context()


@define(eq=False)
class _Lane:
    transport: httpx.AsyncHTTPTransport
    in_flight: int = 0
    given_up: int = 0
    retired: bool = False


class Wire:
    """The connections of one event loop to one endpoint."""

    def __init__(self, endpoint: str, *, connections: int, http2: bool, context: ssl.SSLContext | None) -> None:
        self._cleartext = urlsplit(endpoint).scheme == "http"
        self._context = context
        self._http2 = http2
        self._proxy = _proxy(endpoint)
        self._capacity = IN_FLIGHT if http2 else 1
        self._lanes = [self._lane() for _ in range(connections)]
        self._slots = asyncio.Semaphore(connections * self._capacity)

    def _lane(self) -> _Lane:
        return _Lane(
            httpx.AsyncHTTPTransport(
                verify=self._context if self._context is not None else True,
                # Without TLS nothing negotiates: HTTP/2 is spoken from the first byte ("prior knowledge").
                http1=not (self._http2 and self._cleartext),
                http2=self._http2,
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=60.0),
                proxy=self._proxy,
                retries=0,
            )
        )

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, within: float) -> Answer:
        """One POST, at most ``within`` seconds with waiting for a free slot. Never repeated here.

        :raises BusyError: no slot became free.
        :raises UnreachableError: nobody took the request.
        :raises MaybeSentError: the request may have arrived.
        """
        started = False
        try:
            async with asyncio.timeout(within), self._slots:
                started = True
                return await self._once(url, headers, body, within)
        except TimeoutError:
            if not started:
                raise BusyError(f"all connections were busy for {within:.3g} s") from None
            raise MaybeSentError(f"no answer within {within:.3g} s") from None

    async def _once(self, url: str, headers: Mapping[str, str], body: bytes, within: float) -> Answer:
        lane = min(self._lanes, key=lambda one: one.in_flight)
        lane.in_flight += 1
        answered = False
        try:
            answer = await self._request(lane, url, headers, body, within)
            answered = True
            return answer
        finally:
            lane.in_flight -= 1
            if not answered:
                await self._gave_up(lane)
            if lane.retired and lane.in_flight == 0:
                await lane.transport.aclose()

    async def _request(self, lane: _Lane, url: str, headers: Mapping[str, str], body: bytes, within: float) -> Answer:
        # Only connecting has a limit of its own. A read timeout of httpx would break the connection for every other
        # request in it; ours, around all of it, ends this request alone.
        limits = {"connect": min(CONNECT_SECONDS, within), "read": None, "write": None, "pool": None}
        request = httpx.Request("POST", url, headers=headers, content=body, extensions={"timeout": limits})
        try:
            response = await lane.transport.handle_async_request(request)
            try:
                return Answer(response.status_code, response.headers, await _content(response))
            finally:
                await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol) as error:
            raise UnreachableError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
        except httpx.HTTPError as error:
            raise MaybeSentError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None

    async def _gave_up(self, lane: _Lane) -> None:
        lane.given_up += 1
        if lane.given_up >= GIVEN_UP and not lane.retired and self._http2:
            lane.retired = True
            self._lanes[self._lanes.index(lane)] = self._lane()

    async def close(self) -> None:
        """Close every connection."""
        for lane in self._lanes:
            await lane.transport.aclose()


async def _content(response: httpx.Response) -> bytes:
    """To its end, so that the stream is closed; what is beyond the limit is dropped."""
    content = bytearray()
    async for part in response.aiter_raw():
        if len(content) < LONGEST_ANSWER:
            content += part
    return bytes(content[:LONGEST_ANSWER])


def _proxy(endpoint: str) -> str | None:
    """The proxy that the environment names (HTTPS_PROXY, NO_PROXY), as httpx's own client would find it."""
    parts = urlsplit(endpoint)
    if parts.scheme == "http" or not parts.hostname or proxy_bypass(parts.hostname):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    return (found if "://" in found else f"http://{found}") if found else None
