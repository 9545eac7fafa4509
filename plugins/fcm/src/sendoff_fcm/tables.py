"""The one table of the push channel: which devices a recipient is reached on. Times are the database's."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, MetaData, Table, Text, text

from sendoff.plugin import UtcTime

__all__ = ["TABLE", "device", "metadata"]

TABLE = "sendoff_device"

metadata = MetaData()

#: ``token`` is what FCM knows the device by: a registration token or a Firebase installation id, as ``kind`` says
#: (``token`` or ``fid``). Rows are deactivated, with reason and time, and never deleted but for :func:`sendoff_erase`:
#: "why did my phone get nothing?" has an answer. ``deactivated_reason`` is the provider's code in capitals where FCM
#: said so, in small letters where somebody here did: ``unregistered``, ``replaced``, ``stale``.
device = Table(
    TABLE,
    metadata,
    Column("token", Text, primary_key=True),
    Column("recipient", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("platform", Text),
    Column("app", Text),
    Column("installation", Text),
    Column("active", Boolean, nullable=False),
    Column("deactivated_at", UtcTime),
    Column("deactivated_reason", Text),
    Column("created_at", UtcTime, nullable=False),
    Column("last_seen_at", UtcTime, nullable=False),
)

Index(
    "sendoff_device_active",
    device.c.recipient,
    postgresql_where=text("active"),
    sqlite_where=text("active"),
)
#: What a new token of the same installation looks for.
Index(
    "sendoff_device_installation",
    device.c.installation,
    postgresql_where=text("active AND installation IS NOT NULL"),
    sqlite_where=text("active AND installation IS NOT NULL"),
)
#: What pruning looks for.
Index("sendoff_device_seen", device.c.last_seen_at, postgresql_where=text("active"), sqlite_where=text("active"))
