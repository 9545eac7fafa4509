"""What a row, its verdict and its events mean, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sendoff.cli.text import relative, span
from sendoff.report import ChannelStatus, EventView, OutgoingView

__all__ = ["channel_notes", "event_words", "next_step", "note", "verdict_words"]

_VERDICTS = {
    "sent": "sent",
    "no_target": "no target",
    "retryable": "failed, retryable",
    "permanent": "refused for good",
    "outage": "channel outage",
}
_EVENTS = {
    "created": "enqueued",
    "sent": "sent",
    "no_target": "no target: nobody to send to",
    "retry": "failed; will be tried again",
    "dead": "given up",
    "outage": "channel outage; went back to the queue at no cost",
    "released": "given back by the worker without a try",
    "deferred": "deferred",
    "expired": "expired",
    "cancelled": "cancelled",
    "suppressed": "suppressed",
    "requeued": "requeued",
    "lease_lost": "a verdict came after its lease had been lost",
    "delivered": "delivered",
    "opened": "opened",
    "read": "read",
}


_WHENS = {
    "finished": "to end",
    "sent": "to be sent",
    "no_target": "to find nobody to send to",
    "dead": "to fail for good",
    "unseen": "to end, and goes out if nobody has seen the notification by then",
}


def verdict_words(row: OutgoingView) -> str:
    """The last verdict and its reason; empty before the first try."""
    said = _VERDICTS.get(row.verdict or "", row.verdict or "")
    return ": ".join(part for part in (said, row.reason) if part)


def event_words(event: EventView) -> str:
    """One line of a timeline."""
    detail = event.detail
    words = _EVENTS.get(event.kind, event.kind)
    if event.kind == "lease_lost" and detail.get("sent"):
        words = "sent by a worker whose lease had been lost"
    verdict = detail.get("verdict")
    if event.kind == "dead" and isinstance(verdict, str):
        words = f"given up ({_VERDICTS.get(verdict, verdict)})"
    if detail.get("reason"):
        words = f"{words}: {detail['reason']}"
    extra = _extra(detail)
    return f"{words} ({', '.join(extra)})" if extra else words


def _extra(detail: Mapping[str, Any]) -> list[str]:
    extra: list[str] = []
    if isinstance(detail.get("delay"), int | float):
        extra.append(f"next try after {span(detail['delay'])}")
    if detail.get("provider_ref"):
        extra.append(f"provider's id {detail['provider_ref']}")
    details = detail.get("details")
    shown = dict(details) if isinstance(details, Mapping) else {}
    if shown.pop("maybe_sent", False):
        extra.append("the provider may have accepted it")
    shown.update({key: value for key, value in detail.items() if key not in _TOLD})
    extra.extend(f"{key} {value}" for key, value in shown.items() if value is not None)
    return extra


#: Keys of an event's detail that its sentence has told already.
_TOLD = {"reason", "verdict", "provider_ref", "delay", "details", "sent", "claim_count"}


def next_step(row: OutgoingView, now: datetime) -> str:
    """What will happen to this row if nobody does anything."""
    match row.status:
        case "pending":
            words = _pending(row, now)
            if row.cancel_requested_at is not None:
                words += "; a cancel was asked for: it ends as cancelled unless this try sends it"
            return words
        case "waiting":
            return f"waits for row {row.after_id} {_WHENS.get(row.after_when or 'finished', row.after_when)}"
        case "dead":
            return f"nothing, unless a person requeues it: sendoff requeue {row.id}"
        case "sent" if row.verdict == "no_target":
            return "nothing: there was nobody to send to on this channel"
        case "sent" | "delivered":
            return "nothing: it is done"
        case "cancelled":
            return "nothing: it was cancelled"
        case "expired":
            return "nothing: its time was over before it was sent"
    return f"unknown status {row.status}"


def note(row: OutgoingView, now: datetime) -> str:
    """What a list has room for: when the next try is, and how the last one ended."""
    parts = [verdict_words(row)]
    moment = row.next_attempt_at
    if row.status == "pending" and row.state != "leased" and moment is not None:
        if moment > now:
            parts.insert(0, f"try {row.try_count + 1} {relative(moment, now, parts=1)}")
        elif row.try_count:
            parts.insert(0, f"try {row.try_count + 1} is due")
    return "; ".join(part for part in parts if part)


def _pending(row: OutgoingView, now: datetime) -> str:
    if row.state == "leased" and row.claimed_until is not None:
        left = (row.claimed_until - now).total_seconds()
        worker = f"worker {row.claimed_by}" if row.claimed_by else "a worker"
        return f"{worker} has it; without a verdict within {span(left)} another one takes it"
    moment = row.next_attempt_at or row.due_at
    if moment is None or moment <= now:
        return "due: the next free worker takes it" + (f" (try {row.try_count + 1})" if row.try_count else "")
    when = relative(moment, now)
    return f"try {row.try_count + 1} {when}" if row.try_count else f"the first try {when}"


def channel_notes(channel: ChannelStatus | None, row: OutgoingView) -> list[str]:
    """Why a row that waits for a worker may wait long."""
    if channel is None or row.status != "pending":
        return []
    notes: list[str] = []
    if channel.paused:
        until = f" until {channel.paused_until:%Y-%m-%d %H:%M:%S} UTC" if channel.paused_until else ""
        notes.append(f"{channel.name} is paused{until}: {channel.paused}")
    if channel.warning:
        notes.append(channel.warning if channel.name in channel.warning else f"{channel.name}: {channel.warning}")
    return notes
