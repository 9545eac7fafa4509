"""``sendoff list``, ``sendoff show`` and ``sendoff cancel``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import click

from sendoff.cli.failure import fail
from sendoff.cli.options import Cli, common
from sendoff.cli.text import ago, clock, count, relative
from sendoff.cli.values import PAST, STATUSES, VERDICTS, Choice
from sendoff.notification import Priority
from sendoff.report import OutgoingView

__all__ = ["cancel", "filters", "list_", "list_rows", "show"]


def filters(function: Callable[..., Any]) -> Callable[..., Any]:
    """The filters that every list of rows takes."""
    for decorate in reversed(
        (
            click.option("--recipient", metavar="ID", help="Only this recipient's."),
            click.option("-c", "--channel", metavar="NAME", help="Only this channel's."),
            click.option("--type", "type", metavar="TYPE", help="Only this type."),
            click.option("--verdict", type=Choice(VERDICTS), metavar="VERDICT", help=f"One of {', '.join(VERDICTS)}."),
            click.option("--since", type=PAST, metavar="TIME", help="Created since: 2h (ago), 2026-12-01T09:00:00Z."),
            click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many."),
            click.option("--before", type=click.UUID, metavar="ID", help="Rows older than this one: the next page."),
        )
    ):
        function = decorate(function)
    return function


@click.command("list")
@click.option("--status", type=Choice(STATUSES), metavar="STATUS", help=f"One of {', '.join(STATUSES)}.")
@filters
@common
def list_(cli: Cli, **wanted: Any) -> None:
    """List rows, newest first."""
    list_rows(cli, **wanted)


def list_rows(cli: Cli, *, limit: int, **wanted: Any) -> None:
    """Print the rows that match, and how to see the next page."""
    rows = cli.app().list(limit=limit, **wanted)

    def people() -> None:
        from sendoff.cli.tables import Column, lines, table
        from sendoff.cli.words import note

        if not rows:
            lines("no rows")
            return
        now = cli.now()
        table(
            [
                Column("id", fixed=True),
                "channel",
                "recipient",
                "type",
                "state",
                "created",
                Column("note", fluid=True),
            ],
            [
                (row.id, row.channel, row.recipient, row.type, row.state, ago(row.created_at, now), note(row, now))
                for row in rows
            ],
        )
        if len(rows) == limit:
            lines("", f"there may be more: --before {rows[-1].id}")

    cli.show(rows, people)


@click.command()
@click.argument("id", type=click.UUID)
@common
def show(cli: Cli, id: UUID) -> None:
    """Show one row, its timeline and what happens next."""
    row = cli.app().show(id)

    def people() -> None:
        from sendoff.cli.tables import facts, lines, table
        from sendoff.cli.words import channel_notes, event_words, next_step, verdict_words

        now = cli.now()
        notes: list[str] = []
        if row.status == "pending":
            channels = {channel.name: channel for channel in cli.app().status().channels}
            notes = channel_notes(channels.get(row.channel), row)
        facts(_facts(row, now, verdict_words(row)))
        lines("", f"next: {next_step(row, now)}", *(f"note: {note}" for note in notes), "")
        table(
            ["at", "", "what happened"],
            [(clock(event.at), relative(event.at, now), event_words(event)) for event in row.events],
        )

    cli.show(row, people)


def _facts(row: OutgoingView, now: datetime, verdict: str) -> list[tuple[str, object]]:
    def moment(value: datetime | None) -> str | None:
        return None if value is None else f"{clock(value)} ({relative(value, now)})"

    tries = str(row.try_count)
    if row.try_count != row.attempt_count:
        tries += f" ({row.attempt_count} against the budget)"
    return [
        ("row", row.id),
        ("notification", row.notification_id),
        ("broadcast", row.broadcast_id),
        ("channel", row.channel),
        ("recipient", row.recipient),
        ("type", row.type),
        ("priority", Priority(row.priority).name.lower()),
        ("state", row.state if row.state == row.status else f"{row.state} ({row.status})"),
        ("verdict", verdict),
        ("tries", tries),
        ("requeued", f"{count(row.requeue_count, 'time')}" if row.requeue_count else None),
        ("lost leases", str(row.lost_leases) if row.lost_leases else None),
        ("provider's id", row.provider_ref),
        ("dedup key", row.dedup_key),
        ("collapse key", row.collapse_key),
        ("created", moment(row.created_at)),
        ("due", moment(row.due_at)),
        ("expires", moment(row.expires_at)),
        ("sent", moment(row.sent_at)),
        ("delivered", moment(row.delivered_at)),
        ("opened", moment(row.opened_at)),
        ("read", moment(row.read_at)),
        ("finished", moment(row.finished_at)),
    ]


_OUTCOMES = {
    "cancelled": "cancelled",
    "in_flight": "in flight: a worker has it; it ends as cancelled unless this try sends it",
    "final": "final: it is too late, nothing changed",
}


@click.command()
@click.argument("notification_id", type=click.UUID)
@common
def cancel(cli: Cli, notification_id: UUID) -> None:
    """Cancel every row of a notification that is not sent yet.

    Exit code 1 when none could be cancelled.
    """
    answers = cli.app().cancel(notification_id)

    def people() -> None:
        from sendoff.cli.tables import Column, table

        table(
            [Column("row", fixed=True), Column("channel", fixed=True), Column("outcome", fluid=True)],
            [(answer.outgoing_id, answer.channel, _OUTCOMES.get(answer.outcome, answer.outcome)) for answer in answers],
        )

    cli.show(answers, people)
    if not any(answer.outcome == "cancelled" for answer in answers):
        raise fail("no row could be cancelled")
