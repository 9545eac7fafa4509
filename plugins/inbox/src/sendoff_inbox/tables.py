"""The inbox's tables. Times are the database's; on SQLite that is this process's clock."""

from __future__ import annotations

from sqlalchemy import Column, Index, MetaData, Table, Text, text

from sendoff.plugin import Json, UtcTime, Uuid

__all__ = ["ARCHIVE", "DELETED", "FEED", "TABLE", "UNREAD", "inbox", "listener", "metadata"]

TABLE = "sendoff_inbox"
#: The parts of the table that have an index each. Written once, because a query uses a partial index only when it says
#: the same: the feed, the part of it that an unread count counts, the archive, and tombstones.
FEED = "archived_at IS NULL AND deleted_at IS NULL"
UNREAD = f"read_at IS NULL AND {FEED}"
ARCHIVE = "archived_at IS NOT NULL AND deleted_at IS NULL"
DELETED = "deleted_at IS NOT NULL"

metadata = MetaData()

#: ``id`` is a uuid of version 7 from the database's clock: a recipient's feed in order is the index in order. It is not
#: ``outgoing_id``, whose time is the enqueue's: a notification scheduled last week arrives on top.
#: ``deleted_at`` is a tombstone: the entry stays, without its content, as long as its outgoing row may be delivered
#: again. What is read has been seen: ``seen_at`` is null only where ``read_at`` is or was.
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
#: An entry is in the first and the last of these when it arrives, and moves as it is read, archived and deleted: what a
#: recipient has deleted costs their feed nothing.
for _name, _part in (("feed", FEED), ("archive", ARCHIVE), ("deleted", DELETED), ("unread", UNREAD)):
    Index(
        f"sendoff_inbox_{_name}",
        inbox.c.recipient,
        inbox.c.id,
        postgresql_where=text(_part),
        sqlite_where=text(_part),
    )

#: Whose new entries somebody listens to, and until when (PostgreSQL): only for them a batch notifies.
listener = Table(
    "sendoff_inbox_listener",
    metadata,
    Column("recipient", Text, primary_key=True),
    Column("until", UtcTime, nullable=False),
)
