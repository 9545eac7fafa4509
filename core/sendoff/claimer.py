"""The claim loop of one channel: when to look, from where, and how long to sleep."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from sendoff.errors import StoreError, StoreUnavailable
from sendoff.runner import ChannelRunner
from sendoff.serving import Serving
from sendoff.store.claim import Claimed, ClaimRequest, Positions, lane_order
from sendoff.wakeup import idle_pause

__all__ = ["Claimer"]

logger = logging.getLogger("sendoff")

#: Look from the start this often, in seconds, and never spend more than a twentieth of the time on it.
START_EVERY, START_SHARE = 1.0, 20.0
#: After a claim that the database refused. Seconds.
REFUSED_PAUSE = 1.0


class Claimer:
    """Claims rows for one runner while it wants any."""

    def __init__(self, runner: ChannelRunner, worker: Serving) -> None:
        self.runner = runner
        self.worker = worker
        #: The last claim got all it asked for.
        self.saturated = False
        self._positions = Positions()
        self._woken = asyncio.Event()
        self._turn = 0
        self._idle = 0
        self._start_look = True
        self._next_start_look = 0.0

    def wake(self) -> None:
        """Something may have become due: look from the start."""
        self._woken.set()

    async def run(self) -> None:
        """Claim until the worker stops."""
        while not self.worker.stopping.is_set():
            await self._turn_once()

    async def _turn_once(self) -> None:
        wanted = self._limited(self.runner.wants())
        if wanted <= 0:
            await self.runner.room()
            return
        if not self.worker.may_start():
            await self.worker.can_start()
            return
        if self.worker.settler.is_behind:
            await self.worker.settler.caught_up()
            return
        self._woken.clear()
        from_start = self._start_look or time.monotonic() >= self._next_start_look
        rows = await self._claim(wanted, from_start=from_start)
        if rows is None:
            return
        self.saturated = len(rows) == wanted
        if self.saturated:
            self._idle, self._start_look = 0, False
        elif not from_start:
            self._start_look = True
        else:
            if rows:
                self._idle = 0
            await self._sleep()

    async def _claim(self, wanted: int, *, from_start: bool) -> list[Claimed] | None:
        request = ClaimRequest(
            channel=self.runner.spec.name,
            limit=wanted,
            lease=self.runner.lease,
            claimed_by=self.worker.name,
            lanes=lane_order(self._turn),
            positions=None if from_start else self._positions,
            unleased_only=self.worker.database.unleased_only,
        )
        self._turn += 1
        began = time.monotonic()
        try:
            rows = await self.worker.call(self.worker.store.claim, request)
        except StoreUnavailable as error:
            self.worker.settler.database_went_away(error)
            return None
        except StoreError as error:
            logger.error("channel %s: the claim failed: %s", self.runner.spec.name, error)
            await asyncio.sleep(REFUSED_PAUSE)
            return None
        if from_start:
            ended = time.monotonic()
            self._next_start_look = ended + max(START_EVERY, (ended - began) * START_SHARE)
        self._positions.advance(rows)
        self.claimed(rows)
        self.runner.accept(rows, began)
        return rows

    async def _sleep(self) -> None:
        """Nothing more is due: wait for a wake-up, or look again soon and then ever more seldom."""
        self._start_look = True
        pause = idle_pause(self._idle, self.worker.settings.poll)
        self._idle += 1
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), pause)
            self._idle = 0

    def _limited(self, wanted: int) -> int:
        """How many rows may be claimed at most; a drain has a limit."""
        return wanted

    def claimed(self, rows: list[Claimed]) -> None:
        """Rows were claimed; a drain counts them."""
