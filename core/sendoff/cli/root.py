"""The root command: finds the others without importing them, and turns every ending into an exit code."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from sendoff.cli.failure import INTERRUPTED, Ended, exit_code
from sendoff.cli.options import Cli, common_options

__all__ = ["COMMANDS", "cli", "main"]

#: Where each command lives and its line in ``sendoff --help``, so that help imports none of them.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "migrate": ("sendoff.cli.migrate", "migrate", "Create or update the tables of the core and of every plugin."),
    "worker": ("sendoff.cli.worker", "worker", "Deliver until told to stop."),
    "drain": ("sendoff.cli.worker", "drain", "Deliver what is due now, once, and exit."),
    "fetch": ("sendoff.cli.fetch", "fetch", "Run one fetcher now."),
    "enqueue": ("sendoff.cli.enqueue", "enqueue", "Put a notification into the queue, or many from JSON lines."),
    "send": ("sendoff.cli.enqueue", "send", "Enqueue a notification and make the first try at once, in this process."),
    "status": ("sendoff.cli.status", "status", "Show every channel's queue, the workers and what needs a person."),
    "list": ("sendoff.cli.rows", "list_", "List rows, newest first."),
    "show": ("sendoff.cli.rows", "show", "Show one row, its timeline and what happens next."),
    "requeue": ("sendoff.cli.requeue", "requeue", "Give dead rows a new budget of tries."),
    "dead": ("sendoff.cli.requeue", "dead", "Dead letters: list them, requeue them."),
    "cancel": ("sendoff.cli.rows", "cancel", "Cancel every row of a notification that is not sent yet."),
    "plugins": ("sendoff.cli.plugins", "plugins", "List plugins, their channels and fetchers, and what is broken."),
    "config": ("sendoff.cli.config", "config", "Show every setting and where its value comes from, secrets masked."),
    "doctor": ("sendoff.cli.doctor", "doctor", "Check database, plugins and settings, and say what to do."),
    "demo": ("sendoff.cli.demo", "demo", "Deliver the example's orders, kill a worker, account for every one."),
}


class Root(click.Group):
    """``sendoff``. Its own commands come from :data:`COMMANDS`; an unknown word is looked for in plugins."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, (module, _, _) in COMMANDS.items() if _exists(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from sendoff.cli.extra import plugin_commands

            return plugin_commands(ctx.ensure_object(Cli)).get(cmd_name)
        module, attribute, _ = COMMANDS[cmd_name]
        if not _exists(module):
            return None
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """As click's, except that it is ours to say how an error is shown and what the exit code is."""
        state = extra.setdefault("obj", Cli())

        def run() -> Any:
            try:
                return super(Root, self).main(
                    args,
                    prog_name,
                    complete_var,
                    standalone_mode=False,
                    windows_expand_args=windows_expand_args,
                    **extra,
                )
            finally:
                state.close()

        if not standalone_mode:
            return run()
        sys.exit(exit_code(run, state))

    def invoke(self, ctx: click.Context) -> Any:
        """A command of ours may return its exit code; whatever a plugin's returns is its own affair.

        A broken pipe is kept from click, which would make an exit code of 1 of it.
        """
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            raise Ended from None
        return answer if ctx.invoked_subcommand in COMMANDS and isinstance(answer, int) else None


def _exists(module: str) -> bool:
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.util.find_spec(module) is not None
    return False


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"sendoff {version('sendoff')}")
    ctx.exit()


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Plugins may add commands; `sendoff plugins` lists them. "
    "Exit codes: 0 done, 1 a stated failure, 2 wrong usage.",
)
@common_options
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def cli() -> None:
    """sendoff delivers notifications from the database an application already has."""


def _open_missing_streams() -> None:
    """Started without one of the three streams (``sendoff list >&-``), a process would give its number to the next file
    that it opens; /dev/null takes its place."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for the whole process


def main(args: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, not a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        cli.main(args=list(args) if args is not None else None, prog_name="sendoff")
    except KeyboardInterrupt:
        # Between the end of the command and the end of the process: nothing is left to be said.
        sys.exit(INTERRUPTED)
