"""``sendoff migrate``."""

from __future__ import annotations

from itertools import count

import click

from sendoff.cli.options import Cli, common

__all__ = ["migrate"]


@click.command()
@click.option("--sql", is_flag=True, help="Print the SQL instead of running it.")
@common
def migrate(cli: Cli, sql: bool) -> None:
    """Create or update the tables of the core and of every plugin.

    Any number of processes may do this at once: one works, the others wait and find nothing left to do.
    """
    from sendoff.cli.output import progress

    if sql:
        script = cli.app().migration_sql()
        cli.show({"sql": script}, lambda: click.echo(script, nl=not script.endswith("\n")))
        return
    with progress(cli, "migrating") as shown:
        steps = count(1)
        done = cli.app().migrate(on_step=lambda step: shown.set(next(steps), f"{step.name} {step.to_revision}"))

    def people() -> None:
        from sendoff.cli.tables import lines

        if not done:
            lines("the database is up to date")
        for one in done:
            lines(f"{one.name}: {one.from_revision or 'nothing'} -> {one.to_revision}")

    cli.show(done, people)
