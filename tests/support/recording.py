"""A plugin whose channels append each call to a file and then do what the notification tells them.

``data={"acts": ["raise", "sent"]}`` says what the first try does, the second, and so on; the last one repeats, and
without acts everything is sent. Four channels do so, each in its own way of being called: ``async``, ``sync``,
``batch`` (a plain ``send_many``) and ``asyncbatch``.

An act may have a number behind a colon (``sleep:0.5``). Hanging acts end when the file ``gate`` exists. Lines go to the
file ``log`` with one write each in append mode, so that they survive whatever happens to the process next.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from sendoff.plugin import (
    BatchChannel,
    Channel,
    Context,
    Delivery,
    NoTarget,
    Outage,
    Permanent,
    Retryable,
    Sent,
    Verdict,
    hookimpl,
)

GATE_LOOK = 0.01


@frozen
class Config:
    """``[plugins.recording]``."""

    log: str | None = None
    gate: str | None = None


class _Recorder:
    """The file of calls and the acts, shared by the four channels."""

    def __init__(self, config: Config) -> None:
        self._log = config.log
        self._gate = Path(config.gate) if config.gate is not None else None

    def write(self, what: str, channel: str, delivery: Delivery) -> None:
        if self._log is None:
            return
        line = {
            "what": what,
            "channel": channel,
            "key": delivery.idempotency_key,
            "recipient": delivery.recipient,
            "attempt": delivery.attempt,
            "addresses": list(delivery.addresses),
            "progress": delivery.progress,
            "pid": os.getpid(),
            "at": time.monotonic(),
        }
        append(Path(self._log), line)

    def is_open(self) -> bool:
        return self._gate is not None and self._gate.exists()

    async def opened(self) -> None:
        while not self.is_open():  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(GATE_LOOK)


def append(path: Path, line: Mapping[str, Any]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, json.dumps(line).encode() + b"\n")
    finally:
        os.close(handle)


def act_of(delivery: Delivery) -> tuple[str, float]:
    """What this try does, and its number."""
    acts = dict(delivery.payload.get("data") or {}).get("acts") or ["sent"]
    name, _, number = acts[min(delivery.attempt, len(acts)) - 1].partition(":")
    return name, float(number or 0)


def answer(name: str, number: float) -> Verdict | None:
    """The verdict of an act, or what it raises, or the end of the process."""
    match name:
        case "none":
            return None
        case "nonsense":
            return 42  # type: ignore[return-value]  # what a careless channel returns
        case "no target":
            return NoTarget("nobody there")
        case "permanent":
            return Permanent("refused for good")
        case "retry" | "hang retry":
            return Retryable("try later", retry_after=number or None)
        case "uncounted":
            return Retryable("HTTP 503", counts=False)
        case "progress":
            return Retryable("half done", progress={"done": [1]})
        case "outage":
            return Outage("the provider is down")
        case "raise":
            raise ValueError("the channel raised")
        case "stop iteration":
            raise StopIteration
        case "exit":
            sys.exit(3)
        case "crash":
            os._exit(1)
    return Sent(provider_ref="ref")


class AsyncChannel(Channel):
    name = "async"

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    async def send(self, delivery: Delivery) -> Verdict | None:
        self._recorder.write("call", self.name, delivery)
        name, number = act_of(delivery)
        match name:
            case "sleep":
                await asyncio.sleep(number)
            case "hang" | "hang retry":
                await self._recorder.opened()
            case "ignore":
                while not self._recorder.is_open():
                    try:
                        await asyncio.sleep(GATE_LOOK)
                    except asyncio.CancelledError:
                        continue
        self._recorder.write("end", self.name, delivery)
        return answer(name, number)


class SyncChannel(Channel):
    name = "sync"

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def send(self, delivery: Delivery) -> Verdict | None:
        self._recorder.write("call", self.name, delivery)
        name, number = act_of(delivery)
        if name == "sleep":
            time.sleep(number)
        elif name in {"hang", "hang retry", "ignore"}:
            while not self._recorder.is_open():
                time.sleep(GATE_LOOK)
        self._recorder.write("end", self.name, delivery)
        return answer(name, number)


class SyncBatchChannel(BatchChannel):
    """A batch fails as a whole when a row raises; ``short`` and ``long`` answer a wrong number of verdicts."""

    name = "batch"

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def send_many(self, deliveries: Sequence[Delivery]) -> Sequence[Verdict | None]:
        return self._send(deliveries)

    def _send(self, deliveries: Sequence[Delivery]) -> Sequence[Verdict | None]:
        for delivery in deliveries:
            self._recorder.write("call", self.name, delivery)
        acts = [act_of(delivery) for delivery in deliveries]
        verdicts = [answer(name, number) for name, number in acts]
        names = {name for name, _ in acts}
        if "short" in names:
            return verdicts[:-1]
        return [*verdicts, Sent()] if "long" in names else verdicts


class AsyncBatchChannel(BatchChannel):
    name = "asyncbatch"

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    async def send_many(self, deliveries: Sequence[Delivery]) -> Sequence[Verdict | None]:
        await asyncio.sleep(0)
        return SyncBatchChannel._send(self, deliveries)  # type: ignore[arg-type]  # the same attributes


@hookimpl
def sendoff_channels(context: Context) -> list[Channel]:
    recorder = _Recorder(context.config("plugins.recording", Config))
    return [
        AsyncChannel(recorder),
        SyncChannel(recorder),
        SyncBatchChannel(recorder),
        AsyncBatchChannel(recorder),
    ]


# ------------------------------------------------------------------------------------------------- reading it back


def calls(log: Path, what: str = "call") -> list[dict[str, Any]]:
    """Every call (or ``end``) so far, oldest first."""
    if not log.exists():
        return []
    lines = log.read_bytes().split(b"\n")[:-1]
    return [line for line in map(json.loads, lines) if line["what"] == what]


def calls_by_key(log: Path) -> Counter[str]:
    """How often each idempotency key was sent."""
    return Counter(call["key"] for call in calls(log))
