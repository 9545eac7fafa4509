"""The entry point: the push channel, its table, and what it knows about a recipient."""

from __future__ import annotations

from sendoff.plugin import Migrations, hookimpl
from sendoff_fcm.tables import metadata

__all__ = ["sendoff_migrations"]

PLUGIN = "fcm"


@hookimpl
def sendoff_migrations() -> Migrations:
    """The table ``sendoff_device``."""
    return Migrations(name=PLUGIN, package="sendoff_fcm.migrations", metadata=metadata)
