"""How a channel wants to be driven: limits per worker and the retry schedule. Seconds throughout."""

from __future__ import annotations

import math
from datetime import timedelta

from attrs import field, frozen

from sendoff.errors import ConfigurationError

__all__ = ["Limits", "Retry"]


def seconds(value: float | timedelta) -> float:
    """A timedelta or a number as seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _optional_seconds(value: float | timedelta | None) -> float | None:
    return None if value is None else seconds(value)


def _all_seconds(values: tuple[float | timedelta, ...] | list[float | timedelta]) -> tuple[float, ...]:
    return tuple(seconds(value) for value in values)


@frozen
class Limits:
    """Limits of one channel in one worker.

    ``concurrency``: sends in flight at once; None means 100 on the worker's loop, or 20 threads for a channel whose
    ``send`` is a plain ``def``. ``batch``: rows handed to one ``send_many``
    call. ``timeout``: seconds until an answer is no longer waited for. ``lease``: seconds a row stays claimed, None
    for the worker's. ``rate``: starts per second, None for no limit.
    """

    concurrency: int | None = None
    batch: int = 100
    timeout: float = field(default=20.0, converter=seconds)
    lease: float | None = field(default=None, converter=_optional_seconds)
    rate: float | None = None

    def __attrs_post_init__(self) -> None:
        for name in ("concurrency", "batch"):
            value = getattr(self, name)
            if value is None and name == "concurrency":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"limits.{name} must be a whole number of at least 1 (got {value!r})")
        if not 0 < self.timeout < math.inf:
            raise ConfigurationError(f"limits.timeout must be above 0 seconds (got {self.timeout:g})")
        if self.lease is not None and not 0 < self.lease < math.inf:
            raise ConfigurationError(f"limits.lease must be above 0 seconds (got {self.lease:g})")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise ConfigurationError(f"limits.rate must be above 0 per second (got {self.rate:g})")


@frozen
class Retry:
    """The retry schedule.

    ``delays``: seconds before the second, third, ... try; the last one repeats. ``attempts``: counted failures until
    the row is dead, by default one more than there are delays. ``jitter``: share of the delay that is random, each
    way. ``give_up_after``: seconds from the first due time until uncounted failures end as dead too.
    """

    delays: tuple[float, ...] = field(default=(30.0, 120.0, 600.0, 3600.0), converter=_all_seconds)
    attempts: int = field(default=-1)
    jitter: float = 0.1
    give_up_after: float = field(default=86_400.0, converter=seconds)

    def __attrs_post_init__(self) -> None:
        if self.attempts == -1:
            object.__setattr__(self, "attempts", len(self.delays) + 1)
        if self.attempts < 1:
            raise ConfigurationError(f"retry.attempts must be at least 1 (got {self.attempts})")
        if any(not 0 <= delay < math.inf for delay in self.delays):
            raise ConfigurationError("retry.delays must be numbers of seconds, none of them negative")
        if not self.delays and self.attempts > 1:
            raise ConfigurationError("retry.delays is empty but retry.attempts is above 1; give at least one delay")
        if not 0 <= self.jitter < 1:
            raise ConfigurationError(f"retry.jitter must be in [0, 1) (got {self.jitter:g})")
        if not self.give_up_after > 0:
            raise ConfigurationError(f"retry.give_up_after must be above 0 seconds (got {self.give_up_after:g})")

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many failures (at least 1), without jitter."""
        return self.delays[min(failures, len(self.delays)) - 1] if self.delays else 0.0
