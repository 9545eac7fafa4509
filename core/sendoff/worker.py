"""The worker: one process that claims, delivers, settles, tidies and waits, until it is told to stop.

An asyncio loop delivers; the store is called in a small pool of threads, and its calls are never cancelled. One
:class:`~sendoff.claimer.Claimer` and one :class:`~sendoff.runner.ChannelRunner` serve each channel, one
:class:`~sendoff.settler.Settler` records everything, one :class:`~sendoff.housekeeping.Housekeeper` watches the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from sendoff._version import __version__
from sendoff.claimer import Claimer
from sendoff.errors import ConfigurationError, StoreError
from sendoff.fetch import FetchRunner
from sendoff.housekeeping import Housekeeper
from sendoff.loops import run_loop, signals_to
from sendoff.plugin.registry import ChannelSpec, Registry
from sendoff.runner import ChannelRunner
from sendoff.serving import Serving
from sendoff.settings import WorkerSettings
from sendoff.settler import Settler
from sendoff.store import Store, channels, presence
from sendoff.verdict import Outage
from sendoff.wakeup import Listener

__all__ = ["Worker", "check_deadlines"]

logger = logging.getLogger("sendoff")
T = TypeVar("T")

#: New objects between two garbage collections in a process that only works.
GC_EVERY = 20_000
#: A channel that cannot start is tried again after this many seconds, doubling.
START_AGAIN, START_LONGEST = 5.0, 60.0
#: After the grace period: seconds for each step of leaving, and until a process that still hangs is ended.
LEAVE, OVERDUE = 2.0, 10.0


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


class Worker(Serving):
    """Serves channels until stopped. ``run()`` is for a process of its own, ``serve()`` for a loop that exists.

    Subclasses (a drain, a first try) change where rows come from and when it is enough, nothing else.
    """

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
        super().__init__(store, registry, settings)
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
            self.close()
            self.keeper.close()
            raise
        listener = self._make_listener(self.keeper.woken) if self._make_listener else None
        if listener is not None:
            listener.start()
        settling = self.loop.create_task(self.settler.run())
        serving = [self.loop.create_task(self._serve_channel(runner)) for runner in self.runners]
        keeping = [self.loop.create_task(self.keeper.run())]
        if listener is not None:
            keeping.append(self.loop.create_task(self.keeper.keep_listening()))
        enough = self.loop.create_task(self._until_done())
        everything = [enough, *serving, *keeping, settling]
        try:
            broken = await self._first_failure(enough, everything)
            self.stop()
            await self._within_grace(serving)
            await self._within_grace([self.loop.create_task(self.nothing_flies.wait())])
            if self.keeper.fetching is not None:
                await self._within_grace([self.keeper.fetching])
            self.settler.close()
            await self._within_grace([settling])
            await self._within_grace([*self.errands, self.loop.create_task(self.keeper.observers.told())])
        finally:
            for task in (*everything, *self.errands):
                task.cancel()
            await asyncio.wait([*everything, *self.errands], timeout=LEAVE)
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
        self.open_gate()

    def _prepare(self, loop: asyncio.AbstractEventLoop) -> None:
        self.open(loop)
        self.deadline = 0.0
        self.runners = [ChannelRunner(spec, self, loop) for spec in self.specs]
        self.claimers = {runner.spec.name: self._claimer(runner) for runner in self.runners}
        self.keeper = Housekeeper(self, self.runners, self.claimers, self._make_fetchers)
        self.settler = Settler(self, self.database, batch=self.settings.batch, after=self.keeper.after)

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
        self.close()
        self.keeper.close()
