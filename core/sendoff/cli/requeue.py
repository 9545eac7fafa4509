"""``sendoff requeue``, ``sendoff dead list`` and ``sendoff dead requeue``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import click

from sendoff.cli.failure import fail
from sendoff.cli.options import Cli, common, common_options
from sendoff.cli.rows import filters, list_rows
from sendoff.cli.text import count
from sendoff.cli.values import DURATION, PAST, VERDICTS, Choice

__all__ = ["dead", "requeue"]


@click.command()
@click.argument("ids", nargs=-1, type=click.UUID, metavar="[ID]...")
@click.option("-c", "--channel", metavar="NAME", help="Dead rows of this channel.")
@click.option(
    "--verdict", type=Choice(VERDICTS), metavar="VERDICT", help=f"Dead by this verdict: {', '.join(VERDICTS)}."
)
@click.option("--reason", metavar="TEXT", help="Dead with this text in the reason.")
@click.option("--since", type=PAST, metavar="TIME", help="Dead since: 2h (ago), or 2026-12-01T09:00:00Z.")
@click.option("--all", "all_", is_flag=True, help="Every dead row.")
@click.option("--ttl", type=DURATION, metavar="DURATION", help="A new time to live; expired rows need one.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common
def requeue(
    cli: Cli,
    ids: Sequence[UUID],
    channel: str | None,
    verdict: str | None,
    reason: str | None,
    since: datetime | None,
    all_: bool,
    ttl: timedelta | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Give dead rows a new budget of tries.

    Those with these IDs, or those that the filters find.
    """
    wanted: dict[str, Any] = {"channel": channel, "verdict": verdict, "reason": reason, "since": since}
    filtering = any(value is not None for value in wanted.values())
    if ids and (filtering or all_):
        raise click.UsageError("give IDs or filters, not both")
    if filtering and all_:
        raise click.UsageError("--all is every dead row; leave the filters or --all away")
    if not ids and not filtering and not all_:
        raise click.UsageError("say which rows: IDs, a filter (--channel, --verdict, --reason, --since), or --all")
    if ids:
        wanted = {"ids": list(dict.fromkeys(ids))}
    app = cli.app()
    if dry_run:
        found = app.requeue(**wanted, ttl=ttl, dry_run=True)
        cli.show({"dry_run": True, "requeued": found}, lambda: _say(f"{count(found, 'row')} would be requeued"))
        return
    if not ids and not yes and sys.stdin.isatty() and sys.stderr.isatty():
        found = app.requeue(**wanted, ttl=ttl, dry_run=True)
        if not found:
            cli.show({"dry_run": False, "requeued": 0}, lambda: _say("0 rows requeued: none matches"))
            return
        if not click.confirm(f"Requeue {count(found, 'row')}?", err=True):
            raise fail("nothing was requeued")
    done = app.requeue(**wanted, ttl=ttl)
    cli.show({"dry_run": False, "requeued": done}, lambda: _say(f"{count(done, 'row')} requeued"))


def _say(text: str) -> None:
    from sendoff.cli.tables import lines

    lines(text)


@click.group()
@common_options
def dead() -> None:
    """Dead letters: list them, requeue them."""


@dead.command("list")
@filters
@common
def dead_list(cli: Cli, **wanted: Any) -> None:
    """List dead rows, newest first: `sendoff list --status dead`."""
    list_rows(cli, status="dead", **wanted)


dead.add_command(requeue, "requeue")
