"""From a leased row to exactly one verdict: the exception wall around channels.

Whatever a channel does (return, raise, hang, return nonsense) becomes a verdict. Nothing here touches the database.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any

from sendoff.jsonsafe import as_text
from sendoff.notification import PAYLOAD_VERSION_KEY, Delivery, Priority
from sendoff.plugin.channel import BatchChannel, Channel, as_verdict
from sendoff.store.claim import Claimed
from sendoff.verdict import NoTarget, Retryable, Verdict

__all__ = ["accept_verdicts", "classify", "idempotency_key", "is_async", "knows_payload", "make_delivery"]

_PRIORITIES = {int(priority): priority for priority in Priority}


def idempotency_key(row: Claimed) -> str:
    """The same for every try of a row, new after a requeue."""
    return f"{row.id}-{row.requeue_count}" if row.requeue_count else str(row.id)


def knows_payload(row: Claimed, channel: Channel) -> bool:
    """Whether this version of the channel can send what ``prepare`` wrote, perhaps a newer one's."""
    version = row.payload.get(PAYLOAD_VERSION_KEY, 1)
    return isinstance(version, int) and version <= channel.payload_version


def make_delivery(row: Claimed, addresses: Sequence[str], claimed_at: float, timeout: float) -> Delivery:
    """The row as its channel sees it. ``claimed_at`` is the monotonic time of the claim, to which the database's
    clock is tied; the deadline is ``timeout`` seconds from now."""
    payload = dict(row.payload)
    payload.pop(PAYLOAD_VERSION_KEY, None)
    return Delivery(
        id=row.id,
        notification_id=row.notification_id,
        recipient=row.recipient,
        channel=row.channel,
        type=row.type,
        payload=payload,
        addresses=tuple(addresses),
        attempt=row.try_count + 1,
        idempotency_key=idempotency_key(row),
        collapse_key=row.collapse_key,
        priority=_PRIORITIES[row.priority],
        progress=row.progress,
        meta=row.meta or {},
        created_at=row.created_at,
        deadline=time.monotonic() + timeout,
        expiry=None if row.expires_in is None else claimed_at + row.expires_in,
    )


def is_async(channel: Channel) -> bool:
    """Whether the channel's sending runs on the loop (``async def``) or in threads of its own."""
    method = channel.send_many if isinstance(channel, BatchChannel) else channel.send
    return inspect.iscoroutinefunction(method)


def needs_no_call(channel: Channel, addresses: Sequence[str]) -> NoTarget | None:
    """The verdict on a row that needs an address and has none."""
    return NoTarget("no address") if channel.needs_address and not addresses else None


def classify(channel: Channel, error: BaseException) -> Verdict:
    """The channel's own word on what it raised; a classifier that fails itself is not believed."""
    if not isinstance(error, Exception):
        return Retryable(f"{type(error).__name__} in send()", maybe_sent=True)
    try:
        verdict = channel.classify(error)
    except (Exception, SystemExit) as fault:  # noqa: BLE001 - the wall: a plugin may raise anything
        return Retryable(
            f"{type(error).__name__}: {as_text(error)} (and classify() raised {type(fault).__name__})", maybe_sent=True
        )
    if verdict is None:
        return Retryable(f"{type(error).__name__}: {as_text(error)} (and classify() returned None)", maybe_sent=True)
    return as_verdict(verdict, what="classify()")


def accept_verdicts(answer: object, count: int) -> list[Verdict]:
    """What ``send_many`` returned as one verdict each; a wrong number tells nothing about any of them."""
    if isinstance(answer, Sequence) and not isinstance(answer, str | bytes) and len(answer) == count:
        return [as_verdict(item, what="send_many()") for item in answer]
    got = f"{len(answer)} verdicts" if isinstance(answer, Sequence) else type(answer).__name__
    return [Retryable(f"send_many() returned {got} for {count} deliveries", maybe_sent=True)] * count


def call_in_thread(method: Callable[[Any], Any], argument: Any) -> Any:
    """Call a synchronous ``send`` or ``send_many``; one that returns an awaitable gets a loop for it."""
    try:
        answer = method(argument)
    except StopIteration as error:
        # A future cannot hold this one: its waiter would never hear of it.
        raise RuntimeError("StopIteration") from error
    return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer


async def _awaited(answer: Any) -> Any:
    return await answer
