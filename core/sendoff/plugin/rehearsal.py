"""Stub channels that can be told what to answer, so that applications can rehearse failures.

A stub writes what it would send somewhere a person or a test can count it. Its settings may hold ``rules``: which
addresses get another answer than ``Sent``, and how many of their tries::

    [channels.email]
    latency = "50ms"                    # every answer takes that long
    seed = 7                            # another seed picks other messages for the same shares
    rules = [
      {match = "*@bounce.example", verdict = "permanent", reason = "550 no such user"},
      {match = "*", verdict = "retryable", share = 0.2, first_tries = 2, retry_after = "5s", counts = false},
    ]

The first rule that applies to an address and a try decides. Nothing here is random: runs repeat.
This module is public, because each stub is a pip package of its own and a stub of any other channel wants the same.
"""

from __future__ import annotations

import abc
import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, NoReturn

import attrs
from attrs import field, frozen

from sendoff.errors import nearest
from sendoff.notification import Delivery
from sendoff.plugin.channel import Channel, classify_error
from sendoff.verdict import NoTarget, Outage, Permanent, Retryable, Sent, Verdict

__all__ = ["RehearsalChannel", "RehearsalConfig", "RehearsedError", "Rule", "choose", "combine"]

#: The five verdicts, and three ways of giving none: a send that never returns, an exception, the end of the process.
ANSWERS = ("sent", "no_target", "retryable", "permanent", "outage", "hang", "raise", "crash")
#: What a process that was killed by SIGKILL reports to its parent's shell.
CRASH_STATUS = 137
#: Longer than any channel timeout; bounded, so that a forgotten rehearsal ends.
HANG_SECONDS = 86_400.0


class RehearsedError(Exception):
    """What a rule with ``verdict = "raise"`` raises; like any exception nobody knows, it becomes ``Retryable``."""


def _known_answer(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    if value not in ANSWERS:
        guess = nearest(value, ANSWERS)
        hint = f"did you mean {guess!r}?" if guess else f"known: {', '.join(ANSWERS)}"
        raise ValueError(f"{attribute.name} {value!r} is unknown; {hint}")


def _a_share(_: Any, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{attribute.name} must be from 0 to 1 (got {value:g})")


def _not_negative(_: Any, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and not value >= 0:
        raise ValueError(f"{attribute.name} must not be negative (got {value:g})")


@frozen(kw_only=True)
class Rule:
    """Which tries get which answer.

    ``match``: a pattern for the address (``*``, ``?``, ``[abc]``; case does not matter). ``verdict``: ``sent,
    no_target, retryable, permanent, outage``, or ``hang`` (the send never returns), ``raise`` (it raises), ``crash``
    (the process ends on the spot, as by SIGKILL; the row's next worker meets the same end, until the row counts as one
    that kills its workers). ``share``: of the matching tries, from 0 to 1. ``first_tries``: only tries up to this
    number, None for all. ``reason``: of the verdict. ``retry_after``: seconds, for ``retryable`` and ``outage``.
    ``counts`` and ``maybe_sent``: of ``retryable``.

    ``written``: whether the message is written all the same, before the answer is given: by default only for
    ``sent``. ``true`` with ``retryable`` or ``crash`` is a provider that accepted and whose answer was lost, so the
    repeat makes a duplicate; ``false`` with ``sent`` is a provider that loses messages.
    """

    match: str = "*"
    verdict: str = field(validator=_known_answer)
    share: float = field(default=1.0, validator=_a_share)
    first_tries: int | None = field(default=None, validator=_not_negative)
    reason: str = "rehearsed"
    retry_after: float | None = field(default=None, validator=_not_negative)
    counts: bool = True
    maybe_sent: bool = False
    written: bool | None = None

    def writes(self) -> bool:
        """Whether the message is written under this rule."""
        return self.verdict == "sent" if self.written is None else self.written

    def answer(self) -> Verdict:
        """The verdict that this rule asks for; of the answers that are none, what the worker would make of them."""
        wait = None if self.retry_after is None else timedelta(seconds=self.retry_after)
        match self.verdict:
            case "sent":
                return Sent()
            case "no_target":
                return NoTarget(self.reason)
            case "permanent":
                return Permanent(self.reason)
            case "outage":
                return Outage(self.reason, retry_after=wait)
            case _:
                return Retryable(self.reason, retry_after=wait, counts=self.counts, maybe_sent=self.maybe_sent)


@frozen(kw_only=True)
class RehearsalConfig:
    """The settings that every stub has; a stub's own class inherits them. ``latency`` is in seconds."""

    rules: list[Rule] = field(factory=list)
    latency: float = field(default=0.0, validator=_not_negative)
    seed: int = 0


def choose(rules: Sequence[Rule], *, seed: int, key: str, attempt: int, address: str) -> Rule | None:
    """The first rule that applies to this try, None where none does. ``attempt`` counts from 1.

    Pure. A share is a hash of seed, rule, idempotency key, attempt and address, read as a fraction: rules are
    independent of each other, and a second run with the same keys fails in the same places.
    """
    lowered = address.lower()
    for index, rule in enumerate(rules):
        if rule.first_tries is not None and attempt > rule.first_tries:
            continue
        if not fnmatchcase(lowered, rule.match.lower()):
            continue
        drawn = blake2b("\0".join((str(seed), str(index), key, str(attempt), address)).encode(), digest_size=8)
        if int.from_bytes(drawn.digest()) < rule.share * 2**64:
            return rule
    return None


def combine(answers: Sequence[tuple[str, Verdict]]) -> Verdict:
    """One verdict out of one per address, each kept in ``details["addresses"]`` in order.

    ``Sent`` when any address accepted. Otherwise the answer that leaves most open: ``Outage``, ``Retryable`` (the
    longest wait; its budget is used if any of them counts), ``Permanent``, ``NoTarget``.
    """
    details = {"addresses": [_described(address, verdict) for address, verdict in answers]}
    sent = [verdict for _, verdict in answers if isinstance(verdict, Sent)]
    if sent:
        return Sent(provider_ref=next((one.provider_ref for one in sent if one.provider_ref), None), details=details)
    outages = [verdict for _, verdict in answers if isinstance(verdict, Outage)]
    if outages:
        return Outage(_reasons(outages), retry_after=_longest(outages), details=details)
    retryables = [verdict for _, verdict in answers if isinstance(verdict, Retryable)]
    if retryables:
        return Retryable(
            _reasons(retryables),
            retry_after=_longest(retryables),
            maybe_sent=any(one.maybe_sent for one in retryables),
            counts=any(one.counts for one in retryables),
            details=details,
        )
    permanents = [verdict for _, verdict in answers if isinstance(verdict, Permanent)]
    if permanents:
        return Permanent(_reasons(permanents), details=details)
    dead_ends = [verdict for _, verdict in answers if isinstance(verdict, NoTarget)]
    return NoTarget(_reasons(dead_ends) or "the recipient has no address", details=details)


def _described(address: str, verdict: Verdict) -> dict[str, Any]:
    names = {Sent: "sent", NoTarget: "no_target", Retryable: "retryable", Permanent: "permanent", Outage: "outage"}
    # An address that an application's own look-up found may hold what no database stores.
    shown = address.encode(errors="replace").decode().replace("\0", "?")
    described: dict[str, Any] = {"address": shown, "verdict": names[type(verdict)]}
    if isinstance(verdict, Sent):
        if verdict.provider_ref is not None:
            described["provider_ref"] = verdict.provider_ref
    else:
        described["reason"] = verdict.reason
    return {**described, **(verdict.details or {})}


def _reasons(verdicts: Sequence[NoTarget | Retryable | Permanent | Outage]) -> str:
    """Each reason once, in order."""
    return "; ".join(dict.fromkeys(verdict.reason for verdict in verdicts))


def _longest(verdicts: Sequence[Retryable | Outage]) -> timedelta | None:
    return max((one.retry_after for one in verdicts if one.retry_after is not None), default=None)


class RehearsalChannel(Channel):
    """The base class of stubs: validates each address, asks the rules, writes, and makes one verdict of it all.

    A subclass gives :meth:`problem` and :meth:`write`, and a ``prepare`` as any channel does.
    """

    needs_address = True

    def __init__(self, name: str, config: RehearsalConfig) -> None:
        self.name = name
        self._rehearsal = config

    @abc.abstractmethod
    def problem(self, address: str) -> str | None:
        """What is wrong with the form of an address, None where nothing is. Pure. Malformed ones are no targets."""

    @abc.abstractmethod
    def write(self, delivery: Delivery, address: str) -> Sent:
        """Write the message to one address, in a thread. :class:`OSError` where it cannot be written."""

    async def send(self, delivery: Delivery) -> Verdict:
        """One message for each address; see :func:`combine` for what becomes of several answers."""
        if self._rehearsal.latency:
            await asyncio.sleep(self._rehearsal.latency)
        return combine([(address, await self._try(delivery, address)) for address in delivery.addresses])

    async def _try(self, delivery: Delivery, address: str) -> Verdict:
        problem = self.problem(address)
        if problem is not None:
            return NoTarget(problem)
        rule = choose(
            self._rehearsal.rules,
            seed=self._rehearsal.seed,
            key=delivery.idempotency_key,
            attempt=delivery.attempt,
            address=address,
        )
        answer: Verdict = Sent()
        if rule is None or rule.writes():
            try:
                # Files block, and the loop is shared with every other channel.
                answer = await asyncio.to_thread(self.write, delivery, address)
            except OSError as error:
                # Per address: an exception out of send() would forget the addresses before this one.
                return self.classify(error)
        if rule is None or rule.verdict == "sent":
            return answer
        match rule.verdict:
            case "hang":
                await asyncio.sleep(HANG_SECONDS)
            case "raise":
                raise RehearsedError(rule.reason)
            case "crash":
                _crash()
        return rule.answer()

    def classify(self, error: Exception) -> Verdict:
        """A folder that cannot be written to is our misconfiguration, the same for every message."""
        if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError):
            where = f" {error.filename}" if error.filename else ""
            return Outage(f"cannot write{where}: {error.strerror or type(error).__name__}")
        return classify_error(error)


def _crash() -> NoReturn:
    os._exit(CRASH_STATUS)
