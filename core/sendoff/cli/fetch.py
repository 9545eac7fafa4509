"""``sendoff fetch``."""

from __future__ import annotations

import click

from sendoff.cli.failure import fail
from sendoff.cli.options import Cli, common
from sendoff.cli.text import count

__all__ = ["fetch"]


@click.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Fetch, show the sums, write nothing.")
@common
def fetch(cli: Cli, name: str, dry_run: bool) -> None:
    """Run one fetcher now.

    Exit code 1 when it failed; a notification that was rejected does not stop it and is told on stderr.
    """
    from sendoff.cli.output import progress
    from sendoff.cli.tables import Column, lines, table

    with progress(cli, f"fetching {name}"):
        report = cli.app().fetch(name, dry_run=dry_run)

    def people() -> None:
        if not report.ran:
            lines(f"{report.name} did not run: another process runs it now, or it is not due")
            return
        counts = ("pages", "enqueued", "duplicates", "rejected")
        table(
            [Column("fetcher", fixed=True), *(Column(name, numeric=True) for name in counts)],
            [(report.name, *(getattr(report, name) for name in counts))],
        )
        if dry_run:
            lines("a dry run: nothing was written")
        if report.problems:
            lines("", *(f"rejected: {problem}" for problem in report.problems))
        if report.rejected > len(report.problems):
            lines(f"and {count(report.rejected - len(report.problems), 'more', 'more')}")

    cli.show(report, people)
    if report.error:
        raise fail(f"fetcher {report.name} failed: {report.error}")
