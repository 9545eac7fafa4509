"""Channels, deliveries and settings as the core would make them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import sqlalchemy as sa
import uuid_utils
from attrs import evolve

from sendoff.plugin import Context, Delivery, Notification, Priority, Secret, Verdict
from sendoff.settings import Settings
from sendoff_fcm.access import AccessError
from sendoff_fcm.channel import FcmChannel
from sendoff_fcm.config import FcmConfig
from sendoff_fcm.testing import LocalFCM

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "fcm_cases.json").read_text())
VERDICTS = {"Sent": "sent", "NoTarget": "no_target", "Retryable": "retryable", "Permanent": "permanent"}
PUSH: dict[str, Any] = {"title": "On its way", "body": "Your order has left"}

T = TypeVar("T")


def kind_of(verdict: Verdict) -> str:
    return VERDICTS.get(type(verdict).__name__, type(verdict).__name__.lower())


def uuid7() -> UUID:
    return UUID(bytes=uuid_utils.uuid7().bytes)


def delivery(
    *addresses: str,
    payload: dict[str, Any] | None = None,
    seconds: float = 20.0,
    outgoing_id: UUID | None = None,
    collapse_key: str | None = None,
    progress: dict[str, Any] | None = None,
    priority: Priority = Priority.NORMAL,
    ttl: float | None = None,
) -> Delivery:
    key = outgoing_id or uuid7()
    return Delivery(
        id=key,
        notification_id=uuid4(),
        recipient="u1",
        channel="fcm",
        type="order.shipped",
        payload=PUSH if payload is None else payload,
        addresses=addresses or ("phone-1",),
        idempotency_key=str(key),
        collapse_key=collapse_key,
        progress=progress,
        priority=priority,
        created_at=datetime.now(UTC),
        deadline=time.monotonic() + seconds,
        expiry=None if ttl is None else time.monotonic() + ttl,
    )


def context_for(engine: Callable[[], sa.Engine], **channels: dict[str, Any]) -> Context:
    return Context(Settings.load({"channels": channels}, environ={}), engine)


def no_engine() -> sa.Engine:
    raise AssertionError("the database is not needed here")


def config_for(fcm: LocalFCM, **changes: Any) -> FcmConfig:
    config = FcmConfig(credentials=Secret(json.dumps(fcm.service_account())), endpoint=fcm.endpoint, token_timeout=2.0)
    return evolve(config, **changes)


def channel_for(fcm: LocalFCM, engine: Callable[[], sa.Engine] = no_engine, **changes: Any) -> FcmChannel:
    return FcmChannel("fcm", config_for(fcm, **changes), context_for(engine))


def sent_by(channel: FcmChannel, *deliveries: Delivery, at_once: bool = False, seconds: float = 20.0) -> list[Verdict]:
    """Send them on a loop of their own, one after the other or all at once, each within ``seconds`` of its start."""

    async def send() -> Sequence[Verdict]:
        started = [evolve(one, deadline=time.monotonic() + seconds) for one in deliveries]
        if at_once:
            return await asyncio.gather(*[channel.send(one) for one in started])
        return [await channel.send(one) for one in started]

    return list(on_a_loop(channel, send))


def on_a_loop(channel: FcmChannel, work: Callable[[], Awaitable[T]]) -> T:
    """What ``work`` gives, with the access token fetched before: the test's deadlines are for the message."""

    async def run() -> T:
        with suppress(AccessError):
            await channel.tokens.get(20.0)
        try:
            return await work()
        finally:
            await channel.stop()

    return asyncio.run(run())


def prepared(channel: FcmChannel, **content: Any) -> dict[str, Any]:
    options = content.pop("options", None)
    more: dict[str, Any] = {"options": {"fcm": options}} if options is not None else {}
    return channel.prepare(Notification(**{"recipient": "u1", "type": "order.shipped", **content, **more}))
