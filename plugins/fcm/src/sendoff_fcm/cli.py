"""``sendoff fcm``: looking after devices, and finding out why nothing arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Protocol

import attrs
import click
from sqlalchemy import Connection, Engine, inspect

from sendoff_fcm import devices
from sendoff_fcm.channel import FcmChannel
from sendoff_fcm.devices import Device
from sendoff_fcm.probe import Finding, probe
from sendoff_fcm.tables import TABLE

__all__ = ["fcm"]


class Cli(Protocol):
    """What the command line hands a command (``click``'s object)."""

    def app(self) -> Any:
        """The ``Sendoff`` object that the common options describe."""
        ...

    def show(self, value: object, people: Callable[[], None]) -> None:
        """``value`` as JSON where that was asked for, else what ``people`` prints."""
        ...


@contextmanager
def _begin(cli: Cli) -> Iterator[Connection]:
    engine: Engine = cli.app().engine
    with engine.begin() as connection:
        if not inspect(connection).has_table(TABLE):
            raise click.ClickException(f"there is no table {TABLE}; `sendoff migrate` makes it")
        yield connection


def _table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max([len(title), *(len(row[at]) for row in cells)]) for at, title in enumerate(titles)]
    for row in [list(titles), *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    # What people registered may hold anything that a terminal obeys.
    return "".join(char if char.isprintable() else "?" for char in str(value))


@click.group()
def fcm() -> None:
    """Push: devices, and a check of credential, network and project."""


@fcm.command()
@click.option("-c", "--channel", metavar="NAME", help="Only this channel; without it, every one of this plugin.")
@click.option("--token", metavar="TOKEN", help="A registration token to check the message for.")
@click.pass_obj
def check(cli: Cli, channel: str | None, token: str | None) -> None:
    """Ask FCM to check one message, which is delivered to nobody.

    Exit code 1 when messages could not be sent now; says whether it is the credential, the network, the project, or
    FCM itself.
    """
    found = [spec.channel for spec in cli.app().registry.channels.values() if isinstance(spec.channel, FcmChannel)]
    chosen = [one for one in found if channel is None or one.name == channel]
    if not chosen:
        known = ", ".join(one.name for one in found) or "none"
        raise click.UsageError(f"{channel!r} is no push channel; known: {known}")
    findings = [asyncio.run(probe(one, token)) for one in chosen]

    def people() -> None:
        for finding in findings:
            click.echo(
                f"{finding.channel}: {finding.problem + ' problem' if finding.problem else 'ok'}: {_line(finding)}"
            )

    cli.show(findings, people)
    bad = sum(finding.problem is not None for finding in findings)
    if bad:
        raise click.ClickException(f"{bad} of {len(findings)} push channels cannot send now")


def _line(finding: Finding) -> str:
    return _cell(finding.message)


@fcm.group("devices")
def devices_group() -> None:
    """The devices that recipients are reached on."""


@devices_group.command("list")
@click.argument("recipient", required=False)
@click.option("--active/--inactive", default=None, help="Only those that are sent to, or that are not.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="How many.")
@click.pass_obj
def list_(cli: Cli, recipient: str | None, active: bool | None, limit: int) -> None:
    """List a recipient's devices, or everybody's, oldest first."""
    with _begin(cli) as connection:
        found = devices.list(recipient, connection, active=active, limit=limit)

    def people() -> None:
        if not found:
            click.echo("no devices")
            return
        _table(
            ("recipient", "token", "kind", "platform", "app", "state", "last seen"),
            [
                (one.recipient, one.token, one.kind, one.platform, one.app, _state(one), one.last_seen_at)
                for one in found
            ],
        )

    cli.show([attrs.asdict(one) for one in found], people)


def _state(device: Device) -> str:
    return "active" if device.active else f"{device.deactivated_reason} {_cell(device.deactivated_at)}"


@devices_group.command("register")
@click.argument("recipient")
@click.argument("token")
@click.option("--platform", help="android, ios or web.")
@click.option("--app", help="The app that the token is of.")
@click.option("--installation", help="The client's lasting id of this installation; its older tokens are retired.")
@click.option("--fid", is_flag=True, help="TOKEN is a Firebase installation id.")
@click.pass_obj
def register(
    cli: Cli, recipient: str, token: str, platform: str | None, app: str | None, installation: str | None, fid: bool
) -> None:
    """Register a device as the application would."""
    with _begin(cli) as connection:
        device = devices.register(
            recipient,
            token,
            connection,
            platform=platform,
            app=app,
            installation=installation,
            kind="fid" if fid else "token",
        )
    cli.show(attrs.asdict(device), lambda: click.echo(f"registered for {_cell(device.recipient)}"))


@devices_group.command("unregister")
@click.argument("token")
@click.option("--recipient", metavar="ID", help="Only when the token is still theirs.")
@click.pass_obj
def unregister(cli: Cli, token: str, recipient: str | None) -> None:
    """Send nothing to a device any more. Exit code 1 when there is no such device."""
    with _begin(cli) as connection:
        done = devices.unregister(token, connection, recipient=recipient)
    cli.show({"unregistered": done}, lambda: click.echo("unregistered" if done else "nothing changed"))
    if not done:
        raise click.ClickException("no such device")


@devices_group.command("prune")
@click.option(
    "--days",
    type=click.IntRange(1, 10_000),
    default=devices.STALE.days,
    show_default=True,
    help="Devices that have not registered for so long.",
)
@click.pass_obj
def prune(cli: Cli, days: int) -> None:
    """Deactivate devices that have been silent for so long that FCM has dropped them."""
    with _begin(cli) as connection:
        count = devices.prune_stale(connection, timedelta(days=days))
    cli.show({"deactivated": count}, lambda: click.echo(f"{count} devices deactivated"))
