"""The tables sendoff_inbox and sendoff_inbox_listener."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sendoff.plugin import Json, UtcTime, Uuid

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

#: The parts of the table that have an index each.
PARTS = {
    "feed": "archived_at IS NULL AND deleted_at IS NULL",
    "archive": "archived_at IS NOT NULL AND deleted_at IS NULL",
    "deleted": "deleted_at IS NOT NULL",
    "unread": "read_at IS NULL AND archived_at IS NULL AND deleted_at IS NULL",
}


def upgrade() -> None:
    op.create_table(
        "sendoff_inbox",
        sa.Column("id", Uuid, primary_key=True),
        sa.Column("outgoing_id", Uuid, nullable=False),
        sa.Column("notification_id", Uuid, nullable=False),
        sa.Column("recipient", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("body", sa.Text),
        sa.Column("data", Json),
        sa.Column("link", sa.Text),
        sa.Column("options", Json),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("seen_at", UtcTime),
        sa.Column("read_at", UtcTime),
        sa.Column("archived_at", UtcTime),
        sa.Column("deleted_at", UtcTime),
    )
    op.create_index("sendoff_inbox_outgoing", "sendoff_inbox", ["outgoing_id"], unique=True)
    for name, part in PARTS.items():
        op.create_index(
            f"sendoff_inbox_{name}",
            "sendoff_inbox",
            ["recipient", "id"],
            postgresql_where=sa.text(part),
            sqlite_where=sa.text(part),
        )
    op.create_table(
        "sendoff_inbox_listener",
        sa.Column("recipient", sa.Text, primary_key=True),
        sa.Column("until", UtcTime, nullable=False),
    )
