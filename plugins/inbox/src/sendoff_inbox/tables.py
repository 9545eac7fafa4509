"""The inbox's one table. Times are the database's; on SQLite that is this process's clock."""

from __future__ import annotations

from sqlalchemy import Column, Index, MetaData, Table, Text, text

from sendoff.plugin import Json, UtcTime, Uuid

__all__ = ["TABLE", "UNREAD", "inbox", "metadata"]

TABLE = "sendoff_inbox"
#: What an unread count counts. Written once, because a query uses the partial index only when it says the same.
UNREAD = "read_at IS NULL AND archived_at IS NULL AND deleted_at IS NULL"

metadata = MetaData()

#: ``id`` is a uuid of version 7 from the database's clock: a recipient's feed in order is the index in order. It is not
#: ``outgoing_id``, whose time is the enqueue's: a notification scheduled last week arrives on top.
#: ``deleted_at`` is a tombstone: the entry stays as long as its outgoing row may be delivered again.
inbox = Table(
    TABLE,
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("outgoing_id", Uuid, nullable=False),
    Column("notification_id", Uuid, nullable=False),
    Column("recipient", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("title", Text),
    Column("body", Text),
    Column("data", Json),
    Column("link", Text),
    Column("options", Json),
    Column("created_at", UtcTime, nullable=False),
    Column("seen_at", UtcTime),
    Column("read_at", UtcTime),
    Column("archived_at", UtcTime),
    Column("deleted_at", UtcTime),
)

#: What makes a second delivery of a row find the first one's entry.
Index("sendoff_inbox_outgoing", inbox.c.outgoing_id, unique=True)
Index("sendoff_inbox_recipient", inbox.c.recipient, inbox.c.id)
Index(
    "sendoff_inbox_unread",
    inbox.c.recipient,
    inbox.c.id,
    postgresql_where=text(UNREAD),
    sqlite_where=text(UNREAD),
)
