"""The channel breaker's pauses. Pure."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Breaker"]


@frozen
class Breaker:
    """How long an outage pauses a channel: ``first`` seconds, doubling to ``longest`` while outages follow each other,
    with ``floor`` (a provider's Retry-After) under it."""

    first: float = 5.0
    longest: float = 60.0
    floor: float = 0.0

    def pauses(self) -> list[float]:
        """The pause at each level, 0 first; the last one repeats."""
        found = [self.first]
        while found[-1] < self.longest:
            found.append(min(found[-1] * 2, self.longest))
        return [max(seconds, self.floor) for seconds in found]
