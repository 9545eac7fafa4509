"""Commands that plugins add through ``sendoff_cli(group)``."""

from __future__ import annotations

import sys

import click

from sendoff.cli.failure import one_line
from sendoff.cli.options import Cli, common_options
from sendoff.errors import SendoffError

__all__ = ["plugin_commands"]


def plugin_commands(cli: Cli) -> dict[str, click.Command]:
    """By name. A plugin whose hook raises adds nothing and is named on stderr; the others' commands are there."""
    commands: dict[str, click.Command] = {}
    try:
        manager = cli.app(broken_plugins=True).registry._manager  # noqa: SLF001 - each hook needs a wall of its own
    except SendoffError as error:
        # Most likely the word is a typing error, which is told next; this says why plugins were not asked.
        print(f"sendoff: plugins were not asked for commands: {one_line(str(error), cli)}", file=sys.stderr)
        return commands
    for hook in manager.hook.sendoff_cli.get_hookimpls():
        group = click.Group("sendoff")
        try:
            hook.function(*([group] if hook.argnames else []))
        except Exception as error:  # noqa: BLE001 - a broken plugin must not take the command line with it
            why = one_line(f"{type(error).__name__}: {error}", cli)
            print(f"sendoff: plugin {hook.plugin_name} could not add its commands: {why}", file=sys.stderr)
            continue
        for name, command in group.commands.items():
            _take_common_options(command)
            commands.setdefault(name, command)
    return commands


def _take_common_options(command: click.Command) -> None:
    """A plugin's command, and those below it, take the options that every command takes, but for names of its own."""
    common = common_options(click.Command(None)).params
    own = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    command.params.extend(param for param in common if not own.intersection(param.opts))
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _take_common_options(below)
