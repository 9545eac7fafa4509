"""The worker's path, once: a drain bounded by count and time, and a first try at once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Connection

from sendoff.claimer import Claimer
from sendoff.errors import StoreError
from sendoff.loops import run_loop
from sendoff.plugin.registry import Registry
from sendoff.report import DrainReport
from sendoff.runner import ChannelRunner
from sendoff.settings import WorkerSettings
from sendoff.store import Store
from sendoff.store.channels import paused as paused_channels
from sendoff.store.claim import Claimed, held_by, take_given
from sendoff.worker import Worker

__all__ = ["Drain", "FirstTry", "run_blocking"]

T = TypeVar("T")
#: A drain starts nothing new in the last fifth of its budget, so that what runs can end within it.
START_SHARE = 0.8


class _OneLook(Claimer):
    """Claims while rows are due, then reports that it found none."""

    worker: Drain
    empty = False

    def _limited(self, wanted: int) -> int:
        return wanted if self.worker.left is None else min(wanted, self.worker.left)

    async def _claim(self, wanted: int, *, from_start: bool) -> list[Claimed] | None:
        # Taken out of the limit before the claim: other channels claim meanwhile.
        if self.worker.left is not None:
            self.worker.left -= wanted
        rows = await super()._claim(wanted, from_start=from_start)
        if self.worker.left is not None:
            self.worker.left += wanted - len(rows or ())
        return rows

    def claimed(self, rows: list[Claimed]) -> None:
        self.worker.claims += len(rows)

    async def _turn_once(self) -> None:
        if self.runner.stuck or (self.worker.left is not None and self.worker.left <= 0):
            await self._sleep()
        else:
            await super()._turn_once()

    async def _sleep(self) -> None:
        self._start_look = True
        self.empty = True
        self.worker.look_done()
        await self._woken.wait()
        self._woken.clear()
        self.empty = False


class Drain(Worker):
    """Delivers what is due until nothing is, or the limit or the budget is used up."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: WorkerSettings,
        *,
        channels: Sequence[str] | None = None,
        limit: int | None = None,
        budget: float | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(store, registry, settings, channels=channels)
        self.left = limit
        self.claims = 0
        self._budget = budget
        self._on_progress = on_progress
        self._look_done = asyncio.Event()
        self._began = time.monotonic()

    def _claimer(self, runner: ChannelRunner) -> Claimer:
        return _OneLook(runner, self)

    def look_done(self) -> None:
        """A channel found nothing more."""
        self._look_done.set()

    async def _until_done(self) -> None:
        budget = None if self._budget is None else self._budget * START_SHARE
        await self._or_told_to_stop(self._drained(), within=budget)

    async def _or_told_to_stop(self, work: Coroutine[Any, Any, None], *, within: float | None = None) -> None:
        """Until the work is done, the time is over or a signal came. What breaks the work is raised."""
        working = self.loop.create_task(work)
        stopping = self.loop.create_task(self.stopping.wait())
        try:
            await asyncio.wait({working, stopping}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
        finally:
            working.cancel()
            stopping.cancel()

    async def _drained(self) -> None:
        while True:
            before = self.claims
            await self._all_looked()
            await self._quiet()
            if self._on_progress is not None:
                self._on_progress(sum(self.settler.counts.values()))
            with contextlib.suppress(StoreError):
                await self.keeper.tidy()
            if self.left is not None and self.left <= 0:
                return
            # Deliveries may have made others due: a last look that finds nothing is the end.
            for claimer in self.claimers.values():
                if isinstance(claimer, _OneLook):
                    claimer.empty = False
                claimer.wake()
            await self._all_looked()
            if self.claims == before:
                return

    async def _start_channel(self, runner: ChannelRunner) -> bool:
        """One try. Where it fails, the rows of this channel are left to a worker."""
        if await self._try_start(runner):
            return True
        runner.stop()
        del self.claimers[runner.spec.name]
        self.look_done()
        return False

    async def _all_looked(self) -> None:
        while not all(claimer.empty for claimer in self.claimers.values() if isinstance(claimer, _OneLook)):
            self._look_done.clear()
            await self._look_done.wait()

    async def _quiet(self) -> None:
        """Until nothing is claimed, running or unrecorded."""
        while not all(runner.idle for runner in self.runners):
            await self.nothing_flies.wait()
            await self.settler.flushed()
            await asyncio.sleep(0.001)
        await self.settler.flushed()

    def stop(self) -> None:
        super().stop()
        if self._budget is not None:
            left = self._budget - (time.monotonic() - self._began)
            self.deadline = min(self.deadline, self.loop.time() + max(0.0, left))

    def deliver(self, *, handle_signals: bool = False) -> None:
        """Do it, and wait for the end. What breaks it is raised here, after everything it had has been recorded."""
        with self.obeying_signals() if handle_signals else contextlib.nullcontext():
            run_blocking(self.serve)
        if self.failure is not None:
            raise self.failure

    def report(self, remaining: int) -> DrainReport:
        """What was done."""
        counts = self.settler.counts
        return DrainReport(
            tries=sum(counts[kind] for kind in ("sent", "no_target", "retry", "dead", "outage", "cancelled")),
            sent=counts["sent"],
            no_target=counts["no_target"],
            retried=counts["retry"],
            dead=counts["dead"],
            outage=counts["outage"],
            released=counts["released"],
            cancelled=counts["cancelled"],
            lost=counts["lost"],
            expired=self.keeper.tidied["expired"],
            remaining=remaining,
        )


class FirstTry(Drain):
    """Delivers given rows and the steps behind them, and claims nothing else."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: WorkerSettings,
        *,
        ids: Sequence[UUID],
        channels: Sequence[str],
        name: str | None = None,
    ) -> None:
        super().__init__(store, registry, settings, channels=channels)
        self.name = name or self.name
        self._ids = list(ids)

    async def _serve_channel(self, runner: ChannelRunner) -> None:
        if await self._start_channel(runner):
            await runner.run()

    async def _until_done(self) -> None:
        await self._or_told_to_stop(self._tried())

    async def _tried(self) -> None:
        rows, began = await self._load(lambda connection: held_by(connection, self._ids, self.name))
        # A pause holds for a first try too: its rows go back.
        paused = await self.call(self.store.read, paused_channels)
        for runner in self.runners:
            if runner.spec.name in paused:
                runner.stop()
        while True:
            leases = {runner.spec.name: runner.lease for runner in self.runners}
            more, began_more = await self._load(partial(self._take, leases=leases))
            if not rows and not more:
                return
            tried = {row.id for row in [*rows, *more]}
            for runner in self.runners:
                runner.accept([row for row in rows if row.channel == runner.spec.name], began)
                runner.accept([row for row in more if row.channel == runner.spec.name], began_more)
            await self._quiet()
            await self.keeper.tidy()
            self._ids = [id for id in self._ids if id not in tried]
            rows = []

    def _take(self, connection: Connection, leases: dict[str, float]) -> list[Claimed]:
        return take_given(connection, self._ids, self.name, leases)

    async def _load(self, find: Callable[[Any], list[Claimed]]) -> tuple[list[Claimed], float]:
        began = time.monotonic()
        return await self.call(self.store.run, find), began


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end, also where this thread has a running loop (a notebook, an async web handler)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_loop(work())
    answer: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(run_loop(work()))
        except BaseException as error:  # noqa: BLE001 - handed to the caller below
            failure.append(error)

    thread = threading.Thread(target=run, name="sendoff-drain")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return answer[0]
