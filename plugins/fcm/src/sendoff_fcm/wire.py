"""The HTTP side: one POST per try over few connections. Imported with the first message.

HTTP/2 is spoken by :mod:`sendoff_fcm.http2`, on the library under httpx (``h2``) and not through httpx itself, which
repeats a request by itself after a GOAWAY (one try was several POSTs), keeps a stream open for each request that is
given up (a hundred of them and the connection hangs), and takes three times the processor time for each message.
HTTP/1.1, and anything through a proxy, is httpx's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from attrs import define, field

from sendoff_fcm.http2 import Connection, connect
from sendoff_fcm.replies import Answer, BusyError, MaybeSentError, UnreachableError

__all__ = ["IN_FLIGHT", "Wire", "tls_context"]

#: Requests at once in one HTTP/2 connection: below the 100 streams that Google's servers allow.
IN_FLIGHT = 90
CONNECT_SECONDS = 5.0


def tls_context(*, http2: bool) -> ssl.SSLContext:
    """Reads the certificate authorities, those of the HTTP clients beside us (``SSL_CERT_FILE``, else certifi's): tens
    of milliseconds, for a thread."""
    import httpx

    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["h2"] if http2 else ["http/1.1"])
    return context


@define(eq=False)
class _Lane:
    """A place for one connection at a time."""

    connection: Connection | None = None
    in_flight: int = 0
    opening: asyncio.Lock = field(factory=asyncio.Lock)


class Wire:
    """The connections of one event loop to one endpoint."""

    def __init__(self, endpoint: str, *, connections: int, http2: bool, context: ssl.SSLContext | None) -> None:
        self._where = urlsplit(endpoint)
        self._context = context
        self._proxy = _proxy(self._where)
        self._lanes = [_Lane() for _ in range(connections)]
        self._http1 = None
        if not http2 or self._proxy is not None:
            from sendoff_fcm.http1 import Http1

            self._http1 = Http1(connections=connections, context=context, proxy=self._proxy)
        self._slots = asyncio.Semaphore(connections * (1 if self._http1 else IN_FLIGHT))
        self._leaving: set[Connection] = set()

    async def post(self, path: str, headers: Mapping[str, str], body: bytes, within: float) -> Answer:
        """One POST, at most ``within`` seconds with waiting for a free slot. Never repeated here.

        ``headers``: names in small letters.

        :raises BusyError: no slot became free.
        :raises UnreachableError: nobody took the request.
        :raises NotTakenError: the server says that it did not look at the request.
        :raises MaybeSentError: the request may have arrived.
        """
        stage = "waiting"
        try:
            async with asyncio.timeout(within), self._slots:
                if self._http1 is not None:
                    stage = "writing"
                    url = f"{self._where.scheme}://{self._where.netloc}{path}"
                    # Less than all of the time, so that httpx itself says that it was the connecting.
                    return await self._http1.post(url, headers, body, min(CONNECT_SECONDS, 0.9 * within))
                stage = "connecting"
                lane = self._lane()
                lane.in_flight += 1
                try:
                    connection = lane.connection
                    if connection is None or not connection.usable:
                        connection = await self._open(lane)
                    stage = "writing"
                    return await connection.post(self._where.scheme, self._where.netloc, path, headers, body)
                finally:
                    lane.in_flight -= 1
        except TimeoutError:
            if stage == "waiting":
                raise BusyError(f"all connections were busy for {within:.3g} s") from None
            if stage == "connecting":
                raise UnreachableError(f"{self._where.netloc} took no connection within {within:.3g} s") from None
            raise MaybeSentError(f"no answer within {within:.3g} s") from None

    def _lane(self) -> _Lane:
        """With the slots there is always one below IN_FLIGHT; the first serves alone while little is to do."""
        relaxed = (one for one in self._lanes if one.in_flight < IN_FLIGHT // 2)
        return next(relaxed, None) or min(self._lanes, key=lambda one: one.in_flight)

    async def _open(self, lane: _Lane) -> Connection:
        async with lane.opening:
            if lane.connection is None or not lane.connection.usable:
                if lane.connection is not None:
                    # What is still in it is answered; it closes itself after the last.
                    self._leaving.add(lane.connection)
                    lane.connection.when_closed(self._leaving.discard)
                    lane.connection.leave()
                lane.connection = await self._connect()
            return lane.connection

    async def _connect(self) -> Connection:
        host, port = self._where.hostname or "", self._where.port or (443 if self._where.scheme == "https" else 80)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await connect(host, port, self._context if self._where.scheme == "https" else None)
        except TimeoutError:
            raise UnreachableError(f"{host}:{port} took no connection within {CONNECT_SECONDS:g} s") from None
        except OSError as error:
            # Of the operating system, of name resolution, and of TLS.
            raise UnreachableError(f"{host}:{port}: {type(error).__name__}: {error}") from None

    async def close(self) -> None:
        """Close every connection."""
        for connection in [*(lane.connection for lane in self._lanes), *self._leaving]:
            if connection is not None:
                await connection.close()
        if self._http1 is not None:
            await self._http1.close()


def _proxy(where: SplitResult) -> str | None:
    """The proxy that the environment names (HTTPS_PROXY, NO_PROXY), as HTTP clients in general find it."""
    if where.scheme == "http" or not where.hostname or proxy_bypass(where.hostname):
        return None
    proxies = getproxies()
    found = proxies.get(where.scheme) or proxies.get("all")
    return (found if "://" in found else f"http://{found}") if found else None
