"""The worker: one process that claims, delivers, settles, tidies and waits, until it is told to stop.

An asyncio loop delivers; the store is called in a small pool of threads, and its calls are never cancelled. One
:class:`~sendoff.claimer.Claimer` and one :class:`~sendoff.runner.ChannelRunner` serve each channel, one
:class:`~sendoff.settler.Settler` records everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID

from sendoff._version import __version__
from sendoff.breaker import Breaker
from sendoff.claimer import Claimer
from sendoff.enqueue import new_id
from sendoff.errors import ConfigurationError, SendoffError, StoreError, StoreUnavailable
from sendoff.fetch import FetchRunner
from sendoff.flight import Flight
from sendoff.loops import run_loop, signals_to
from sendoff.plugin.channel import as_addresses
from sendoff.plugin.registry import ChannelSpec, Registry
from sendoff.runner import ChannelRunner
from sendoff.settings import WorkerSettings
from sendoff.settlement import Settlement
from sendoff.settler import Database, Outcome, Settler, settlement
from sendoff.store import Store, channels, presence
from sendoff.store.claim import Claimed
from sendoff.store.engine import plugin_queries
from sendoff.store.settle import Settle, Settled
from sendoff.store.tidy import Tidied, tidy
from sendoff.tables import FINAL
from sendoff.threads import DaemonThreads
from sendoff.verdict import Outage
from sendoff.wakeup import Listener

__all__ = ["Worker", "check_deadlines"]

logger = logging.getLogger("sendoff")
T = TypeVar("T")

#: Seconds between two rounds of housekeeping, and between two looks at who listens.
TICK, LISTEN_EVERY = 1.0, 0.4
#: A sign of life every so many ticks.
PRESENCE_TICKS = 5
#: New objects between two garbage collections in a process that only works.
GC_EVERY = 20_000
#: A channel that cannot start is tried again after this many seconds, doubling.
START_AGAIN, START_LONGEST = 5.0, 60.0
#: After the grace period: seconds for each step of leaving, and until a process that still hangs is ended.
LEAVE, OVERDUE = 2.0, 10.0
#: Settlements kept for observers that are slower than the worker.
MOST_UNSEEN = 50_000


def check_deadlines(specs: Sequence[ChannelSpec], settings: WorkerSettings) -> None:
    """Refuse settings under which a send could outlive its lease: another worker would send it too."""
    for spec in specs:
        lease, timeout = spec.lease(settings.lease), spec.limits.timeout
        if timeout + settings.margin >= lease:
            raise ConfigurationError(
                f"channel {spec.name!r}: timeout {timeout:g} s + margin {settings.margin:g} s must be less than the "
                f"lease of {lease:g} s; lower channels.{spec.name}.limits.timeout or raise its lease"
            )


@contextlib.contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Rows live for a batch and hold no cycles: looking for some after every 700 new objects takes a third of a
    worker's time. Only for a process of our own."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(GC_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class Worker:
    """Serves channels until stopped. ``run()`` is for a process of its own, ``serve()`` for a loop that exists.

    Subclasses (a drain, a first try) change where rows come from and when it is enough, nothing else.
    """

    listens = True

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: WorkerSettings,
        *,
        channels: Sequence[str] | None = None,
        listener: Callable[[Callable[[str | None], None]], Listener | None] | None = None,
        fetch: Callable[[Callable[[], bool]], FetchRunner] | None = None,
    ) -> None:
        self.store = store
        self.registry = registry
        self.settings = settings
        self.id = new_id()
        self.name = f"{socket.gethostname()}:{os.getpid()}:{str(self.id)[-6:]}"
        self.specs = registry.serve(list(channels) if channels is not None else settings.channels)
        if not self.specs:
            raise ConfigurationError("no channel to serve: install or name a plugin (see `sendoff plugins`)")
        check_deadlines(self.specs, settings)
        self._make_listener = listener
        self._make_fetchers = fetch
        self._signals = 0
        #: What broke a part of the worker.
        self.failure: BaseException | None = None
        self.exit_code = 0

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run in this process until SIGTERM or SIGINT; 0, or 1 if a verdict could not be recorded."""
        with self.obeying_signals(), _collecting_seldom():
            return run_loop(self.serve())

    @contextlib.contextmanager
    def obeying_signals(self) -> Iterator[None]:
        """Within the block, SIGTERM and SIGINT stop this worker, and a second one ends the process."""
        try:
            with signals_to(self._on_signal):
                yield
        finally:
            if self._signals:
                faulthandler.cancel_dump_traceback_later()

    async def serve(self) -> int:
        """Run on this loop until :meth:`stop`. The exit code, as of :meth:`run`."""
        self._prepare(asyncio.get_running_loop())
        if self._signals:
            self.stop()
        try:
            await self._arrive()
        except BaseException:
            self._threads.close()
            self._plugin_threads.close()
            raise
        listener = self._make_listener(self._woken) if self._make_listener and self.listens else None
        if listener is not None:
            listener.start()
        settling = self.loop.create_task(self.settler.run())
        serving = [self.loop.create_task(self._serve_channel(runner)) for runner in self.runners]
        keeping = [self.loop.create_task(self._housekeep()), self.loop.create_task(self._keep_listening())]
        enough = self.loop.create_task(self._until_done())
        everything = [enough, *serving, *keeping, settling]
        try:
            broken = await self._first_failure(enough, everything)
            self.stop()
            await self._within_grace(serving)
            await self._within_grace([self.loop.create_task(self._nothing_flies.wait())])
            if self._fetching is not None:
                await self._within_grace([self._fetching])
            self.settler.close()
            await self._within_grace([settling])
            await self._within_grace([*self._errands, self.loop.create_task(self._shown())])
        finally:
            for task in (*everything, *self._errands):
                task.cancel()
            await asyncio.wait([*everything, *self._errands], timeout=LEAVE)
            if listener is not None:
                await asyncio.to_thread(listener.stop)
            await self._leave()
        unrecorded = self.settler.pending + self.settler.failed
        if unrecorded:
            logger.error("%d verdicts could not be recorded; their rows come back when their leases end", unrecorded)
        self.exit_code = 1 if unrecorded or broken else 0
        return self.exit_code

    async def _first_failure(self, enough: asyncio.Task[None], tasks: Sequence[asyncio.Task[Any]]) -> bool:
        """Wait for the end of the work. A part of the worker that fails is our own fault: it is said aloud, and the
        process ends, so that whoever supervises it starts a new one, instead of serving half of its channels."""
        watched = {enough, *tasks}
        while not enough.done():
            done, watched = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled() and task.exception() is not None:
                    self.failure = task.exception()
                    logger.critical("the worker failed; stopping", exc_info=self.failure)
                    return True
        return False

    def stop(self) -> None:
        """Stop claiming, release what was not started, let running sends end."""
        if self.stopping.is_set():
            return
        self.stopping.set()
        self.deadline = self.loop.time() + self.settings.grace
        for runner in self.runners:
            runner.stop()
        for claimer in self.claimers.values():
            claimer.wake()
        self.settler.stop_waiting()
        self._gate.set()

    def _prepare(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.stopping = asyncio.Event()
        self.deadline = 0.0
        self.database = Database()
        self.settler = Settler(self, self.database, batch=self.settings.batch, after=self._after)
        self.runners = [ChannelRunner(spec, self, loop) for spec in self.specs]
        self.claimers = {runner.spec.name: self._claimer(runner) for runner in self.runners}
        self.tidied: Counter[str] = Counter()
        self._threads = DaemonThreads(self.settings.store_threads, "sendoff-store")
        self._plugin_threads = DaemonThreads(2, "sendoff-plugins")
        self._gate = asyncio.Event()
        self._gate.set()
        self._alone = asyncio.Lock()
        self._flying = 0
        self._nothing_flies = asyncio.Event()
        self._nothing_flies.set()
        self._steps = True
        self._errands: set[asyncio.Task[None]] = set()
        self._fetchers = self._make_fetchers(self.stopping.is_set) if self._make_fetchers else None
        self._fetching: asyncio.Future[Any] | None = None
        self._observing: asyncio.Future[Any] | None = None
        self._seen: list[Settlement] = []

    def _claimer(self, runner: ChannelRunner) -> Claimer:
        return Claimer(runner, self)

    async def _until_done(self) -> None:
        """Until told to stop."""
        await self.stopping.wait()

    async def _serve_channel(self, runner: ChannelRunner) -> None:
        if not await self._start_channel(runner):
            return
        await asyncio.gather(runner.run(), self.claimers[runner.spec.name].run())

    async def _start_channel(self, runner: ChannelRunner) -> bool:
        """Start the channel; one that cannot start is paused for everybody and tried again."""
        pause = START_AGAIN
        while not self.stopping.is_set():
            if await self._try_start(runner):
                return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), pause)
            pause = min(pause * 2, START_LONGEST)
        return False

    async def _try_start(self, runner: ChannelRunner) -> bool:
        try:
            await runner.spec.channel.start()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
            text = f"it cannot start: {type(error).__name__}: {error}"
            logger.error("channel %s: %s", runner.spec.name, text)
            await self.outage(runner.spec, Outage(text))
            return False
        return True

    async def _within_grace(self, tasks: Sequence[asyncio.Future[Any]]) -> None:
        """Wait for these until the grace period ends."""
        pending = [task for task in tasks if not task.done()]
        if pending:
            _, late = await asyncio.wait(pending, timeout=max(0.1, self.deadline - self.loop.time()))
            for task in late:
                task.cancel()

    def _on_signal(self) -> None:
        """In the signal handler, so that it works while a channel blocks the loop: nothing here may wait."""
        self._signals += 1
        if self._signals > 1:
            os.write(2, b"second signal: leaving at once; rows in flight come back when their leases end\n")
            os._exit(1)
        # Not even a loop that never gets to stopping outlives the grace period; it shows where it hangs.
        faulthandler.dump_traceback_later(self.settings.grace + OVERDUE, exit=True, file=2)
        with contextlib.suppress(AttributeError, RuntimeError):  # before the loop, or after it
            self.loop.call_soon_threadsafe(self._told_to_stop)

    def _told_to_stop(self) -> None:
        logger.info("stopping: waiting up to %g s for running sends", self.settings.grace)
        self.stop()

    # -- coming and going ------------------------------------------------------------------------------------------

    async def _arrive(self) -> None:
        names = [spec.name for spec in self.specs]

        def arrive(connection: Any) -> None:
            channels.ensure_channels(connection, names)
            presence.arrive(connection, self.id, socket.gethostname(), os.getpid(), __version__, names)

        await self.call(self.store.run, arrive)
        logger.info("worker %s serves %s", self.name, ", ".join(names))

    async def _leave(self) -> None:
        closing = [self.loop.create_task(runner.close()) for runner in self.runners]
        _, left = await asyncio.wait(closing, timeout=LEAVE)
        for task in left:
            logger.warning("a channel's stop() hangs; it is left behind")
            task.cancel()
        with contextlib.suppress(StoreError, TimeoutError):
            goodbye = self.call(self.store.run, lambda connection: presence.leave(connection, self.id))
            await asyncio.wait_for(goodbye, LEAVE)
        self._threads.close()
        self._plugin_threads.close()

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
        self._nothing_flies.clear()

    def landed(self, flight: Flight) -> None:
        """A call ended, or is no longer waited for."""
        flight.over()
        self._flying -= 1
        if not self._flying:
            self._nothing_flies.set()

    async def alone(self, start: Callable[[], Awaitable[Flight | None]]) -> None:
        """Try a suspect row with nothing else in flight and nothing unrecorded: if it kills the worker, it takes
        nobody with it."""
        async with self._alone:
            self._gate.clear()
            try:
                await self._nothing_flies.wait()
                await self.settler.flushed()
                flight = await start()
                if flight is not None and not flight.ended:
                    flight.landed = asyncio.Event()
                    await flight.landed.wait()
            finally:
                self._gate.set()

    async def held(self, rows: Sequence[Claimed]) -> set[UUID]:
        """Which of these leases are still ours."""
        return await self._watched(self.store.still_held, rows)

    async def look_up(self, spec: ChannelSpec, recipients: Sequence[str]) -> dict[str, list[str]]:
        """Addresses by recipient: the channel's own answer, else the hook's."""

        def ask(connection: Any) -> dict[str, list[str]]:
            with plugin_queries(connection):
                known = spec.channel.addresses(recipients, connection)
                if known is None:
                    return self.registry.addresses(spec.name, recipients, connection)
                return as_addresses(known)

        return await self._watched(self.store.read, ask)

    async def outage(self, spec: ChannelSpec, verdict: Outage) -> None:
        """Pause the channel for everybody."""
        floor = verdict.retry_after.total_seconds() if verdict.retry_after is not None else 0.0
        breaker = Breaker(floor=floor)
        reason = verdict.reason[:500]

        def pause(connection: Any) -> bool:
            return channels.open_breaker(connection, spec.name, breaker, reason)

        try:
            if await self._watched(self.store.run, pause):
                logger.error("channel %s is paused: %s", spec.name, reason)
        except StoreError as error:
            logger.warning("the outage of channel %s could not be recorded: %s", spec.name, error)

    def answered(self, spec: ChannelSpec) -> None:
        """The channel works again."""
        task = self.loop.create_task(self._close_breaker(spec.name))
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _close_breaker(self, name: str) -> None:
        with contextlib.suppress(StoreError):
            await self._watched(self.store.run, lambda connection: channels.close_breaker(connection, name))

    async def _watched(self, function: Callable[..., T], *arguments: Any) -> T:
        """A store call whose failure tells that the database is away."""
        try:
            return await self.call(function, *arguments)
        except StoreUnavailable as error:
            self.settler.database_went_away(error)
            raise

    # -- after a settle, and by the clock ---------------------------------------------------------------------------

    async def _after(self, written: list[tuple[Outcome, Settled]]) -> None:
        """Release the steps that waited for these rows, and tell the observers."""
        ended = [outcome.row.id for outcome, settled in written if settled.status in FINAL]
        if ended and self._steps:
            with contextlib.suppress(StoreError):
                await self._tidy(ended)
        if self.registry.observers():
            self._seen += [settlement(outcome, settled) for outcome, settled in written if settled.outcome == "applied"]
            self._show()

    def _show(self) -> None:
        """Tell the observers, one batch after the other, beside the settling: one that hangs holds up nobody."""
        if len(self._seen) > MOST_UNSEEN:
            logger.error("a sendoff_settled hook is too slow; %d settlements go unobserved", len(self._seen))
            self._seen = []
        if self._seen and (self._observing is None or self._observing.done()):
            seen, self._seen = self._seen, []
            self._observing = asyncio.wrap_future(self._plugin_threads.submit(self._observe, seen))
            self._observing.add_done_callback(lambda _: self._show())

    async def _shown(self) -> None:
        while self._observing is not None and not self._observing.done():
            await asyncio.wait([self._observing])
            await asyncio.sleep(0)

    def _observe(self, seen: list[Settlement]) -> None:
        try:
            for _ in self.registry.call("sendoff_settled", settlements=seen):
                pass
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an observer may raise anything and harms nothing
            logger.error("a sendoff_settled hook raised %s: %s", type(error).__name__, error)

    async def _tidy(self, after: Sequence[UUID] | None = None) -> Tidied:
        done: Tidied = await self._watched(self.store.run, lambda connection: tidy(connection, after))
        self._steps = done.waiting
        self.tidied["expired"] += done.expired
        for name in done.channels:
            self._woken(name)
        return done

    async def _housekeep(self) -> None:
        """Once a second: tidy, release what waited too long, run fetchers, give a sign of life."""
        turn = 0
        while not self.stopping.is_set():
            try:
                while (await self._tidy()).more:
                    pass
                if turn % PRESENCE_TICKS == 0:
                    await self.touch()
            except StoreUnavailable as error:
                self.settler.database_went_away(error)
            except SendoffError as error:
                logger.error("housekeeping: %s", error)
            for runner in self.runners:
                runner.tick()
            self._start_fetchers()
            turn += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), TICK)

    def _start_fetchers(self) -> None:
        """Run the fetchers that are due, in a thread; one round at a time."""
        if self._fetchers is None or not self.database.up.is_set():
            return
        if self._fetching is not None and self._fetching.done() and self._fetching.exception() is not None:
            logger.error("fetchers: %r", self._fetching.exception())
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.wrap_future(self._plugin_threads.submit(self._fetchers.run_due))

    async def _keep_listening(self) -> None:
        """Ask to be notified while there is nothing better to do; under load nobody notifies."""
        while not self.stopping.is_set():
            idle = [name for name, claimer in self.claimers.items() if not claimer.saturated]
            if idle and self.listens and self.store.is_postgresql and self.database.up.is_set():
                with contextlib.suppress(StoreError):
                    await self._watched(
                        self.store.run, lambda connection, idle=idle: channels.keep_listening(connection, idle)
                    )
            await asyncio.sleep(LISTEN_EVERY)

    def _woken(self, channel: str | None) -> None:
        """A notification came, perhaps in another thread; None means that some may have been missed."""
        self.loop.call_soon_threadsafe(self._wake, channel)

    def _wake(self, channel: str | None) -> None:
        for name, claimer in self.claimers.items():
            if channel is None or channel == name:
                claimer.wake()
