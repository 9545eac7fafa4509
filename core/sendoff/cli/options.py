"""The options that every command takes, before or after its name, and what a command makes of them.

A command is written as::

    @click.command()
    @common
    def hello(cli: Cli) -> None:
        cli.show(cli.app().status(), lambda: print("for people"))
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from attrs import define, field

from sendoff.errors import PluginBroken

if TYPE_CHECKING:
    from sendoff.app import Sendoff
    from sendoff.settings import Settings

__all__ = ["Cli", "common", "common_options", "make_current_folder_importable"]

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


@define
class Cli:
    """What was said with the common options, and the application object they describe."""

    database_url: str | None = None
    config: Path | None = None
    plugins: list[str] = field(factory=list)
    as_json: bool = False
    debug: bool = False
    _app: Sendoff | None = None
    _made_with: tuple[object, ...] = ()

    def app(self, *, broken_plugins: bool = False, worker: Mapping[str, Any] | None = None) -> Sendoff:
        """The application object, made on first use and closed when the command ends. Opens no connection.

        ``worker`` are settings of ``[worker]`` that the command line gives. A plugin that was asked for with ``-p``
        and is broken is an error here, unless ``broken_plugins`` are wanted.
        """
        said = (self.database_url, self.config, tuple(self.plugins))
        if self._app is not None and self._made_with != said:
            # It was made to look for a plugin's command, whose own options have said more since.
            self.close()
            self._app = None
        if self._app is None:
            from sendoff.app import Sendoff

            make_current_folder_importable()
            self._made_with = said
            self._app = Sendoff(settings=self.settings(worker), plugins=self.plugins)
        if self.plugins and not broken_plugins:
            for plugin in self._app.registry.broken:
                if plugin.name in self.plugins:
                    raise PluginBroken(f"plugin {plugin.name} cannot be used: {plugin.error}", plugin=plugin.name)
        return self._app

    def now(self) -> datetime:
        """The database's clock: rows are told relative to the clock that wrote them."""
        from sendoff.store import reports

        return self.app().store.read(reports.database_now)

    def settings(self, worker: Mapping[str, Any] | None = None) -> Settings:
        """The settings alone: no plugin is imported for them."""
        from sendoff.settings import Settings

        said: dict[str, Any] = {"worker": worker} if worker else {}
        if self.database_url is not None:
            said["sendoff"] = {"database_url": self.database_url}
        return Settings.load(said, config=self.config)

    def broken_plugins(self) -> list[str]:
        """The names of broken plugins, as far as plugins have been loaded at all."""
        if self._app is None:
            return []
        return [plugin.name for plugin in self._app.registry.broken]

    def close(self) -> None:
        """Give back what :meth:`app` opened."""
        if self._app is not None:
            self._app.close()

    def show(self, value: object, people: Callable[[], None]) -> None:
        """``value`` as JSON where that was asked for, else whatever ``people`` prints."""
        if self.as_json:
            from sendoff.cli.output import print_json

            print_json(value)
        else:
            people()


def make_current_folder_importable() -> None:
    """``-p orders`` finds ``./orders.py``, from the installed command as from ``python -m sendoff``."""
    # A folder that was deleted under us has no name, and nothing to import either.
    with contextlib.suppress(FileNotFoundError):
        here = str(Path.cwd())
        if here not in sys.path and "" not in sys.path:
            sys.path.insert(0, here)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Called for each level of ``sendoff [options] dead [options] list [options]``; the innermost word counts."""
    if value is None or value is False or value == ():
        return
    said = ctx.ensure_object(Cli)
    if param.name == "plugins":
        said.plugins.extend(name for name in value if name not in said.plugins)
    elif param.name is not None:
        setattr(said, param.name, value)


def common_options(command: F) -> F:
    """Add the common options without handing anything to the function; a command wants :func:`common`."""
    # Eager, so that --json and --debug are known when a later option turns out to be wrong.
    option = functools.partial(click.option, expose_value=False, is_eager=True, callback=_remember)
    for decorate in reversed(
        (
            option("--database-url", metavar="URL", help="The database; over SENDOFF_DATABASE_URL and the file."),
            option(
                "--config",
                metavar="FILE",
                type=click.Path(dir_okay=False, path_type=Path),
                help="The settings file; over SENDOFF_CONFIG and ./sendoff.toml.",
            ),
            option(
                "-p",
                "--plugin",
                "plugins",
                metavar="MODULE",
                multiple=True,
                help="Load a plugin by module name, also from the current folder. Repeatable.",
            ),
            option("--json", "as_json", is_flag=True, help="Print JSON for programs."),
            option("--debug", is_flag=True, help="Show the traceback of an error."),
        )
    ):
        command = decorate(command)
    return command


def _quiet(cli: Cli) -> None:
    """A command says what it has to say by itself; the log of the core is for workers, and for whoever debugs."""
    if cli.debug:
        from sendoff.cli.logs import set_up_logging

        set_up_logging("debug", "line")
    else:
        logging.getLogger("sendoff").addHandler(logging.NullHandler())


def common(function: Callable[..., R]) -> Callable[..., R]:
    """Add the common options and hand the function a :class:`Cli` first."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        cli = click.get_current_context().ensure_object(Cli)
        _quiet(cli)
        if not cli.as_json or function.__module__.partition(".")[0] != __name__.partition(".")[0]:
            return function(cli, *args, **kwargs)
        from sendoff.cli.output import only_json

        with only_json():
            return function(cli, *args, **kwargs)

    return common_options(call)
