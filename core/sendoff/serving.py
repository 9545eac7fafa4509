"""What the channels' runners ask of the worker around them: the store in threads, the gate, pauses, addresses."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from sendoff.breaker import Breaker
from sendoff.enqueue import new_id
from sendoff.errors import StoreError, StoreUnavailable
from sendoff.flight import Flight
from sendoff.plugin.channel import as_addresses
from sendoff.plugin.registry import ChannelSpec, Registry
from sendoff.settings import WorkerSettings
from sendoff.settler import Database, Outcome, Settler
from sendoff.store import Store, channels, presence
from sendoff.store.claim import Claimed
from sendoff.store.engine import plugin_queries
from sendoff.store.settle import Settle, Settled
from sendoff.threads import DaemonThreads
from sendoff.verdict import Outage

__all__ = ["Serving"]

logger = logging.getLogger("sendoff")
T = TypeVar("T")


class Serving:
    """The part of a worker that its runners, its claimers and its housekeeper use: :class:`~sendoff.host.Host`."""

    loop: asyncio.AbstractEventLoop
    stopping: asyncio.Event
    database: Database
    settler: Settler

    def __init__(self, store: Store, registry: Registry, settings: WorkerSettings) -> None:
        self.store = store
        self.registry = registry
        self.settings = settings
        self.id = new_id()
        #: For people: what ``claimed_by`` says.
        self.name = f"{socket.gethostname()}:{os.getpid()}:{str(self.id)[-6:]}"

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Get ready on this loop."""
        self.loop = loop
        self.stopping = asyncio.Event()
        self.database = Database()
        #: Small things under way that nobody waits for before the end.
        self.errands: set[asyncio.Task[None]] = set()
        self.nothing_flies = asyncio.Event()
        self.nothing_flies.set()
        self._threads = DaemonThreads(self.settings.store_threads, "sendoff-store")
        self._gate = asyncio.Event()
        self._gate.set()
        self._alone = asyncio.Lock()
        self._flying = 0

    def close(self) -> None:
        """Let the threads end."""
        self._threads.close()

    def open_gate(self) -> None:
        """Let whoever waits for the gate look again."""
        self._gate.set()

    # -- the store, in threads -------------------------------------------------------------------------------------

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """A store call in a thread. It is awaited to its end even when the caller is cancelled."""
        return await asyncio.shield(asyncio.wrap_future(self._threads.submit(function, *arguments)))

    async def settle(self, verdicts: list[Settle]) -> list[Settled]:
        """For the settler."""
        return await self.call(self.store.settle, verdicts)

    async def touch(self) -> None:
        """For the settler: a small write."""
        await self.call(self.store.run, lambda connection: presence.still_here(connection, self.id))

    # -- what runners ask ------------------------------------------------------------------------------------------

    def record(self, outcome: Outcome) -> None:
        """Put a verdict in the outbox."""
        self.settler.add(outcome)

    def may_start(self) -> bool:
        """Whether new sends may begin."""
        return self._gate.is_set() and self.database.up.is_set()

    async def can_start(self) -> None:
        """Wait until they may, or until the worker stops."""
        stopping = self.loop.create_task(self.stopping.wait())
        both = self.loop.create_task(self._open())
        await asyncio.wait({stopping, both}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        both.cancel()

    async def _open(self) -> None:
        await self._gate.wait()
        await self.database.up.wait()

    def took_off(self, flight: Flight) -> None:
        """A call began."""
        self._flying += 1
        self.nothing_flies.clear()

    def landed(self, flight: Flight) -> None:
        """A call ended, or is no longer waited for."""
        flight.over()
        self._flying -= 1
        if not self._flying:
            self.nothing_flies.set()

    async def alone(self, start: Callable[[], Awaitable[Flight | None]]) -> None:
        """Try a suspect row with nothing else in flight and nothing unrecorded: if it kills the worker, it takes
        nobody with it."""
        async with self._alone:
            self._gate.clear()
            try:
                await self.nothing_flies.wait()
                await self.settler.flushed()
                flight = await start()
                if flight is not None and not flight.ended:
                    flight.landed = asyncio.Event()
                    await flight.landed.wait()
            finally:
                self._gate.set()

    async def held(self, rows: Sequence[Claimed]) -> set[UUID]:
        """Which of these leases are still ours."""
        return await self.watched(self.store.still_held, rows)

    async def look_up(self, spec: ChannelSpec, recipients: Sequence[str]) -> dict[str, list[str]]:
        """Addresses by recipient: the channel's own answer, else the hook's."""

        def ask(connection: Any) -> dict[str, list[str]]:
            with plugin_queries(connection):
                known = spec.channel.addresses(recipients, connection)
                if known is None:
                    return self.registry.addresses(spec.name, recipients, connection)
                return as_addresses(known)

        return await self.watched(self.store.read, ask)

    async def outage(self, spec: ChannelSpec, verdict: Outage) -> None:
        """Pause the channel for everybody."""
        floor = verdict.retry_after.total_seconds() if verdict.retry_after is not None else 0.0
        breaker = Breaker(floor=floor)
        reason = verdict.reason[:500]

        def pause(connection: Any) -> bool:
            return channels.open_breaker(connection, spec.name, breaker, reason)

        try:
            if await self.watched(self.store.run, pause):
                logger.error("channel %s is paused: %s", spec.name, reason)
        except StoreError as error:
            logger.warning("the outage of channel %s could not be recorded: %s", spec.name, error)

    def answered(self, spec: ChannelSpec) -> None:
        """The channel works again."""
        task = self.loop.create_task(self._close_breaker(spec.name))
        self.errands.add(task)
        task.add_done_callback(self.errands.discard)

    async def _close_breaker(self, name: str) -> None:
        with contextlib.suppress(StoreError):
            await self.watched(self.store.run, lambda connection: channels.close_breaker(connection, name))

    async def watched(self, function: Callable[..., T], *arguments: Any) -> T:
        """A store call whose failure tells that the database is away."""
        try:
            return await self.call(function, *arguments)
        except StoreUnavailable as error:
            self.settler.database_went_away(error)
            raise
