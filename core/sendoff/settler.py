"""Recording verdicts: everything that is ready, in batches, for as long as it takes.

The database may go away for minutes. Verdicts stay in memory and are written before anything else when it is back;
until then the worker starts nothing new, because it could not be recorded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from attrs import define

from sendoff.errors import StoreError, StoreUnavailable
from sendoff.settlement import Settlement
from sendoff.store.claim import Claimed
from sendoff.store.settle import Settle, Settled

__all__ = ["Database", "Outcome", "Settler"]

logger = logging.getLogger("sendoff")

#: Seconds between two tries to reach a database that is away, doubling up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
#: After a return of the database, rows whose lease ran out are left alone for this long, so that the verdicts which
#: other workers still hold can land.
OTHERS_FIRST = 5.0
#: Full batches of verdicts that may wait before nothing more is claimed.
BATCHES_BEHIND = 3


# Not frozen: attrs sets each field of a frozen class through a call, and one is made for every row.
@define(eq=False)
class Outcome:
    """A verdict on its way: the row it belongs to and what to write."""

    row: Claimed
    settle: Settle


class Database:
    """Whether the database answers, as this worker last saw it."""

    def __init__(self) -> None:
        self.up = asyncio.Event()
        self.up.set()
        self.fresh_only_until = 0.0

    def went_away(self, error: StoreError) -> None:
        """A call failed for a reason that passes."""
        if self.up.is_set():
            logger.warning("the database is away (%s); starting nothing new until it is back", error)
        self.up.clear()

    def came_back(self) -> None:
        """Everything that was kept has been written."""
        if not self.up.is_set():
            logger.warning("the database is back; pending verdicts are recorded")
            self.fresh_only_until = time.monotonic() + OTHERS_FIRST
        self.up.set()

    @property
    def unleased_only(self) -> bool:
        """Leave rows whose lease ran out to others for now."""
        return time.monotonic() < self.fresh_only_until


class StoreCalls(Protocol):
    """How the settler reaches the store: each call in a thread, never cancelled."""

    async def settle(self, verdicts: list[Settle]) -> list[Settled]:
        """See :meth:`sendoff.store.Store.settle`."""
        ...

    async def touch(self) -> None:
        """One small write, to see whether the database takes writes."""
        ...


class Settler:
    """The outbox of verdicts and the task that empties it."""

    def __init__(
        self,
        calls: StoreCalls,
        database: Database,
        *,
        batch: int,
        after: Callable[[list[tuple[Outcome, Settled]]], Awaitable[None]],
    ) -> None:
        self._calls = calls
        self._database = database
        self._batch = batch
        self._after = after
        self._outbox: deque[Outcome] = deque()
        self._wanted = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._calm = asyncio.Event()
        self._calm.set()
        self._most = batch * BATCHES_BEHIND
        self._closing = False
        self._pause = FIRST_PAUSE
        self._writing = 0
        #: Verdicts written, by the event kind; ``lost`` where the lease was over.
        self.counts: Counter[str] = Counter()
        #: Verdicts that could not be recorded at all.
        self.failed = 0

    def add(self, outcome: Outcome) -> None:
        """Put a verdict in the outbox."""
        self._outbox.append(outcome)
        self._empty.clear()
        self._wanted.set()
        if len(self._outbox) >= self._most:
            self._calm.clear()

    @property
    def pending(self) -> int:
        """Verdicts not yet written."""
        return len(self._outbox) + self._writing

    @property
    def is_behind(self) -> bool:
        """Verdicts come faster than they can be recorded: claim nothing more, or they outlive their leases."""
        return not self._calm.is_set()

    async def caught_up(self) -> None:
        """Wait until it is not, or until the worker stops."""
        await self._calm.wait()

    def stop_waiting(self) -> None:
        """The worker stops: nobody waits to claim more."""
        self._calm.set()

    async def flushed(self) -> None:
        """Wait until everything in the outbox is written and its consequences are drawn."""
        await self._empty.wait()

    def database_went_away(self, error: StoreError) -> None:
        """Some other call found the database away: look for its return."""
        self._database.went_away(error)
        self._wanted.set()

    def close(self) -> None:
        """Stop once the outbox is empty."""
        self._closing = True
        self._wanted.set()

    async def run(self) -> None:
        """Write what is ready, until closed and empty."""
        while True:
            await self._wanted.wait()
            if not self._outbox and self._database.up.is_set():
                self._wanted.clear()
                self._empty.set()
                if self._closing:
                    return
                continue
            batch = [self._outbox.popleft() for _ in range(min(self._batch, len(self._outbox)))]
            self._writing = len(batch)
            await self._write(batch)
            self._writing = 0
            if len(self._outbox) < self._most:
                self._calm.set()
            if self._closing and not self._outbox and not self._database.up.is_set():
                self._empty.set()
                return

    async def _write(self, batch: list[Outcome]) -> None:
        try:
            if batch:
                settled = await self._calls.settle([outcome.settle for outcome in batch])
            else:
                settled = []
                await self._calls.touch()
        except StoreUnavailable as error:
            self._outbox.extendleft(reversed(batch))
            self._writing = 0
            self._database.went_away(error)
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            return
        except Exception as error:  # noqa: BLE001 - the outbox must go on whatever one batch did
            # The rows keep their leases and come back when these end: nothing is lost, and the fault is said aloud.
            self.failed += len(batch)
            ids = ", ".join(str(outcome.row.id) for outcome in batch[:5])
            logger.error("%d verdicts could not be recorded (%s: %s): %s", len(batch), type(error).__name__, error, ids)
            await asyncio.sleep(self._pause)
            return
        self._pause = FIRST_PAUSE
        if not self._outbox:
            self._database.came_back()
        self._count(batch, settled)
        if batch:
            await self._after(list(zip(batch, settled, strict=True)))

    def _count(self, batch: list[Outcome], settled: list[Settled]) -> None:
        for outcome, answer in zip(batch, settled, strict=True):
            if answer.outcome == "lost":
                self.counts["lost"] += 1
                continue
            self.counts[answer.kind or "?"] += 1
            if answer.status == "dead":
                logger.error(
                    "dead letter: %s %s to %s (%s): %s",
                    outcome.row.channel,
                    outcome.row.id,
                    outcome.row.recipient,
                    outcome.row.type,
                    outcome.settle.record()["reason"],
                )


def settlement(outcome: Outcome, settled: Settled) -> Settlement:
    """What observers are told of an outcome."""
    row = outcome.row
    return Settlement(
        outgoing_id=row.id,
        notification_id=row.notification_id,
        recipient=row.recipient,
        channel=row.channel,
        type=row.type,
        status=settled.status or "",
        kind=settled.kind or "",
        reason=outcome.settle.transition.reason,
    )
