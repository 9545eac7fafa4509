"""Telling plugins what became of rows, beside the settling: an observer that hangs or fails holds up nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from sendoff.plugin.registry import Registry
from sendoff.settlement import Settlement
from sendoff.threads import DaemonThreads

__all__ = ["Observers"]

logger = logging.getLogger("sendoff")

#: Settlements kept for observers that are slower than the worker.
MOST_UNSEEN = 50_000


class Observers:
    """The ``sendoff_settled`` hooks, called in a thread, one batch after the other."""

    def __init__(self, registry: Registry, threads: DaemonThreads) -> None:
        self._registry = registry
        self._threads = threads
        self._seen: list[Settlement] = []
        self._observing: asyncio.Future[Any] | None = None

    @property
    def wanted(self) -> bool:
        """Whether anybody watches."""
        return self._registry.observers()

    def tell(self, seen: Sequence[Settlement]) -> None:
        """Tell them, as soon as they have heard what came before."""
        self._seen += seen
        self._show()

    async def told(self) -> None:
        """Wait until they have heard everything."""
        while self._observing is not None and not self._observing.done():
            await asyncio.wait([self._observing])
            await asyncio.sleep(0)

    def _show(self) -> None:
        if len(self._seen) > MOST_UNSEEN:
            logger.error("a sendoff_settled hook is too slow; %d settlements go unobserved", len(self._seen))
            self._seen = []
        if self._seen and (self._observing is None or self._observing.done()):
            seen, self._seen = self._seen, []
            self._observing = asyncio.wrap_future(self._threads.submit(self._observe, seen))
            self._observing.add_done_callback(lambda _: self._show())

    def _observe(self, seen: list[Settlement]) -> None:
        try:
            for _ in self._registry.call("sendoff_settled", settlements=seen):
                pass
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an observer may raise anything and harms nothing
            logger.error("a sendoff_settled hook raised %s: %s", type(error).__name__, error)
