"""How the thread that hears of new entries wakes those who wait for them, in threads and on event loops."""

from __future__ import annotations

import asyncio
import contextlib
import threading

__all__ = ["Bell"]


class Bell:
    """Stays rung until it is muffled. One listener waits at a time; anybody may ring, from any thread."""

    def __init__(self, recipient: str) -> None:
        self.recipient = recipient
        self._lock = threading.Lock()
        self._rung = threading.Event()
        self._announced = False
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def rung(self) -> bool:
        """Whether there is something to look for."""
        return self._rung.is_set()

    def ring(self, *, announced: bool = False) -> None:
        """Wake who waits, or whoever waits next. ``announced``: only from now on does every batch ring."""
        with self._lock:
            self._announced |= announced
            self._rung.set()
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                future.get_loop().call_soon_threadsafe(_resolve, future)

    def muffle(self) -> bool:
        """Forget the rings so far: call it before looking, never after. Whether one of them announced."""
        with self._lock:
            self._rung.clear()
            announced, self._announced = self._announced, False
            return announced

    def wait(self, seconds: float) -> None:
        """Until it is rung, or for so many seconds."""
        self._rung.wait(seconds)

    async def wait_async(self, seconds: float) -> None:
        """The same on an event loop. May be cancelled."""
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._rung.is_set():
                return
            self._waiting.add(future)
        try:
            await asyncio.wait([future], timeout=seconds)
        finally:
            with self._lock:
                self._waiting.discard(future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
