"""The hooks that a plugin may implement. Hooks discover; sending is a plain method call on what they return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy
from attrs import frozen
from sqlalchemy import Connection

if TYPE_CHECKING:
    import click
    from sqlalchemy import MetaData

    from sendoff.plugin.channel import Channel
    from sendoff.plugin.context import Context
    from sendoff.plugin.fetcher import Fetcher
    from sendoff.settlement import Settlement

__all__ = ["Migrations", "hookimpl", "hookspec"]

PROJECT = "sendoff"
hookspec = pluggy.HookspecMarker(PROJECT)
#: Marks a function or method as the implementation of a hook.
hookimpl = pluggy.HookimplMarker(PROJECT)


@frozen
class Migrations:
    """A plugin's alembic migrations.

    ``name`` names the version table (``sendoff_<name>_version``), ``package`` the importable package that holds the
    revision files (``sendoff_inbox.migrations``), ``metadata`` the plugin's tables.
    """

    name: str
    package: str
    metadata: MetaData | None = None


@hookspec
def sendoff_channels(context: Context) -> list[Channel]:  # type: ignore[empty-body]  # a hook spec has no body
    """The channels this plugin provides with these settings."""


@hookspec
def sendoff_fetchers(context: Context) -> list[Fetcher]:  # type: ignore[empty-body]  # a hook spec has no body
    """The fetchers this plugin provides."""


@hookspec
def sendoff_categories() -> list[Any]:  # type: ignore[empty-body]  # a hook spec has no body
    """The notification categories this plugin declares."""


@hookspec
def sendoff_segments(context: Context) -> list[Any]:  # type: ignore[empty-body]  # a hook spec has no body
    """The segments of recipients this plugin can broadcast to."""


@hookspec
def sendoff_addresses(  # type: ignore[empty-body]  # a hook spec has no body
    channel: str, recipients: Sequence[str], connection: Connection
) -> Mapping[str, Sequence[str]]:
    """Where these recipients are reached on ``channel``; recipients that this plugin does not know are left out."""


@hookspec
def sendoff_gate(subjects: Sequence[Any], connection: Connection) -> Sequence[Any]:  # type: ignore[empty-body]  # as above
    """Suppress, defer or pass (None) each subject, in order."""


@hookspec
def sendoff_settled(settlements: Sequence[Settlement]) -> None:
    """Told after each commit what became of rows. May not raise for anything that matters: it is only observed."""


@hookspec
def sendoff_erase(recipient: str, connection: Connection) -> int:  # type: ignore[empty-body]  # as above
    """Remove or anonymise all that this plugin stores about a recipient; the number of rows."""


@hookspec
def sendoff_migrations() -> Migrations:  # type: ignore[empty-body]  # a hook spec has no body
    """This plugin's own migrations, run after the core's."""


@hookspec
def sendoff_cli(group: click.Group) -> None:
    """Add commands to ``sendoff``."""
