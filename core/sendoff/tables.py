"""The core's tables, as SQLAlchemy Core. Times are UTC from the database's clock.

``sendoff_outgoing`` is the queue, the state machine and the audit trail. The claim looks at one column,
``next_attempt_at``, through one partial index, so that finished rows cost it nothing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Identity,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    Text,
    text,
)

from sendoff.types import Json, UtcTime, Uuid

__all__ = [
    "FINAL",
    "STATUSES",
    "broadcast",
    "category",
    "category_alias",
    "channel",
    "event",
    "fetcher",
    "include_name",
    "metadata",
    "outgoing",
    "preference",
    "worker",
]

#: Statuses that only a receipt or a person's requeue leaves.
FINAL = ("sent", "delivered", "dead", "cancelled", "expired")
STATUSES = ("pending", "waiting", *FINAL)

metadata = MetaData()

#: SQLite gives row ids only to INTEGER columns.
_EventId = BigInteger().with_variant(Integer(), "sqlite")


def _count(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text("0"))


def _time(name: str, *, nullable: bool = True) -> Column[Any]:
    return Column(name, UtcTime, nullable=nullable)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("false"))


outgoing = Table(
    "sendoff_outgoing",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("notification_id", Uuid, nullable=False),
    Column("broadcast_id", Uuid),
    Column("channel", Text, nullable=False),
    Column("recipient", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("payload", Json, nullable=False),
    Column("addresses", Json),
    Column("meta", Json),
    _flag("sensitive"),
    Column("priority", SmallInteger, nullable=False, server_default=text("1")),
    Column("status", Text, nullable=False, server_default=text("'pending'")),
    _count("attempt_count"),
    _count("try_count"),
    _count("claim_count"),
    _count("lost_leases"),
    _count("requeue_count"),
    _time("first_due_at"),
    _time("due_at"),
    _time("next_attempt_at"),
    _time("claimed_until"),
    Column("claimed_by", Text),
    _time("cancel_requested_at"),
    Column("verdict", Text),
    Column("reason", Text),
    Column("provider_ref", Text),
    Column("progress", Json),
    Column("dedup_key", Text),
    Column("collapse_key", Text),
    _time("expires_at"),
    Column("after_id", Uuid),
    Column("after_when", Text),
    Column("after_delay", Double),
    _time("created_at", nullable=False),
    _time("sent_at"),
    _time("delivered_at"),
    _time("opened_at"),
    _time("read_at"),
    _time("finished_at"),
    postgresql_with={"fillfactor": 70},
)

_PENDING = text("status = 'pending'")
_WAITING = text("status = 'waiting'")
_KEYED = text("dedup_key IS NOT NULL")
_CAN_EXPIRE = text("status IN ('pending', 'waiting') AND expires_at IS NOT NULL")
_SUPPRESSED = text("outgoing_id IS NULL")

Index(
    "sendoff_outgoing_due",
    outgoing.c.channel,
    outgoing.c.priority,
    outgoing.c.next_attempt_at,
    outgoing.c.id,
    postgresql_where=_PENDING,
    sqlite_where=_PENDING,
)
Index(
    "sendoff_outgoing_dedup",
    outgoing.c.recipient,
    outgoing.c.channel,
    outgoing.c.dedup_key,
    unique=True,
    postgresql_where=_KEYED,
    sqlite_where=_KEYED,
)
Index("sendoff_outgoing_after", outgoing.c.after_id, postgresql_where=_WAITING, sqlite_where=_WAITING)
Index("sendoff_outgoing_expiry", outgoing.c.expires_at, postgresql_where=_CAN_EXPIRE, sqlite_where=_CAN_EXPIRE)
Index("sendoff_outgoing_notification", outgoing.c.notification_id)
Index("sendoff_outgoing_recipient", outgoing.c.recipient, outgoing.c.id)

event = Table(
    "sendoff_event",
    metadata,
    Column("id", _EventId, Identity(always=True), primary_key=True),
    _time("at", nullable=False),
    Column("outgoing_id", Uuid),
    Column("notification_id", Uuid),
    Column("recipient", Text),
    Column("channel", Text),
    Column("type", Text),
    Column("kind", Text, nullable=False),
    Column("detail", Json),
)
Index("sendoff_event_outgoing", event.c.outgoing_id, event.c.id)
Index(
    "sendoff_event_suppressed",
    event.c.recipient,
    event.c.id,
    postgresql_where=_SUPPRESSED,
    sqlite_where=_SUPPRESSED,
)

channel = Table(
    "sendoff_channel",
    metadata,
    Column("name", Text, primary_key=True),
    Column("paused_by", Text),
    _time("paused_until"),
    Column("pause_reason", Text),
    _count("breaker_level"),
    _time("breaker_until"),
    Column("breaker_reason", Text),
    _time("probe_until"),
    Column("probe_token", Text),
    Column("probe_recipient", Text),
    _time("listening_until"),
)

worker = Table(
    "sendoff_worker",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("host", Text),
    Column("pid", Integer),
    Column("version", Text),
    Column("channels", Json),
    _time("started_at"),
    _time("seen_at"),
)

fetcher = Table(
    "sendoff_fetcher",
    metadata,
    Column("name", Text, primary_key=True),
    Column("cursor", Json),
    _count("page_no"),
    _time("next_run_at"),
    _time("claimed_until"),
    _count("claim_count"),
    _count("failures"),
    _time("last_started_at"),
    _time("last_finished_at"),
    Column("last_error", Text),
    Column("last_enqueued", Integer),
    Column("last_rejected", Integer),
)

category = Table(
    "sendoff_category",
    metadata,
    Column("name", Text, primary_key=True),
    Column("label", Text),
    Column("default_on", Boolean, nullable=False, server_default=text("true")),
    _flag("required"),
    Column("plugin", Text),
)

category_alias = Table(
    "sendoff_category_alias",
    metadata,
    Column("alias", Text, primary_key=True),
    Column("category", Text, nullable=False),
)

#: An empty channel or category means any; the most specific row wins.
preference = Table(
    "sendoff_preference",
    metadata,
    Column("recipient", Text, primary_key=True),
    Column("channel", Text, primary_key=True, server_default=text("''")),
    Column("category", Text, primary_key=True, server_default=text("''")),
    Column("enabled", Boolean, nullable=False),
    _time("updated_at"),
)

broadcast = Table(
    "sendoff_broadcast",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("segment", Text, nullable=False),
    Column("notification", Json, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'pending'")),
    Column("cursor", Json),
    _count("page_no"),
    _time("claimed_until"),
    _count("claim_count"),
    Column("total", Integer),
    _count("enqueued"),
    _count("skipped"),
    _count("errors"),
    Column("detail", Json),
    _time("created_at"),
    _time("due_at"),
    _time("finished_at"),
)


def include_name(name: str | None, type_: str, parent_names: Any = None) -> bool:
    """For alembic's autogenerate, ours and an application's own: leave ``sendoff_`` tables to sendoff."""
    return not (type_ == "table" and name is not None and name.startswith("sendoff_"))
