"""Threads for channels that block.

Not a :class:`concurrent.futures.ThreadPoolExecutor`: Python waits for its threads when the process ends, and a send
that hangs for ever would keep a worker from leaving. These are daemons; what they still do when the process leaves is
what a crash would leave too, and the lease answers for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

__all__ = ["DaemonThreads"]


class DaemonThreads:
    """At most ``size`` threads, started when there is something to do. The caller sees to it that no more than
    ``size`` calls are under way."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = (
            queue.SimpleQueue()
        )
        self._idle = threading.Semaphore(0)
        self._started = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call ``function`` in a thread."""
        future: Future[Any] = Future()
        self._jobs.put((future, function, arguments))
        if not self._idle.acquire(blocking=False) and self._started < self._size:
            self._started += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        return future

    def close(self) -> None:
        """Let idle threads end; the others end with their call."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, function, arguments = job
            del job
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*arguments))
                except BaseException as error:  # noqa: BLE001 - it is the future's to tell
                    future.set_exception(error)
            del future, function, arguments
            self._idle.release()
