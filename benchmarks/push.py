"""Push: the fcm plugin's channel beside the SDK's own calls, all against one local FCM in another process."""

from __future__ import annotations

import http.client
import select
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from benchmarks.forks import forks
from benchmarks.senders import SENDERS, Figures, Where, run
from benchmarks.workloads import SENDOFF, Figure, Workload
from sendoff_fcm.config import FcmConfig

__all__ = ["NAMES", "LocalPush", "push_workloads"]

NAMES = ("fcm-send", "fcm-memory")
#: Seconds for a process to come up, and for all of its messages.
START, PATIENCE = 60.0, 600.0
#: What the channel may have: the loop's own thread, one that loaded the credential, one that renews a token.
MOST_THREADS = 3
MOST_CONNECTIONS = FcmConfig().connections
#: Ours, on which the local FCM is asked what it saw.
ASKING = 1


class PushFailed(Exception):
    """A sender died, hung, or did not do its work: there is no figure."""


class LocalPush:
    """The local FCM, and one process at a time that sends to it."""

    def __init__(self, folder: Path, messages: int) -> None:
        account = folder / "service-account.json"
        command = [sys.executable, "-m", "sendoff_fcm.testing", "--service-account", str(account)]
        self._server = subprocess.Popen([*command, "--keep", str(messages)], stdout=subprocess.PIPE, text=True)
        assert self._server.stdout is not None
        if not select.select([self._server.stdout], [], [], START)[0]:
            self._server.kill()
            raise PushFailed("the local FCM did not start")
        told = orjson.loads(self._server.stdout.readline())
        self._where = Where(told["endpoint"], told["project"], str(account))
        at = urlsplit(self._where.endpoint)
        self._control = http.client.HTTPConnection(at.hostname or "", at.port, timeout=START)
        self._seen: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._control.close()
        self._server.terminate()
        self._server.communicate(timeout=START)

    def measure(self, subject: str, messages: int) -> tuple[Figures, int]:
        """Figures, and the most connections at once. Every message was accepted, and asked for once."""
        context = forks()
        ours, theirs = context.Pipe()
        sender = context.Process(target=run, args=(subject, self._where, messages, theirs), daemon=True)
        sender.start()
        theirs.close()
        try:
            if not self._answer(ours, START, subject):
                raise PushFailed(f"{subject}: the local FCM refused messages")
            self._ask("POST", "reset")
            ours.send("start")
            figures: Figures = self._answer(ours, PATIENCE, subject)
            counters = self._ask("GET", "counters")
            ours.send("end")
            sender.join(START)
        finally:
            if sender.is_alive():
                sender.kill()
            sender.join()
        if (figures.accepted, counters["accepted"], counters["requests"]) != (messages, messages, messages):
            raise PushFailed(f"{subject}: {figures.accepted} of {messages} messages were accepted; {counters}")
        connections = counters["connections_peak"] - ASKING
        if subject == SENDOFF and (figures.threads > MOST_THREADS or connections > MOST_CONNECTIONS):
            raise PushFailed(f"{subject}: {figures.threads} threads, {connections} connections")
        return figures, connections

    def compare(self, subject: str) -> None:
        """What was asked for since the start of the last measurement is what the others asked for."""
        seen = {one["token"]: one["message"] for one in self._ask("GET", "requests")["requests"]}
        if self._seen is None:
            self._seen = seen
        elif self._seen != seen:
            raise PushFailed(f"{subject} sent other messages than the rest: the figures cannot be compared")

    def _answer(self, pipe: Any, seconds: float, subject: str) -> Any:
        if not pipe.poll(seconds):
            raise PushFailed(f"{subject} did not come to an end")
        try:
            return pipe.recv()
        except EOFError:
            raise PushFailed(f"{subject} ended too early") from None

    def _ask(self, method: str, verb: str) -> Any:
        self._control.request(method, f"/_control/{verb}")
        with self._control.getresponse() as response:
            return orjson.loads(response.read())


def push_workloads(push: LocalPush, messages: int, sends: int) -> list[Workload]:
    """Speed and cost beside the SDK, and memory over many messages."""
    return [
        Workload(
            "fcm-send",
            (
                Figure("fcm-send", "messages/s"),
                Figure("fcm-cpu", "us/message", less_is_better=True),
                Figure("fcm-threads", "threads", less_is_better=True),
                Figure("fcm-connections", "open", less_is_better=True),
            ),
            MappingProxyType({subject: partial(_send, push, subject, messages) for subject in SENDERS}),
            tuple(subject for subject in SENDERS if subject != SENDOFF),
        ),
        Workload(
            "fcm-memory",
            (Figure("fcm-memory", "MiB", less_is_better=True),),
            MappingProxyType({SENDOFF: partial(_memory, push, sends)}),
            ("after a fifth",),
        ),
    ]


def _send(push: LocalPush, subject: str, messages: int) -> dict[str, dict[str, float]]:
    figures, connections = push.measure(subject, messages)
    push.compare(subject)
    found = {
        "fcm-send": messages / figures.seconds,
        "fcm-cpu": figures.cpu / messages * 1e6,
        "fcm-threads": float(figures.threads),
        "fcm-connections": float(connections),
    }
    return {name: {subject: value} for name, value in found.items()}


def _memory(push: LocalPush, sends: int) -> dict[str, dict[str, float]]:
    figures, _ = push.measure(SENDOFF, sends)
    return {"fcm-memory": {SENDOFF: figures.memory_late, "after a fifth": figures.memory_early}}
