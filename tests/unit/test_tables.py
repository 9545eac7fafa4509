"""The core's tables as they are declared. That migrations make the same ones: tests/integration/test_migrate.py."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from sendoff import tables

TABLES = sorted(tables.metadata.tables.values(), key=lambda table: table.name)
INDEXES = sorted((index for table in TABLES for index in table.indexes), key=lambda index: str(index.name))


def ddl(element: sa.schema.ExecutableDDLElement, dialect: sa.Dialect) -> str:
    return " ".join(str(element.compile(dialect=dialect)).split())


POSTGRESQL: sa.Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves this one untyped
SQLITE: sa.Dialect = sqlite.dialect()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_name_says_whose_it_is(table: sa.Table) -> None:
    assert table.name.startswith("sendoff_")
    assert all(str(index.name).startswith(f"{table.name}_") for index in table.indexes)
    assert len(table.primary_key.columns) >= 1


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: str(index.name))
def test_partial_indexes_have_one_condition_on_both_databases(index: sa.Index) -> None:
    on_postgresql, on_sqlite = ddl(CreateIndex(index), POSTGRESQL), ddl(CreateIndex(index), SQLITE)
    assert on_postgresql == on_sqlite


def test_the_claim_sees_pending_rows_only() -> None:
    due = next(index for index in INDEXES if index.name == "sendoff_outgoing_due")
    assert ddl(CreateIndex(due), POSTGRESQL) == (
        "CREATE INDEX sendoff_outgoing_due ON sendoff_outgoing (channel, priority, next_attempt_at, id) "
        "WHERE status = 'pending'"
    )


def test_no_index_condition_depends_on_the_clock() -> None:
    """A condition with a volatile function is refused by PostgreSQL, and one with a fixed time grows stale."""
    for index in INDEXES:
        _, _, where = ddl(CreateIndex(index), POSTGRESQL).partition(" WHERE ")
        assert "(" not in where.replace("IN ('pending', 'waiting')", "")


def test_outgoing_leaves_room_on_its_pages() -> None:
    assert ddl(CreateTable(tables.outgoing), POSTGRESQL).endswith("WITH (fillfactor = 70)")


def test_a_row_that_names_only_the_needful_is_pending_and_normal() -> None:
    defaults = {
        column.name: str(column.server_default.arg)  # type: ignore[attr-defined]  # every default here has an argument
        for column in tables.outgoing.c
        if column.server_default is not None
    }
    assert defaults == {
        "sensitive": "false",
        "priority": "1",
        "status": "'pending'",
        "attempt_count": "0",
        "try_count": "0",
        "claim_count": "0",
        "lost_leases": "0",
        "requeue_count": "0",
    }
    needed = {c.name for c in tables.outgoing.c if not c.nullable and c.server_default is None}
    assert needed == {"id", "notification_id", "channel", "recipient", "type", "payload", "created_at"}


def test_statuses() -> None:
    assert tables.STATUSES == ("pending", "waiting", "sent", "delivered", "dead", "cancelled", "expired")
    assert set(tables.FINAL) == set(tables.STATUSES) - {"pending", "waiting"}


@pytest.mark.parametrize(
    ("name", "kind", "kept"),
    [
        ("orders", "table", True),
        ("sendoff_outgoing", "table", False),
        ("sendoff_core_version", "table", False),
        ("sendoff_anyplugin", "table", False),
        ("sendoffs", "table", True),
        (None, "schema", True),
        ("sendoff_key", "unique_constraint", True),
    ],
)
def test_an_applications_autogenerate_leaves_our_tables_alone(name: str | None, kind: str, kept: bool) -> None:
    assert tables.include_name(name, kind, {}) is kept
