"""What a channel's runner needs of the worker around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from uuid import UUID

from attrs import define

from sendoff.flight import Flight
from sendoff.plugin.registry import ChannelSpec
from sendoff.settings import WorkerSettings
from sendoff.settler import Outcome
from sendoff.store.claim import Claimed
from sendoff.verdict import Outage

__all__ = ["Host", "Leased"]


@define(eq=False)
class Leased:
    """A claimed row and the monotonic moment before its claim: its lease began no earlier."""

    row: Claimed
    claimed_at: float


class Host(Protocol):
    """What a runner needs of its worker."""

    settings: WorkerSettings

    def record(self, outcome: Outcome) -> None:
        """Put a verdict in the outbox."""
        ...

    def may_start(self) -> bool:
        """Whether new sends may begin: the database is there, nothing suspect is being tried alone."""
        ...

    async def can_start(self) -> None:
        """Wait until they may, or until the worker stops."""
        ...

    def took_off(self, flight: Flight) -> None:
        """A call began."""
        ...

    def landed(self, flight: Flight) -> None:
        """A call ended, or is no longer waited for."""
        ...

    async def alone(self, flight: Callable[[], Awaitable[Flight | None]]) -> None:
        """Try a suspect row with nothing else in flight and nothing unrecorded."""
        ...

    async def held(self, rows: Sequence[Claimed]) -> set[UUID]:
        """Which of these leases are still ours."""
        ...

    async def look_up(self, spec: ChannelSpec, recipients: Sequence[str]) -> dict[str, list[str]]:
        """Addresses by recipient."""
        ...

    async def outage(self, spec: ChannelSpec, verdict: Outage) -> None:
        """Pause the channel for everybody."""
        ...

    def answered(self, spec: ChannelSpec) -> None:
        """The channel gave another verdict than an outage."""
        ...
