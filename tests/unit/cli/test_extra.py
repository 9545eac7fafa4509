"""Commands of plugins take the options that every command takes, in the same places."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from sendoff.cli.options import Cli
from sendoff.plugin import hookimpl
from tests.support.commands import run

MODULE = "plugin_with_commands"


@hookimpl
def sendoff_cli(group: click.Group) -> None:
    @group.group()
    def radio() -> None:
        """A group."""

    @radio.command()
    @click.option("--json", "mine", is_flag=True)
    @click.pass_obj
    def on(cli: Cli, mine: bool) -> None:
        """One with an option of its own."""
        click.echo(f"{cli.app().settings.core.pool_size} {cli.as_json} {mine}")

    @radio.command()
    @click.pass_obj
    def off(cli: Cli) -> None:
        """One without."""
        cli.show({"pool": cli.app().settings.core.pool_size}, lambda: click.echo("for people"))


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = ModuleType(MODULE)
    module.__dict__["sendoff_cli"] = sendoff_cli
    monkeypatch.setitem(sys.modules, MODULE, module)
    (tmp_path / "more.toml").write_text("[sendoff]\npool_size = 7\n")


def test_options_after_the_plugins_command_count(tmp_path: Path) -> None:
    config = str(tmp_path / "more.toml")
    after = run("-p", MODULE, "radio", "off", "--json", "--config", config)
    between = run("-p", MODULE, "radio", "--config", config, "off", "--json")
    before = run("-p", MODULE, "--config", config, "--json", "radio", "off")
    assert [{"pool": 7}] * 3 == [ran.json for ran in (after, between, before)]
    assert "for people\n" == run("-p", MODULE, "radio", "off").out


def test_an_option_of_the_plugins_own_stays_its_own() -> None:
    assert "5 False True\n" == run("-p", MODULE, "radio", "on", "--json").out


def test_the_help_names_them() -> None:
    assert "--database-url" in run("-p", MODULE, "radio", "off", "--help").out
