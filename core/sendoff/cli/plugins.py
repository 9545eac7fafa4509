"""``sendoff plugins``."""

from __future__ import annotations

import click

from sendoff.cli.extra import plugin_commands
from sendoff.cli.options import Cli, common

__all__ = ["plugins"]


@click.command()
@common
def plugins(cli: Cli) -> None:
    """List plugins, their channels and fetchers, and what is broken.

    Exit code 0 also with a broken plugin; `sendoff doctor` is the command that fails for one.
    """
    found = list(cli.app(broken_plugins=True).registry.plugins)

    def people() -> None:
        from sendoff.cli.tables import Column, lines, table

        if not found:
            lines("no plugins; install one (pip install sendoff-inbox) or name a module with -p")
            return
        table(
            [
                Column("plugin", fixed=True),
                "version",
                Column("channels", fluid=True),
                Column("fetchers", fluid=True),
                Column("source", fluid=True),
                Column("error", fluid=True),
            ],
            [
                (
                    plugin.name,
                    plugin.version,
                    ", ".join(plugin.channels),
                    ", ".join(plugin.fetchers),
                    plugin.source,
                    plugin.error,
                )
                for plugin in found
            ],
        )
        added = plugin_commands(cli)
        if added:
            lines("", f"commands of plugins: {', '.join(sorted(added))}")

    cli.show(found, people)
