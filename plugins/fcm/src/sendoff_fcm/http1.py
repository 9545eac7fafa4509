"""HTTP/1.1 through httpx: for endpoints and proxies that speak nothing else. One request at a time per connection."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import httpx

from sendoff_fcm.replies import LONGEST_ANSWER, Answer, MaybeSentError, UnreachableError

__all__ = ["Http1"]


class Http1:
    """A bounded number of connections of one event loop."""

    def __init__(self, *, connections: int, context: ssl.SSLContext | None, proxy: str | None) -> None:
        self._transport = httpx.AsyncHTTPTransport(
            verify=context if context is not None else True,
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            proxy=proxy,
            retries=0,
        )

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, connect: float) -> Answer:
        """One POST; the caller ends it when it takes too long, ``connect`` seconds are for connecting alone."""
        limits = {"connect": connect, "read": None, "write": None, "pool": None}
        request = httpx.Request("POST", url, headers=headers, content=body, extensions={"timeout": limits})
        try:
            response = await self._transport.handle_async_request(request)
            try:
                content = bytearray()
                async for part in response.aiter_raw():
                    if len(content) < LONGEST_ANSWER:
                        content += part
            finally:
                await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol) as error:
            raise UnreachableError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
        except httpx.HTTPError as error:
            raise MaybeSentError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
        return Answer(response.status_code, response.headers, bytes(content[:LONGEST_ANSWER]))

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.aclose()
