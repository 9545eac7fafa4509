"""``sendoff config``."""

from __future__ import annotations

import click

from sendoff.cli.options import Cli, common

__all__ = ["config"]


@click.command()
@common
def config(cli: Cli) -> None:
    """Show every setting and where its value comes from, secrets masked."""
    found = [{"key": key, "value": value, "source": source} for key, value, source in cli.settings().describe()]

    def people() -> None:
        from sendoff.cli.tables import Column, table

        table(
            [Column("setting", fixed=True), Column("value", fluid=True), Column("source", fluid=True)],
            [(setting["key"], setting["value"], setting["source"]) for setting in found],
        )

    cli.show(found, people)
