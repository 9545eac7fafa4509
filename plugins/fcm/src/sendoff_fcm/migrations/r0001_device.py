"""The table sendoff_device."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sendoff.plugin import UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ACTIVE = sa.text("active")
INSTALLED = sa.text("active AND installation IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "sendoff_device",
        sa.Column("token", sa.Text, primary_key=True),
        sa.Column("recipient", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("platform", sa.Text),
        sa.Column("app", sa.Text),
        sa.Column("installation", sa.Text),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("deactivated_at", UtcTime),
        sa.Column("deactivated_reason", sa.Text),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("last_seen_at", UtcTime, nullable=False),
    )
    for name, columns, where in (
        ("sendoff_device_active", ["recipient"], ACTIVE),
        ("sendoff_device_installation", ["installation"], INSTALLED),
        ("sendoff_device_seen", ["last_seen_at"], ACTIVE),
    ):
        op.create_index(name, "sendoff_device", columns, postgresql_where=where, sqlite_where=where)
