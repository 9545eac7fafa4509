"""One channel in one worker: claim, look once more, start, collect the verdict.

Claiming and delivering overlap. What was claimed waits in ``_ready``, never more than can be started soon.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from sendoff.deliver import (
    accept_verdicts,
    call_in_thread,
    classify,
    is_async,
    make_delivery,
    needs_no_call,
)
from sendoff.flight import Deadlines, Flight
from sendoff.host import Host, Leased
from sendoff.plugin.channel import BatchChannel, Channel, as_verdict
from sendoff.plugin.registry import ChannelSpec
from sendoff.policy import LOST_LEASES_SUSPECT, Facts, Transition, decide
from sendoff.preflight import Preflight, unfit
from sendoff.settler import Outcome
from sendoff.store.claim import Claimed
from sendoff.store.settle import Settle
from sendoff.threads import DaemonThreads
from sendoff.verdict import Outage, Retryable, Sent, Verdict

__all__ = ["ChannelRunner"]

logger = logging.getLogger("sendoff")

ASYNC_CONCURRENCY, SYNC_CONCURRENCY = 100, 20
#: Seconds over which the rate of a channel is measured.
RATE_WINDOW = 0.5
#: How long calls that were cancelled when the worker leaves have to end. Seconds.
ABANDON = 0.5


class ChannelRunner:
    """Everything of one channel between its claims and its verdicts."""

    def __init__(self, spec: ChannelSpec, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self.spec = spec
        self._host = host
        self._loop = loop
        self._channel: Channel = spec.channel
        self._is_async = is_async(self._channel)
        self._is_batch = isinstance(self._channel, BatchChannel)
        self.concurrency = spec.limits.concurrency or (ASYNC_CONCURRENCY if self._is_async else SYNC_CONCURRENCY)
        self.lease = spec.lease(host.settings.lease)
        self._needed = spec.limits.timeout + host.settings.margin
        self._per_call = spec.limits.batch if self._is_batch else 1
        self._threads = None if self._is_async else DaemonThreads(self.concurrency, f"sendoff-{spec.name}")
        method = self._channel.send_many if isinstance(self._channel, BatchChannel) else self._channel.send
        self._method: Callable[[Any], Any] = method if self._threads is None else partial(self._in_thread, method)
        self._deadlines = Deadlines(loop, self._overstayed)
        self._preflight = Preflight(spec, host, self._write, self._decide)
        self._ready: deque[Leased] = deque()
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._calls = 0
        self._given_up = 0
        self._running: set[UUID] = set()
        self._flights: set[Flight] = set()
        self._starting = False
        self._closed = False
        self._down = False
        #: The first send that works after this moment ends the outage; an earlier worker may have left one behind, or
        #: a start that failed.
        self._paused_at: float | None = loop.time()
        self._pausing: asyncio.Task[None] | None = None
        self._stopping = False
        self._ended = 0
        self._rate, self._rate_since = 0.0, loop.time()
        self._next_start = 0.0

    # -- what the claimer asks -------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nothing claimed, nothing running that is still waited for."""
        return not self._ready and not self._starting and self._calls == self._given_up

    @property
    def stuck(self) -> bool:
        """Every slot is taken by a call that was given up but has not returned."""
        return self._given_up >= self.concurrency

    def wants(self) -> int:
        """How many rows to claim now: what can be started at once, and as much more as the channel has been getting
        through in a second, at most one batch."""
        if self.stuck:
            return 0
        free = (self.concurrency - self._calls) * self._per_call
        ahead = min(self._host.settings.batch, max(self.concurrency * self._per_call, int(self._rate)))
        if self.spec.limits.rate is not None:
            ahead = free = max(1, min(ahead, int(self.spec.limits.rate)))
        wanted = min(self._host.settings.batch, max(0, free) + ahead - len(self._ready))
        # Small top-ups would make many small claims: wait until half of what is kept ahead is used up.
        return wanted if wanted >= min(ahead, self._host.settings.batch) // 2 else 0

    async def room(self) -> None:
        """Wait until more rows may be wanted."""
        self._room.clear()
        if self.wants() > 0 or self._stopping:
            return
        await self._room.wait()

    def accept(self, rows: Sequence[Claimed], claimed_at: float) -> None:
        """Take over rows just claimed."""
        if self._stopping or self._down or self.stuck:
            self._release_all([Leased(row, claimed_at) for row in rows], "the worker stops or the channel is down")
            return
        self._ready.extend(Leased(row, claimed_at) for row in rows)
        self._work.set()

    # -- the pipeline ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start what is ready whenever a slot is free, until stopped."""
        while not self._stopping:
            await self._work.wait()
            self._work.clear()
            while self._ready and self._calls < self.concurrency and not self._stopping:
                if not self._host.may_start():
                    await self._host.can_start()
                    continue
                await self._pace()
                self._starting = True
                await self._start_some()
                self._starting = False
                self._room.set()

    async def _start_some(self) -> None:
        """One pass: take what fits, drop what is not ours any more, look addresses up, start."""
        taken = [
            self._ready.popleft()
            for _ in range(min(len(self._ready), (self.concurrency - self._calls) * self._per_call))
        ]
        leased = []
        for item in taken:
            refusal = unfit(item.row, self.spec, running=item.row.id in self._running, has_time=self._has_time(item))
            if refusal is None:
                leased.append(item)
            else:
                self._write(item.row, refusal)
        leased = await self._preflight.still_ours(leased)
        suspects = [item for item in leased if item.row.lost_leases >= LOST_LEASES_SUSPECT]
        addressed = await self._preflight.addressed(
            [item for item in leased if item.row.lost_leases < LOST_LEASES_SUSPECT]
        )
        if self._stopping or self._down or not self._host.may_start():
            self._put_back(addressed)
        else:
            for start in range(0, len(addressed), self._per_call):
                self._start(addressed[start : start + self._per_call])
        for suspect in suspects:
            await self._host.alone(partial(self._start_suspect, suspect))

    async def _pace(self) -> None:
        """Keep to ``limits.rate`` starts per second."""
        if self.spec.limits.rate is None:
            return
        now = self._loop.time()
        if self._next_start > now:
            await asyncio.sleep(self._next_start - now)
        self._next_start = max(now, self._next_start) + self._per_call / self.spec.limits.rate

    async def _start_suspect(self, suspect: Leased) -> Flight | None:
        """Start a row that may kill the worker, after having waited to be alone."""
        addressed = await self._preflight.addressed(await self._preflight.still_ours([suspect]))
        if self._stopping or self._down or not self._has_time(suspect):
            self._release_all([item for item, _ in addressed], "too little of its lease was left")
            return None
        return self._start(addressed) if addressed else None

    def _has_time(self, item: Leased) -> bool:
        return self.lease - (time.monotonic() - item.claimed_at) >= self._needed

    def _start(self, chunk: list[tuple[Leased, list[str]]]) -> Flight | None:
        """Begin one call for these rows."""
        timeout = self.spec.limits.timeout
        rows, deliveries = [], []
        for item, addresses in chunk:
            nobody = needs_no_call(self._channel, addresses)
            if nobody is not None:
                self._decide(item.row, nobody)
                continue
            rows.append(item.row)
            deliveries.append(make_delivery(item.row, addresses, item.claimed_at, timeout))
        if not rows:
            return None
        now = self._loop.time()
        flight = Flight(rows, now, now + timeout)
        self._calls += 1
        self._flights.add(flight)
        self._running.update([row.id for row in rows])
        flight.task = self._loop.create_task(self._call(flight, deliveries if self._is_batch else deliveries[0]))
        self._deadlines.watch(flight)
        self._host.took_off(flight)
        return flight

    def _in_thread(self, method: Callable[[Any], Any], argument: Any) -> asyncio.Future[Any]:
        assert self._threads is not None, "only channels whose sending is a plain def have threads"
        return asyncio.wrap_future(self._threads.submit(call_in_thread, method, argument), loop=self._loop)

    async def _call(self, flight: Flight, argument: Any) -> None:
        """The wall: whatever the call does ends as one verdict for each row."""
        count = len(flight.rows)
        try:
            given = self._method(argument)
            if inspect.isawaitable(given):
                given = await given
        except asyncio.CancelledError:
            verdicts: list[Verdict] = [Retryable("the call was cancelled", maybe_sent=True)] * count
        except BaseException as error:  # noqa: BLE001 - the wall: nothing a channel raises may pass it
            verdicts = [classify(self._channel, error)] * count
        else:
            verdicts = accept_verdicts(given, count) if self._is_batch else [as_verdict(given)]
        self._flights.discard(flight)
        if not self._closed:
            self._land(flight, verdicts)

    # -- the end of a call -----------------------------------------------------------------------------------------

    def _land(self, flight: Flight, verdicts: Sequence[Verdict]) -> None:
        flight.ended = True
        self._running.difference_update([row.id for row in flight.rows])
        for row, verdict in zip(flight.rows, verdicts, strict=True):
            # A call that was given up has had its verdict; that it was accepted after all is still worth knowing.
            if not flight.overdue or isinstance(verdict, Sent):
                self._decide(row, verdict)
        if flight.overdue:
            self._given_up -= 1
        else:
            self._deadlines.forget(flight)
            self._host.landed(flight)
        if self._paused_at is not None and flight.started > self._paused_at and any(map(_closes, verdicts)):
            self._paused_at = None
            self._host.answered(self.spec)
        self._free_slot(len(flight.rows))

    def _overstayed(self, flight: Flight) -> None:
        """The deadline has passed: give the call up. Its slot stays taken until it really ends."""
        self._given_up += 1
        verdict = Retryable(f"no answer within {self.spec.limits.timeout:g} s", maybe_sent=True)
        for row in flight.rows:
            self._decide(row, verdict)
        if flight.task is not None and self._threads is None:
            flight.task.cancel()
        self._host.landed(flight)
        if self.stuck:
            self._release_all(self._ready, "every call of the channel hangs")
            self._ready.clear()
            self._room.set()

    def _free_slot(self, ended: int) -> None:
        self._calls -= 1
        self._ended += ended
        now = self._loop.time()
        if now - self._rate_since >= RATE_WINDOW:
            self._rate = self._ended / (now - self._rate_since)
            self._ended, self._rate_since = 0, now
        if self._ready:
            self._work.set()
        self._room.set()

    def _decide(self, row: Claimed, verdict: Verdict) -> None:
        facts = Facts(row.attempt_count, row.try_count, row.first_due_at)
        jitter = random.uniform(-1, 1)
        self._write(row, decide(facts, verdict, self.spec.policy, row.now, jitter=jitter))
        if isinstance(verdict, Outage):
            self._went_down(verdict)

    def _write(self, row: Claimed, transition: Transition) -> None:
        self._host.record(Outcome(row, Settle(row.id, row.claim_count, row.requeue_count, transition)))

    # -- outages and shutdown --------------------------------------------------------------------------------------

    def _went_down(self, verdict: Outage) -> None:
        """The first outage releases everything of the channel that has not been started, and pauses it."""
        if self._down:
            return
        self._down = True
        self._release_all(self._ready, "the channel is down")
        self._ready.clear()
        self._pausing = self._loop.create_task(self._pause(verdict))

    async def _pause(self, verdict: Outage) -> None:
        try:
            await self._host.outage(self.spec, verdict)
        finally:
            self._down = False
            self._paused_at = self._loop.time()
            self._room.set()

    def _put_back(self, addressed: Sequence[tuple[Leased, list[str]]]) -> None:
        items = [item for item, _ in addressed]
        if self._stopping or self._down:
            self._release_all(items, "the worker stops or the channel is down")
        else:
            self._ready.extendleft(reversed(items))
            self._work.set()

    def _release_all(self, leased: Sequence[Leased], reason: str) -> None:
        for item in leased:
            self._write(item.row, Transition.released(reason))

    def tick(self) -> None:
        """Release what could not be started in time, so that it loses no lease for waiting here."""
        if self._ready and not self._has_time(self._ready[0]):
            late = [item for item in self._ready if not self._has_time(item)]
            self._ready = deque(item for item in self._ready if self._has_time(item))
            self._release_all(late, "too little of its lease was left")

    def stop(self) -> None:
        """Start nothing more; release what was not started."""
        self._stopping = True
        self._release_all(self._ready, "the worker stops")
        self._ready.clear()
        self._work.set()
        self._room.set()

    async def close(self) -> None:
        """After the last call: stop the sweeper and the channel. What still runs keeps its lease and is cancelled;
        threads that are stuck are left behind."""
        self._closed = True
        self._deadlines.close()
        if self._threads is not None:
            self._threads.close()
        running = [flight.task for flight in self._flights if flight.task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=ABANDON)
        if self._pausing is not None:
            await asyncio.wait([self._pausing], timeout=ABANDON)
        try:
            await self._channel.stop()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything, and we are leaving
            logger.warning("channel %s: stop() raised %s: %s", self.spec.name, type(error).__name__, error)


def _closes(verdict: Verdict) -> bool:
    """Whether a verdict shows that the channel works again: any but an outage and an uncounted retry."""
    return not isinstance(verdict, Outage) and not (isinstance(verdict, Retryable) and not verdict.counts)
