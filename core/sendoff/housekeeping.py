"""What a worker does by the clock and after each settle: tidy, wake, run fetchers, say that it is here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sendoff.claimer import Claimer
from sendoff.errors import SendoffError, StoreError, StoreUnavailable
from sendoff.fetch import FetchRunner
from sendoff.observers import Observers
from sendoff.runner import ChannelRunner
from sendoff.serving import Serving
from sendoff.settler import Outcome, settlement
from sendoff.store import channels
from sendoff.store.settle import Settled
from sendoff.store.tidy import Tidied, tidy
from sendoff.tables import FINAL
from sendoff.threads import DaemonThreads

__all__ = ["Housekeeper"]

logger = logging.getLogger("sendoff")

#: Seconds between two rounds of housekeeping, and between two looks at who listens.
TICK, LISTEN_EVERY = 1.0, 0.4
#: A sign of life every so many ticks.
PRESENCE_TICKS = 5


class Housekeeper:
    """One for each worker. Its parts run as tasks of the worker's."""

    def __init__(
        self,
        worker: Serving,
        runners: Sequence[ChannelRunner],
        claimers: Mapping[str, Claimer],
        fetchers: Callable[[Callable[[], bool]], FetchRunner] | None,
    ) -> None:
        self._worker = worker
        self._runners = runners
        self._claimers = claimers
        self._threads = DaemonThreads(2, "sendoff-plugins")
        self._fetchers = fetchers(worker.stopping.is_set) if fetchers is not None else None
        self._steps = True
        self.observers = Observers(worker.registry, self._threads)
        #: The round of fetchers under way, if any.
        self.fetching: asyncio.Future[Any] | None = None
        #: Rows that ended by the clock, by how.
        self.tidied: Counter[str] = Counter()

    def close(self) -> None:
        """Let the threads end."""
        self._threads.close()

    async def after(self, written: list[tuple[Outcome, Settled]]) -> None:
        """Release the steps that waited for these rows, and tell the observers."""
        ended = [outcome.row.id for outcome, settled in written if settled.status in FINAL]
        if ended and self._steps:
            with contextlib.suppress(StoreError):
                await self.tidy(ended)
        if self.observers.wanted:
            applied = [pair for pair in written if pair[1].outcome == "applied"]
            self.observers.tell([settlement(outcome, settled) for outcome, settled in applied])

    async def tidy(self, after: Sequence[UUID] | None = None) -> Tidied:
        """Expire what is past its time and resolve steps; with ``after`` only the steps behind those rows."""
        done: Tidied = await self._worker.watched(self._worker.store.run, lambda connection: tidy(connection, after))
        self._steps = done.waiting
        self.tidied["expired"] += done.expired
        for name in done.channels:
            self.woken(name)
        return done

    async def run(self) -> None:
        """Once a second: tidy, release what waited too long, run fetchers, give a sign of life."""
        turn = 0
        while not self._worker.stopping.is_set():
            try:
                while (await self.tidy()).more:
                    pass
                if turn % PRESENCE_TICKS == 0:
                    await self._worker.touch()
            except StoreUnavailable as error:
                self._worker.settler.database_went_away(error)
            except SendoffError as error:
                logger.error("housekeeping: %s", error)
            for runner in self._runners:
                runner.tick()
            self._start_fetchers()
            turn += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._worker.stopping.wait(), TICK)

    def _start_fetchers(self) -> None:
        """Run the fetchers that are due, in a thread; one round at a time."""
        if self._fetchers is None or not self._worker.database.up.is_set():
            return
        if self.fetching is not None and self.fetching.done() and self.fetching.exception() is not None:
            logger.error("fetchers: %r", self.fetching.exception())
        if self.fetching is None or self.fetching.done():
            self.fetching = asyncio.wrap_future(self._threads.submit(self._fetchers.run_due))

    async def keep_listening(self) -> None:
        """Ask to be notified while there is nothing better to do; under load nobody notifies."""
        while not self._worker.stopping.is_set():
            idle = [name for name, claimer in self._claimers.items() if not claimer.saturated]
            if idle and self._worker.store.is_postgresql and self._worker.database.up.is_set():
                with contextlib.suppress(StoreError):
                    await self._worker.watched(
                        self._worker.store.run, lambda connection, idle=idle: channels.keep_listening(connection, idle)
                    )
            await asyncio.sleep(LISTEN_EVERY)

    def woken(self, channel: str | None) -> None:
        """A notification came, perhaps in another thread; None means that some may have been missed."""
        self._worker.loop.call_soon_threadsafe(self._wake, channel)

    def _wake(self, channel: str | None) -> None:
        for name, claimer in self._claimers.items():
            if channel is None or channel == name:
                claimer.wake()
