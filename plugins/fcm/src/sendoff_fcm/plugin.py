"""The entry point: push channels, their table, their commands, and what they know about a recipient.

::

    [channels.fcm]                                    # found without any section as well
    credentials = {file = "service-account.json"}     # or {env = "NAME"}; default: application default credentials

A second instance, for another project, is another section with ``plugin = "fcm"``; give each its ``app``, so that it
sends only to its own devices. Loading this module loads neither Firebase nor an HTTP client.
"""

from __future__ import annotations

import click
from sqlalchemy import Connection

from sendoff.plugin import Channel, Context, Migrations, hookimpl
from sendoff_fcm import devices
from sendoff_fcm.channel import FcmChannel
from sendoff_fcm.config import FcmConfig
from sendoff_fcm.tables import metadata

__all__ = [
    "FcmChannel",
    "FcmConfig",
    "sendoff_channels",
    "sendoff_cli",
    "sendoff_erase",
    "sendoff_migrations",
]

PLUGIN = "fcm"


@hookimpl
def sendoff_channels(context: Context) -> list[Channel]:
    """One channel for each section with ``plugin = "fcm"``; without any, one called ``fcm``."""
    return [
        FcmChannel(name, context.config(f"channels.{name}", FcmConfig), context) for name in context.instances(PLUGIN)
    ]


@hookimpl
def sendoff_migrations() -> Migrations:
    """The table ``sendoff_device``."""
    return Migrations(name=PLUGIN, package="sendoff_fcm.migrations", metadata=metadata)


@hookimpl
def sendoff_erase(recipient: str, connection: Connection) -> int:
    """Deletes the recipient's devices, in the caller's transaction."""
    return devices.erase(recipient, connection)


@hookimpl
def sendoff_cli(group: click.Group) -> None:
    """Adds ``sendoff fcm``."""
    from sendoff_fcm.cli import fcm

    group.add_command(fcm)
