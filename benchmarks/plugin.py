"""What the benchmarks send: notifications whose payload is about 300 bytes, over channels that do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sendoff import Delivery, Notification, Sendoff, Verdict
from sendoff.plugin import BatchChannel, Channel, Limits, hookimpl
from sendoff.settings import Settings
from sendoff_inbox import plugin as inbox

__all__ = ["CHANNEL", "Batches", "Singles", "content", "notifications", "sendoff_with"]

#: All channels have this name, so that all drain the same rows.
CHANNEL = "noop"

_BODY = "Your parcel left our warehouse this morning and should be with you on Thursday between 9 and 12 o'clock."


class Noop(Channel):
    """One call a row; every call succeeds at once."""

    name = CHANNEL
    limits = Limits(concurrency=500)

    async def send(self, delivery: Delivery) -> Verdict | None:
        return None


class NoopBatch(BatchChannel):
    """One call for as many rows as a claim brings."""

    name = CHANNEL
    limits = Limits(batch=500)

    async def send_many(self, deliveries: Sequence[Delivery]) -> Sequence[Verdict | None]:
        return [None] * len(deliveries)


class Singles:
    """The plugin with the plain channel."""

    @hookimpl
    def sendoff_channels(self) -> list[Channel]:
        return [Noop()]


class Batches:
    """The plugin with the batch channel."""

    @hookimpl
    def sendoff_channels(self) -> list[Channel]:
        return [NoopBatch()]


def sendoff_with(plugin: str, url: str) -> Sendoff:
    """Sendoff with the ``singles``, the ``batches``, or an ``inbox``, and nothing else."""
    channels = {CHANNEL: {"plugin": "inbox"}} if plugin == "inbox" else {}
    found = {"singles": Singles, "batches": Batches}.get(plugin)
    settings = Settings.load({"sendoff": {"database_url": url}, "channels": channels})
    return Sendoff(settings=settings, plugins=[inbox if found is None else found()], entry_points=False)


def content(number: int) -> dict[str, Any]:
    """Title, body and data of one notification."""
    order = {"order": number, "items": ["tea", "cups", "a kettle"], "carrier": "parcels", "url": f"/orders/{number}"}
    return {"title": f"Order {number} is on its way", "body": _BODY, "data": order}


def notifications(start: int, count: int, run: str) -> list[Notification]:
    """``count`` notifications with dedup keys of their own, for ten thousand recipients."""
    return [
        Notification(
            recipient=f"user-{number % 10_000}",
            type="order.shipped",
            channels=[CHANNEL],
            dedup_key=f"{run}:{number}:shipped",
            **content(number),
        )
        for number in range(start, start + count)
    ]
