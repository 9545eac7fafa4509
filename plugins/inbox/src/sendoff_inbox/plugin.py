"""The entry point: the inbox channel, its table, and what it knows about a recipient.

::

    [channels.inbox]        # found without any section as well; it has no settings of its own yet

A second instance is another section with ``plugin = "inbox"``; all of them write to the one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen
from sqlalchemy import Connection, delete, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sendoff.plugin import (
    BatchChannel,
    Channel,
    Context,
    Delivery,
    Limits,
    Migrations,
    Notification,
    Sent,
    Verdict,
    hookimpl,
)
from sendoff_inbox.content import prepared
from sendoff_inbox.store import insert
from sendoff_inbox.tables import ARCHIVE, DELETED, FEED, inbox, listener, metadata
from sendoff_inbox.trouble import concerns_all, verdict_on

__all__ = ["InboxChannel", "InboxConfig", "sendoff_channels", "sendoff_erase", "sendoff_migrations"]

PLUGIN = "inbox"


@frozen
class InboxConfig:
    """``[channels.NAME]`` of an inbox: nothing to set yet, so that a misspelt key is refused."""


class InboxChannel(BatchChannel):
    """Writes entries, one per outgoing row however often it is delivered, in one statement per batch."""

    #: Other channels wait until the entry is there: a push that is tapped finds it.
    leads = True
    #: Two threads, so that one writes while the other commits; more would only take connections from the worker.
    limits = Limits(concurrency=2, batch=500)

    def __init__(self, name: str, context: Context) -> None:
        self.name = name
        self._context = context

    def prepare(self, notification: Notification) -> dict[str, Any]:
        """Title, body, data and ``options.<name>``; see :func:`.content.prepared`."""
        return prepared(notification, self.name)

    def send_many(self, deliveries: Sequence[Delivery]) -> Sequence[Verdict]:
        """All in one transaction; where the database refuses one entry's values, one transaction each.

        A repeat finds its entry and is ``Sent`` again, also when the first answer was lost at commit.
        """
        verdict = self._insert(deliveries)
        if isinstance(verdict, Sent) or concerns_all(verdict) or len(deliveries) == 1:
            return [verdict] * len(deliveries)
        return self._one_by_one(deliveries)

    def _one_by_one(self, deliveries: Sequence[Delivery]) -> list[Verdict]:
        verdicts: list[Verdict] = []
        for delivery in deliveries:
            verdict = self._insert([delivery])
            verdicts.append(verdict)
            if concerns_all(verdict):
                # The database went away meanwhile; asking once more for each of the rest would only take time.
                return verdicts + [verdict] * (len(deliveries) - len(verdicts))
        return verdicts

    def _insert(self, deliveries: Sequence[Delivery]) -> Verdict:
        try:
            try:
                self._write(deliveries)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                # The pool's connections are from before the database restarted; it has dropped them by now. Asking
                # again at once cannot double an entry, and saves everybody the wait of a retry.
                self._write(deliveries)
        except SQLAlchemyError as error:
            return verdict_on(error)
        return Sent()

    def _write(self, deliveries: Sequence[Delivery]) -> None:
        with self._context.transaction() as connection:
            insert(connection, deliveries)

    def check(self) -> str | None:
        """Whether the table is there and can be read."""
        try:
            with self._context.transaction() as connection:
                connection.execute(select(inbox.c.id).limit(1))
        except SQLAlchemyError as error:
            verdict = verdict_on(error)
            return None if isinstance(verdict, Sent) else verdict.reason
        return None


@hookimpl
def sendoff_channels(context: Context) -> list[Channel]:
    """One channel for each section with ``plugin = "inbox"``; without any, one called ``inbox``."""
    channels: list[Channel] = []
    for name in context.instances(PLUGIN):
        context.config(f"channels.{name}", InboxConfig)
        channels.append(InboxChannel(name, context))
    return channels


@hookimpl
def sendoff_migrations() -> Migrations:
    """The table ``sendoff_inbox``."""
    return Migrations(name=PLUGIN, package="sendoff_inbox.migrations", metadata=metadata)


@hookimpl
def sendoff_erase(recipient: str, connection: Connection) -> int:
    """Deletes the recipient's entries, tombstones included, in the caller's transaction."""
    connection.execute(delete(listener).where(listener.c.recipient == recipient))
    # One statement for each part of the table that has an index.
    return sum(
        connection.execute(delete(inbox).where(inbox.c.recipient == recipient, text(part))).rowcount
        for part in (FEED, ARCHIVE, DELETED)
    )
