"""Calls of a channel that are under way, and their deadlines."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from attrs import define, field

from sendoff.store.claim import Claimed

__all__ = ["Deadlines", "Flight"]


@define(eq=False)
class Flight:
    """One call of ``send`` or ``send_many``: its rows, and whether it is still waited for."""

    rows: list[Claimed]
    started: float
    deadline: float
    task: asyncio.Future[Any] | None = None
    ended: bool = False
    overdue: bool = False
    landed: asyncio.Event | None = field(default=None)

    def over(self) -> None:
        """Tell whoever waits for this flight alone that its verdict is known."""
        if self.landed is not None:
            self.landed.set()


class Deadlines:
    """One sweeper for all deadlines of a channel: they have one timeout, so they end in the order in which they began
    and a queue is enough. A timer for each call would cost more than most calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop, overdue: Callable[[Flight], None]) -> None:
        self._loop = loop
        self._overdue = overdue
        self._flights: OrderedDict[int, Flight] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, flight: Flight) -> None:
        """Call ``overdue`` when the flight has not ended by its deadline."""
        self._flights[id(flight)] = flight
        if self._timer is None:
            self._timer = self._loop.call_at(flight.deadline, self._sweep)

    def forget(self, flight: Flight) -> None:
        """The flight has ended."""
        self._flights.pop(id(flight), None)

    def _sweep(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._flights:
            key, head = next(iter(self._flights.items()))
            if head.deadline > now:
                self._timer = self._loop.call_at(head.deadline, self._sweep)
                return
            del self._flights[key]
            head.overdue = True
            self._overdue(head)

    def close(self) -> None:
        """Stop the sweeper."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
