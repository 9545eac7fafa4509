"""The same push messages sent in three ways, in a process of their own: by the plugin's channel, and by the SDK alone.

Each way sends to a local FCM and counts what it accepted. All messages of a number are equal, whoever sends them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import threading
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

import psutil
from attrs import frozen

from benchmarks.plugin import content
from sendoff import Delivery, Notification
from sendoff.plugin import Context, Secret, Sent
from sendoff.settings import Settings
from sendoff_fcm.channel import FcmChannel
from sendoff_fcm.config import FcmConfig
from sendoff_fcm.message import apns_collapse_id, webpush_topic

__all__ = ["IN_FLIGHT", "SENDERS", "Figures", "Where", "run"]

#: Messages at once: what a worker gives the channel, and what one call of the SDK gets.
IN_FLIGHT = FcmChannel.limits.concurrency or 150
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
#: Contents that take turns.
CONTENTS = 100
#: Seconds between two looks at the number of threads.
LOOK = 0.02
#: Of a run that looks at memory, the part after which the first look is taken.
SETTLED = 0.2
MIB = 2**20


@frozen
class Where:
    """A local FCM."""

    endpoint: str
    project: str
    service_account: str


@frozen
class Figures:
    """What one process found. Memory: resident MiB after a fifth of the messages, and after the last."""

    accepted: int
    seconds: float
    cpu: float
    threads: int
    memory_early: float
    memory_late: float


class Sender(Protocol):
    """One way to send."""

    async def open(self, where: Where) -> None:
        """Get ready."""

    async def send(self, numbers: range, run: str) -> int:
        """Send these messages; how many were accepted."""

    async def close(self) -> None:
        """Close the connections."""


def ids(number: int) -> tuple[UUID, UUID]:
    """Of the outgoing row and of its notification: version 7, the same for every sender."""
    return UUID(int=0x7 << 76 | 0b10 << 62 | number), UUID(int=1 << 80 | 0x7 << 76 | 0b10 << 62 | number)


class Plugin:
    """The plugin's channel, called as a worker calls it: each message in a call of its own, so many at once."""

    async def open(self, where: Where) -> None:
        config = FcmConfig(credentials=Secret(where.service_account), endpoint=where.endpoint)
        self._channel = FcmChannel("fcm", config, Context(Settings.load({}, environ={}), _no_engine))
        self._contents = payloads(self._channel)
        await self._channel.start()
        await self._channel.tokens.get(20.0)

    async def send(self, numbers: range, run: str) -> int:
        left = iter(numbers)
        accepted: list[int] = await asyncio.gather(*[self._some(left, run) for _ in range(IN_FLIGHT)])
        return sum(accepted)

    async def _some(self, left: Iterator[int], run: str) -> int:
        accepted = 0
        for number in left:
            outgoing, notification = ids(number)
            verdict = await self._channel.send(
                Delivery(
                    id=outgoing,
                    notification_id=notification,
                    recipient=f"user-{number}",
                    channel="fcm",
                    type="order.shipped",
                    payload=self._contents[number % CONTENTS],
                    addresses=(token(number, run),),
                    idempotency_key=str(outgoing),
                    created_at=CREATED,
                    deadline=time.monotonic() + 60.0,
                )
            )
            accepted += isinstance(verdict, Sent)
        return accepted

    async def close(self) -> None:
        await self._channel.stop()


class SendEach:
    """``messaging.send_each``: HTTP/1.1 through requests, a thread for each message of a call."""

    async def open(self, where: Where) -> None:
        import firebase_admin  # type: ignore[import-untyped]  # the SDK has no types
        import requests
        from firebase_admin import _http_client, credentials, messaging

        channel = FcmChannel("fcm", FcmConfig(), Context(Settings.load({}, environ={}), _no_engine))
        self._contents = payloads(channel)
        self._sdk: Any = messaging
        self._app = firebase_admin.initialize_app(credentials.Certificate(where.service_account), name="bench")
        # The SDK has no setting for another address; the adapter is the one it makes for Google's.
        service = self._service = messaging._get_messaging_service(self._app)  # noqa: SLF001
        service._fcm_url = f"{where.endpoint}/v1/projects/{where.project}/messages:send"  # noqa: SLF001
        retry = _http_client.DEFAULT_RETRY_CONFIG
        adapter = requests.adapters.HTTPAdapter(pool_connections=100, pool_maxsize=100, max_retries=retry)
        service._client.session.mount(where.endpoint, adapter)  # noqa: SLF001
        logging.getLogger("urllib3").setLevel(logging.ERROR)

    async def send(self, numbers: range, run: str) -> int:
        accepted = 0
        for start in range(0, len(numbers), IN_FLIGHT):
            messages = [self._message(number, run) for number in numbers[start : start + IN_FLIGHT]]
            accepted += (await self._call(messages)).success_count
        return accepted

    async def _call(self, messages: list[Any]) -> Any:
        return self._sdk.send_each(messages, app=self._app)

    async def close(self) -> None:
        self._service._client.close()  # noqa: SLF001

    def _message(self, number: int, run: str) -> Any:
        sdk, payload = self._sdk, self._contents[number % CONTENTS]
        outgoing, notification = map(str, ids(number))
        return sdk.Message(
            token=token(number, run),
            data={**payload["data"], "notification_id": notification, "outgoing_id": outgoing},
            notification=sdk.Notification(title=payload["title"], body=payload["body"]),
            android=sdk.AndroidConfig(
                collapse_key=outgoing, priority="high", notification=sdk.AndroidNotification(tag=outgoing)
            ),
            apns=sdk.APNSConfig(
                headers={"apns-collapse-id": apns_collapse_id(outgoing), "apns-priority": "10"},
                payload=sdk.APNSPayload(sdk.Aps()),
            ),
            webpush=sdk.WebpushConfig(
                headers={"Topic": webpush_topic(outgoing)}, notification=sdk.WebpushNotification(tag=outgoing)
            ),
        )


class SendEachAsync(SendEach):
    """``messaging.send_each_async``: HTTP/2 through httpx, all messages of a call at once."""

    async def open(self, where: Where) -> None:
        await super().open(where)
        import httpx
        from firebase_admin import _http_client

        # As the SDK makes it, but that without TLS both sides have to know that it is HTTP/2.
        client = self._service._async_client  # noqa: SLF001
        transport = _http_client.HttpxRetryTransport(retry=_http_client.DEFAULT_HTTPX_RETRY_CONFIG, http1=False)
        client._async_client = httpx.AsyncClient(  # noqa: SLF001
            timeout=client.timeout,
            headers=_http_client.METRICS_HEADERS,
            auth=_http_client.GoogleAuthCredentialFlow(self._app.credential.get_credential()),
            mounts={"http://": transport},
        )

    async def _call(self, messages: list[Any]) -> Any:
        return await self._sdk.send_each_async(messages, app=self._app)

    async def close(self) -> None:
        await self._service._async_client.aclose()  # noqa: SLF001
        await super().close()


#: By the subject's name in the results.
SENDERS: dict[str, type[Sender]] = {"sendoff": Plugin, "send_each": SendEach, "send_each_async": SendEachAsync}


def payloads(channel: FcmChannel) -> list[dict[str, Any]]:
    """What is in the rows: made at enqueue, in another process than this."""
    made = [Notification(recipient="u", type="order.shipped", **content(number)) for number in range(CONTENTS)]
    return [channel.prepare(one) for one in made]


def token(number: int, run: str) -> str:
    """As long as real ones."""
    return f"{run}-{number:06d}:" + "APA91b" * 24


def run(subject: str, where: Where, messages: int, pipe: Any) -> None:
    """The process: get ready, say so, wait for the start, send, give the :class:`Figures`."""
    warnings.simplefilter("ignore", DeprecationWarning)  # the SDK warns of tokens for each message
    asyncio.run(_run(SENDERS[subject](), where, messages, pipe))


async def _run(sender: Sender, where: Where, messages: int, pipe: Any) -> None:
    await sender.open(where)
    warm = min(IN_FLIGHT, messages)
    ready = await sender.send(range(warm), "warm") == warm
    # As a worker does.
    gc.freeze()
    gc.set_threshold(20_000)
    pipe.send(ready)
    pipe.recv()
    me, threads = psutil.Process(), Threads()
    first = max(1, int(messages * SETTLED))
    threads.start()
    cpu, began = _cpu(), time.perf_counter()
    accepted = await sender.send(range(first), "push")
    early = me.memory_info().rss
    accepted += await sender.send(range(first, messages), "push")
    seconds, cpu = time.perf_counter() - began, _cpu() - cpu
    most = threads.stop()
    pipe.send(Figures(accepted, seconds, cpu, most, early / MIB, me.memory_info().rss / MIB))
    pipe.recv()
    await sender.close()


class Threads:
    """The most threads that there were, but for the one that looks."""

    def __init__(self) -> None:
        self._most = 1
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> int:
        self._enough.set()
        self._thread.join()
        return self._most

    def _look(self) -> None:
        while not self._enough.wait(LOOK):
            self._most = max(self._most, threading.active_count() - 1)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _no_engine() -> Any:
    raise AssertionError("no database is needed here")
