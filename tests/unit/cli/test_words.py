"""What a row and its events mean, in plain words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import attrs
import pytest

from sendoff.cli.words import channel_notes, event_words, next_step, note, verdict_words
from sendoff.report import ChannelStatus, EventView, OutgoingView

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
LEASED = "a worker has it; without a verdict within 40 s another one takes it"
UNSEEN = "to end, and goes out if nobody has seen the notification by then"
RETRY = "failed; will be tried again: timed out"
ID = UUID("01936d5e-0000-7000-8000-000000000001")


def row(**facts: Any) -> OutgoingView:
    nothing: dict[str, Any] = dict.fromkeys(field.name for field in attrs.fields(OutgoingView))
    usual = {
        "id": ID,
        "notification_id": ID,
        "channel": "sms",
        "recipient": "u1",
        "type": "t",
        "priority": 1,
        "status": "pending",
        "state": "due",
        "events": (),
        "created_at": NOW,
    }
    counts = dict.fromkeys(("attempt_count", "try_count", "claim_count", "lost_leases", "requeue_count"), 0)
    return OutgoingView(**(nothing | counts | usual | facts))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, "due: the next free worker takes it"),
        ({"state": "scheduled", "next_attempt_at": NOW + timedelta(hours=2)}, "the first try in 2 h"),
        ({"state": "retrying", "try_count": 2, "next_attempt_at": NOW + timedelta(minutes=3)}, "try 3 in 3 min"),
        ({"state": "due", "try_count": 2, "next_attempt_at": NOW}, "due: the next free worker takes it (try 3)"),
        (
            {"state": "leased", "claimed_until": NOW + timedelta(seconds=40), "claimed_by": "web-1:7"},
            "worker web-1:7 has it; without a verdict within 40 s another one takes it",
        ),
        (
            {"state": "leased", "claimed_until": NOW + timedelta(seconds=40), "cancel_requested_at": NOW},
            LEASED + "; a cancel was asked for: it ends as cancelled unless this try sends it",
        ),
        ({"status": "waiting", "after_id": ID, "after_when": "unseen"}, f"waits for row {ID} {UNSEEN}"),
        ({"status": "waiting", "after_id": ID}, f"waits for row {ID} to end"),
        ({"status": "dead"}, f"nothing, unless a person requeues it: sendoff requeue {ID}"),
        ({"status": "sent", "verdict": "sent"}, "nothing: it is done"),
        ({"status": "sent", "verdict": "no_target"}, "nothing: there was nobody to send to on this channel"),
        ({"status": "delivered"}, "nothing: it is done"),
        ({"status": "cancelled"}, "nothing: it was cancelled"),
        ({"status": "expired"}, "nothing: its time was over before it was sent"),
    ],
)
def test_what_happens_next(facts: dict[str, Any], expected: str) -> None:
    assert next_step(row(**facts), NOW) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ""),
        ({"verdict": "sent"}, "sent"),
        ({"verdict": "retryable", "reason": "HTTP 503"}, "failed, retryable: HTTP 503"),
        ({"verdict": None, "reason": "cancelled on request"}, "cancelled on request"),
    ],
)
def test_the_last_verdict(facts: dict[str, Any], expected: str) -> None:
    assert verdict_words(row(**facts)) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"next_attempt_at": NOW}, ""),
        ({"state": "scheduled", "next_attempt_at": NOW + timedelta(minutes=90)}, "try 1 in 1 h"),
        (
            {"try_count": 1, "next_attempt_at": NOW + timedelta(seconds=30), "verdict": "retryable", "reason": "busy"},
            "try 2 in 30 s; failed, retryable: busy",
        ),
        ({"try_count": 1, "next_attempt_at": NOW, "verdict": "outage"}, "try 2 is due; channel outage"),
        ({"state": "leased", "next_attempt_at": NOW + timedelta(seconds=60)}, ""),
        ({"status": "dead", "verdict": "permanent", "reason": "550"}, "refused for good: 550"),
    ],
)
def test_the_note_of_a_list(facts: dict[str, Any], expected: str) -> None:
    assert note(row(**facts), NOW) == expected


@pytest.mark.parametrize(
    ("kind", "detail", "expected"),
    [
        ("created", {}, "enqueued"),
        ("sent", {"provider_ref": "abc"}, "sent (provider's id abc)"),
        (
            "retry",
            {"reason": "timed out", "delay": 30.0, "details": {"maybe_sent": True, "status": 504}},
            RETRY + " (next try after 30 s, the provider may have accepted it, status 504)",
        ),
        (
            "dead",
            {"verdict": "permanent", "reason": "550 no such user"},
            "given up (refused for good): 550 no such user",
        ),
        ("lease_lost", {"sent": True}, "sent by a worker whose lease had been lost"),
        (
            "lease_lost",
            {"sent": False, "verdict": "retryable", "claim_count": 3},
            "a verdict came after its lease had been lost",
        ),
        ("requeued", {"by": "ops"}, "requeued (by ops)"),
        ("something_new", {}, "something_new"),
    ],
)
def test_a_timeline_reads_as_sentences(kind: str, detail: dict[str, Any], expected: str) -> None:
    assert event_words(EventView(at=NOW, kind=kind, detail=detail)) == expected


def test_a_pending_row_tells_what_its_channel_waits_for() -> None:
    channel = ChannelStatus(
        name="sms", loaded=True, paused="paused by ops: bill unpaid", paused_until=NOW, warning="no worker serves sms"
    )

    assert channel_notes(channel, row()) == [
        "sms is paused until 2026-12-01 09:00:00 UTC: paused by ops: bill unpaid",
        "no worker serves sms",
    ]
    assert channel_notes(channel, row(status="sent")) == []
    assert channel_notes(None, row()) == []
