"""Loops that end: whatever plugins left running, and whoever asked for the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from sendoff.threads import DaemonThreads

__all__ = ["run_loop", "signals_to"]

logger = logging.getLogger("sendoff")

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds that cancelled tasks have to end.
PATIENCE = 2.0
#: Threads for what channels hand to ``asyncio.to_thread``.
DEFAULT_THREADS = 32


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """As :func:`asyncio.run`, but never held up: tasks that ignore their cancellation and threads that hang are left
    behind."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_DefaultThreads())
    try:
        asyncio.set_event_loop(loop)
        return _to_the_end(loop, loop.create_task(work))
    finally:
        try:
            loop.run_until_complete(_end_tasks())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _to_the_end(loop: asyncio.AbstractEventLoop, work: asyncio.Task[T]) -> T:
    """A plugin's task that calls ``sys.exit`` ends that task; asyncio would end the loop under everybody else."""
    while True:
        try:
            return loop.run_until_complete(work)
        except SystemExit as error:
            if work.done():
                raise
            logger.error("a task of a plugin called sys.exit(%s); the others go on", error.code)


async def _end_tasks() -> None:
    """Twice, because tasks that end may have begun others."""
    for _ in range(2):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=PATIENCE / 2)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_asyncgens(), PATIENCE)


class _DefaultThreads(ThreadPoolExecutor):
    """A subclass only because asyncio takes no other kind as its default."""

    def __init__(self) -> None:
        super().__init__(1)
        self._daemons = DaemonThreads(DEFAULT_THREADS, "sendoff-loop")

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._daemons.submit(lambda: fn(*args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._daemons.close()


@contextlib.contextmanager
def signals_to(handler: Callable[[], None]) -> Iterator[None]:
    """Call ``handler`` for SIGTERM and SIGINT during the block, even while a channel blocks the loop; afterwards the
    handlers are as they were. Only the main thread has signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        handler()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handling in before.items():
            signal.signal(number, signal.SIG_DFL if handling is None else handling)
