"""``sendoff enqueue`` and ``sendoff send``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

import click

from sendoff.cli.content import content_options, content_values
from sendoff.cli.failure import fail
from sendoff.cli.options import Cli, common
from sendoff.cli.text import count
from sendoff.notification import Notification

__all__ = ["enqueue", "send"]


def _one(recipient: str | None, type_: str | None, said: Mapping[str, Any]) -> Notification:
    from sendoff.cli.lines import notification_from

    if recipient is None or type_ is None:
        raise click.UsageError("say RECIPIENT and TYPE, or read many with --stdin or --file")
    return notification_from({"recipient": recipient, "type": type_, **said})


@click.command()
@click.argument("recipient", required=False)
@click.argument("type", required=False)
@content_options
@click.option("--stdin", is_flag=True, help="Read JSON lines from stdin; the options are defaults for each.")
@click.option("--file", "file", type=click.File("rb"), metavar="FILE", help="Read JSON lines from a file.")
@common
def enqueue(
    cli: Cli,
    recipient: str | None,
    type: str | None,
    stdin: bool,
    file: BinaryIO | None,
    **content: Any,
) -> None:
    """Put a notification into the queue, or many from JSON lines.

    A line is an object with the fields of a notification: {"recipient": "u1", "type": "order.shipped", "channels":
    ["inbox"], "title": "On its way", "dedup_key": "order:17"}. Lines that could never be delivered are named by their
    number on stderr and the exit code is 1; the others are in.
    """
    said = content_values(**content)
    if stdin or file is not None:
        if stdin and file is not None:
            raise click.UsageError("give one of --stdin and --file")
        from sendoff.cli.bulk import enqueue_lines

        # In bulk RECIPIENT and TYPE are defaults like the options.
        given = {"recipient": recipient, "type": type}
        defaults = said | {key: value for key, value in given.items() if value is not None}
        enqueue_lines(cli, file if file is not None else sys.stdin.buffer, defaults)
        return
    answer = cli.app().enqueue(_one(recipient, type, said), None)

    def people() -> None:
        from sendoff.cli.tables import Column, lines, table

        lines(f"notification {answer.notification_id}")
        table(
            [Column("channel", fixed=True), "outcome", Column("row", fixed=True), Column("reason", fluid=True)],
            [(row.channel, row.outcome, row.outgoing_id, row.reason) for row in answer.rows],
        )

    cli.show(answer, people)


@click.command()
@click.argument("recipient")
@click.argument("type")
@content_options
@common
def send(cli: Cli, recipient: str, type: str, **content: Any) -> None:
    """Enqueue a notification and make the first try at once, in this process.

    Exit code 0 only when every row is sent.
    """
    rows = cli.app().send_now(_one(recipient, type, content_values(**content)))
    failed = [row for row in rows if row.status not in {"sent", "delivered"}]

    def people() -> None:
        from sendoff.cli.tables import Column, table
        from sendoff.cli.words import next_step, verdict_words

        now = cli.now()
        table(
            [
                Column("channel", fixed=True),
                "state",
                Column("verdict", fluid=True),
                Column("next", fluid=True),
                Column("row", fixed=True),
            ],
            [(row.channel, row.state, verdict_words(row), next_step(row, now), row.id) for row in rows],
        )

    cli.show(rows, people)
    if not rows:
        raise fail("nothing was sent: every channel was suppressed")
    if failed:
        raise fail(f"{count(len(failed), 'row')} of {len(rows)} not sent: {', '.join(row.channel for row in failed)}")
