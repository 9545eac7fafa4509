"""From one verdict for each device to the one verdict of the row. Pure.

A row has one state and a recipient may have several devices: what each of them answered is kept in the details, in the
order of the addresses, and what the next try must know in ``progress``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import Any, Literal

from attrs import frozen

from sendoff.plugin import NoTarget, Outage, Permanent, Retryable, Sent, Verdict

__all__ = ["Memo", "combine", "shown"]

Success = Literal["any", "all"]


def _digest(address: str) -> str:
    """Enough to know an address again; the row and its events need not hold the address itself."""
    return blake2b(address.encode(), digest_size=9).hexdigest()


def shown(address: str) -> str:
    """An address for people and events: enough to find the device by, not enough to send to it."""
    return address if len(address) <= 24 else f"{address[:8]}\N{HORIZONTAL ELLIPSIS}{address[-8:]}"


@frozen
class Memo:
    """What earlier tries of a row have settled: who accepted, and who is dead. Kept with ``success = "all"``."""

    accepted: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()

    @classmethod
    def read(cls, progress: Mapping[str, Any] | None) -> Memo:
        """From ``delivery.progress``; what cannot be read is nothing."""

        def digests(key: str) -> frozenset[str]:
            found = (progress or {}).get(key)
            return frozenset(one for one in found if isinstance(one, str)) if isinstance(found, list) else frozenset()

        return cls(digests("accepted"), digests("dead"))

    def open(self, addresses: Sequence[str]) -> list[str]:
        """The addresses that are still to be asked, each once, in order."""
        settled = self.accepted | self.dead
        return [address for address in dict.fromkeys(addresses) if _digest(address) not in settled]

    def after(self, results: Sequence[tuple[str, Verdict]]) -> Memo:
        """With what this try has settled."""
        accepted = {_digest(address) for address, verdict in results if isinstance(verdict, Sent)}
        dead = {_digest(address) for address, verdict in results if isinstance(verdict, NoTarget)}
        return Memo(self.accepted | accepted, self.dead | dead)

    def progress(self) -> dict[str, Any]:
        """As JSON for ``Retryable.progress``."""
        return {"accepted": sorted(self.accepted), "dead": sorted(self.dead)}


def combine(results: Sequence[tuple[str, Verdict]], success: Success, memo: Memo) -> Verdict:
    """The row's verdict, ``details["addresses"]`` one for each device in order.

    Somebody accepted: ``Sent``; with ``"all"`` only once nobody is left who may accept yet (dead devices and refused
    messages never will), until then ``Retryable`` with a memo, so that the next try asks only those. Nobody accepted:
    what leaves most open decides, ``Outage``, ``Retryable`` (the longest wait; its budget is used when any of them
    counts), ``Permanent``, ``NoTarget``.
    """
    details = {"addresses": [_described(address, verdict) for address, verdict in results]}
    verdicts = [verdict for _, verdict in results]
    sent = [one for one in verdicts if isinstance(one, Sent)]
    outages = [one for one in verdicts if isinstance(one, Outage)]
    retryables = [one for one in verdicts if isinstance(one, Retryable)]
    accepted = bool(sent) or bool(memo.accepted)
    if accepted and (success == "any" or not (outages or retryables)):
        return Sent(provider_ref=next((one.provider_ref for one in sent if one.provider_ref), None), details=details)
    if outages and not accepted:
        return Outage(_reasons(outages), retry_after=_longest(outages), details=details)
    if retryables or outages:
        # An outage after some have accepted: only a retryable has a memo, and without one they would be sent to again.
        return Retryable(
            _reasons([*outages, *retryables]),
            retry_after=_longest([*outages, *retryables]),
            maybe_sent=any(one.maybe_sent for one in retryables),
            counts=any(one.counts for one in retryables),
            progress=memo.after(results).progress() if success == "all" else None,
            details=details,
        )
    permanents = [one for one in verdicts if isinstance(one, Permanent)]
    if permanents:
        return Permanent(_reasons(permanents), details=details)
    dead = [one for one in verdicts if isinstance(one, NoTarget)]
    return NoTarget(_reasons(dead) or "no address", details=details)


def _described(address: str, verdict: Verdict) -> dict[str, Any]:
    names = {Sent: "sent", NoTarget: "no_target", Retryable: "retryable", Permanent: "permanent", Outage: "outage"}
    described: dict[str, Any] = {"address": shown(address), "verdict": names[type(verdict)]}
    if isinstance(verdict, Sent):
        described["provider_ref"] = verdict.provider_ref
    else:
        described["reason"] = verdict.reason
    return {**described, **(verdict.details or {})}


def _reasons(verdicts: Sequence[NoTarget | Retryable | Permanent | Outage]) -> str:
    """Each reason once, in order."""
    return "; ".join(dict.fromkeys(verdict.reason for verdict in verdicts))


def _longest(verdicts: Sequence[Retryable | Outage]) -> timedelta | None:
    return max((one.retry_after for one in verdicts if one.retry_after is not None), default=None)
