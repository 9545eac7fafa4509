"""What a verdict means for its row. Pure: facts, verdict, policy and ``now`` in, a :class:`Transition` out.

No I/O, no clock, no randomness: the jitter is drawn by the caller and handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from attrs import define, field, frozen

from sendoff.limits import Retry
from sendoff.verdict import RETRY_AFTER_CAP, NoTarget, Outage, Permanent, Retryable, Sent, Verdict

__all__ = ["LOST_LEASES_LIMIT", "Facts", "Policy", "Transition", "decide", "poisoned"]

#: Leases in a row without a verdict after which a row is taken to kill its workers.
LOST_LEASES_LIMIT = 20
#: From this many on, a row is tried with nothing else in flight in its worker.
LOST_LEASES_SUSPECT = 2

Kind: TypeAlias = Literal["sent", "no_target", "retry", "dead", "outage", "released", "cancelled"]


# Not frozen: attrs sets each field of a frozen class through a call, and one is made for every row.
@define(eq=False)
class Facts:
    """What a decision needs to know of the row, as it was when its lease began. Moments are the database's clock,
    in seconds since 1970."""

    attempt_count: int
    try_count: int
    first_due_at: float


@frozen(eq=False)
class Policy:
    """How one channel treats verdicts: its schedule and what ``NoTarget`` makes of a row."""

    retry: Retry = field(factory=Retry)
    on_no_target: Literal["sent", "dead"] = "dead"


@frozen(kw_only=True)
class Transition:
    """One state change of a leased row; made by the named constructors below and by nothing else.

    ``delay`` is seconds from the write until the row may be claimed again (None: at its due time). ``counted`` and
    ``tried`` are added to ``attempt_count`` and ``try_count``. ``moves_due`` says that ``due_at`` moves along.
    """

    kind: Kind
    status: Literal["pending", "sent", "dead"]
    verdict: str | None
    reason: str | None = None
    provider_ref: str | None = None
    progress: Mapping[str, Any] | None = None
    delay: float | None = None
    moves_due: bool = False
    counted: int = 0
    tried: int = 0
    details: Mapping[str, Any] | None = None

    @classmethod
    def sent(cls, verdict: Sent) -> Transition:
        """The provider accepted it."""
        if verdict.provider_ref is None and verdict.details is None:
            return _PLAINLY_SENT
        return cls(
            kind="sent",
            status="sent",
            verdict="sent",
            provider_ref=verdict.provider_ref,
            details=verdict.details,
            tried=1,
        )

    @classmethod
    def no_target(cls, verdict: NoTarget, policy: Policy) -> Transition:
        """Nobody to send to: final either way, never retried."""
        return cls(
            kind="no_target" if policy.on_no_target == "sent" else "dead",
            status=policy.on_no_target,
            verdict="no_target",
            reason=verdict.reason,
            details=verdict.details,
            tried=1,
        )

    @classmethod
    def retry(cls, verdict: Retryable, delay: float) -> Transition:
        """Try again after ``delay`` seconds."""
        return cls(
            kind="retry",
            status="pending",
            verdict="retryable",
            reason=verdict.reason,
            progress=verdict.progress,
            delay=delay,
            moves_due=True,
            tried=1,
            counted=int(verdict.counts),
            details=_with_maybe_sent(verdict),
        )

    @classmethod
    def dead(cls, name: str, reason: str, *, details: Mapping[str, Any] | None = None, counted: int = 0) -> Transition:
        """Not tried again unless a person requeues it."""
        return cls(kind="dead", status="dead", verdict=name, reason=reason, details=details, tried=1, counted=counted)

    @classmethod
    def outage(cls, verdict: Outage) -> Transition:
        """The channel is down: the row goes back and pays nothing."""
        return cls(
            kind="outage",
            status="pending",
            verdict="outage",
            reason=verdict.reason,
            details=verdict.details,
            tried=1,
        )

    @classmethod
    def released(cls, reason: str, *, delay: float | None = None) -> Transition:
        """Given back without a try: claimable at once (or after ``delay``), at no cost."""
        return cls(kind="released", status="pending", verdict=None, reason=reason, delay=delay)


#: What most rows come to; frozen, so that they can share it.
_PLAINLY_SENT = Transition(kind="sent", status="sent", verdict="sent", tried=1)


def decide(facts: Facts, verdict: Verdict, policy: Policy, now: float, *, jitter: float = 0.0) -> Transition:
    """The transition that ``verdict`` means. ``jitter`` is a number in [-1, 1] drawn by the caller."""
    match verdict:
        case Sent():
            return Transition.sent(verdict)
        case NoTarget():
            return Transition.no_target(verdict, policy)
        case Permanent(reason=reason, details=details):
            return Transition.dead("permanent", reason, details=details)
        case Outage():
            return Transition.outage(verdict)
        case Retryable(counts=True):
            return _counted(facts, verdict, policy.retry, jitter)
        case Retryable():
            return _uncounted(facts, verdict, policy.retry, now, jitter)


def poisoned(lost_leases: int) -> Transition:
    """The end of a row whose tries never came back with a verdict."""
    return Transition(
        kind="dead",
        status="dead",
        verdict=None,
        reason=f"lost {lost_leases} leases in a row without a verdict: this row seems to kill its workers",
    )


def _counted(facts: Facts, verdict: Retryable, retry: Retry, jitter: float) -> Transition:
    failures = facts.attempt_count + 1
    if failures >= retry.attempts:
        return Transition.dead("retryable", verdict.reason, details=_with_maybe_sent(verdict), counted=1)
    return Transition.retry(verdict, _delay(retry, failures, verdict, jitter))


def _uncounted(facts: Facts, verdict: Retryable, retry: Retry, now: float, jitter: float) -> Transition:
    waited = now - facts.first_due_at
    if waited >= retry.give_up_after:
        reason = f"gave up after {waited / 3600:.1f} h: {verdict.reason}"
        return Transition.dead("retryable", reason, details=_with_maybe_sent(verdict))
    return Transition.retry(verdict, _delay(retry, facts.try_count + 1, verdict, jitter))


def _delay(retry: Retry, failures: int, verdict: Retryable, jitter: float) -> float:
    """The schedule with its jitter; ``retry_after`` is a floor that jitter never lowers."""
    scheduled = retry.delay(failures) * (1 + retry.jitter * jitter)
    if verdict.retry_after is None:
        return scheduled
    floor = min(max(verdict.retry_after, type(verdict.retry_after)()), RETRY_AFTER_CAP).total_seconds()
    return max(scheduled, floor)


def _with_maybe_sent(verdict: Retryable) -> Mapping[str, Any] | None:
    return {**(verdict.details or {}), "maybe_sent": True} if verdict.maybe_sent else verdict.details
