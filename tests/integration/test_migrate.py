"""Migrations on real databases: what comes out, plugins, the check at start-up.

In the caller's transaction and as a script: test_migrate_ways.py. Several at once: test_migrate_at_once.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine

from sendoff import tables
from sendoff.errors import NotMigrated, PluginBroken, StoreError
from sendoff.migrate import CORE, Applied, check_schema, migrate
from sendoff.plugin import Migrations
from tests.support.revisions import ADD, CREATE, opened, write_plugin

FIRST = Applied("core", None, "0001")
NOW = datetime(2026, 1, 1, tzinfo=UTC)

Plugin = Callable[..., Migrations]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)
    return lambda name, *bodies, **more: write_plugin(site, name, *bodies, **more)


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    with opened(empty_database_url) as engine:
        yield engine


def names(on: Engine | Connection) -> set[str]:
    return set(sa.inspect(on).get_table_names())


def reached(connection: Connection) -> dict[str, tuple[int, int]]:
    rows = connection.execute(sa.text("SELECT name, revision_no, compatible_from FROM sendoff_schema"))
    return {row.name: (row.revision_no, row.compatible_from) for row in rows}


def description(connection: Connection) -> dict[str, Any]:
    """By table, what the database itself says about it: columns, defaults, keys, indexes, storage."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT tbl_name, type, name, sql FROM sqlite_master ORDER BY 1, 2, 3")
        found: dict[str, Any] = {}
        for table, kind, name, text in rows:
            found.setdefault(table, []).append((kind, name, " ".join((text or "").split())))
        return found
    catalog = """
        SELECT c.relname, c.reloptions, array_agg(ROW(a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               a.attidentity, pg_get_expr(d.adbin, d.adrelid))::text ORDER BY a.attnum),
               ARRAY(SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i WHERE i.indrelid = c.oid ORDER BY 1)
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace GROUP BY c.oid, c.relname, c.reloptions"""
    return {row[0]: tuple(row[1:]) for row in connection.exec_driver_sql(catalog)}


# --------------------------------------------------------------------------------------------------- what comes out


def test_a_fresh_database_gets_every_table_once(engine: Engine) -> None:
    assert migrate(engine) == [FIRST]
    assert names(engine) == {*tables.metadata.tables, "sendoff_schema", "sendoff_core_version"}
    assert migrate(engine) == []
    with engine.connect() as connection:
        check_schema(connection)
        assert reached(connection) == {"core": (1, 1)}


def test_migrations_make_what_the_tables_declare(engine: Engine) -> None:
    migrate(engine)
    options = {
        # SQLite has no identity columns, and alembic takes that for a default that is missing.
        "compare_server_default": engine.dialect.name == "postgresql",
        "include_name": lambda name, kind, _: kind != "table" or name in tables.metadata.tables,
    }
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=options), tables.metadata) == []
        migrated = description(connection)
    # Alembic compares neither the conditions of indexes nor storage, so compare with what the tables make as well.
    with engine.begin() as connection:
        for name in names(connection):
            connection.exec_driver_sql(f"DROP TABLE {name}")
        tables.metadata.create_all(connection)
        declared = description(connection)
    assert {name: migrated[name] for name in declared} == declared
    assert migrated.keys() - declared.keys() == {"sendoff_schema", "sendoff_core_version"}


def test_the_due_index_and_the_fillfactor_on_postgresql(empty_postgres_url: str) -> None:
    with opened(empty_postgres_url) as engine, engine.connect() as connection:
        migrate(engine)
        options = connection.scalar(sa.text("SELECT reloptions FROM pg_class WHERE relname = 'sendoff_outgoing'"))
        due = connection.scalar(sa.text("SELECT pg_get_indexdef('sendoff_outgoing_due'::regclass)"))
    assert options == ["fillfactor=70"]
    assert due.endswith("USING btree (channel, priority, next_attempt_at, id) WHERE (status = 'pending'::text)")


def test_events_are_numbered_by_the_database(engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        for _ in range(2):
            connection.execute(tables.event.insert(), {"kind": "created", "at": NOW})
        assert connection.scalars(sa.select(tables.event.c.id).order_by(tables.event.c.id)).all() == [1, 2]


def test_an_sqlite_file_of_an_application_is_switched_to_wal(empty_sqlite_url: str) -> None:
    plain = sa.create_engine(empty_sqlite_url)
    assert migrate(plain) == [FIRST]
    plain.dispose()
    with closing(sqlite3.connect(empty_sqlite_url.removeprefix("sqlite:///"))) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# ---------------------------------------------------------------------------------------------------------- plugins


def test_each_plugin_has_its_own_history_also_with_the_same_revision_ids(engine: Engine, plugin: Plugin) -> None:
    pager, fax = plugin("pager", CREATE.format("pager")), plugin("fax", CREATE.format("fax"), ADD.format("fax", "b"))
    steps: list[Applied] = []
    assert migrate(engine, [pager, fax], on_step=steps.append) == [
        FIRST,
        Applied("pager", None, "0001"),
        Applied("fax", None, "0002"),
    ]
    assert steps[-2:] == [Applied("fax", None, "0001"), Applied("fax", "0001", "0002")]
    assert {"sendoff_pager_version", "sendoff_fax_version", "sendoff_pager", "sendoff_fax"} <= names(engine)
    assert migrate(engine, [CORE, fax, pager]) == []


def test_a_plugin_goes_and_comes_back(engine: Engine, plugin: Plugin) -> None:
    pager = plugin("pager", CREATE.format("pager"))
    migrate(engine, [pager])
    assert migrate(engine) == []
    with engine.connect() as connection:
        check_schema(connection)
    assert migrate(engine, [plugin("pager", CREATE.format("pager"), ADD.format("pager", "b"))]) == [
        Applied("pager", "0001", "0002")
    ]


def test_a_revision_that_fails_says_whose_it_is_and_is_tried_again(engine: Engine, plugin: Plugin) -> None:
    broken = plugin("pager", CREATE.format("pager"), 'op.execute("ALTER TABLE nowhere ADD COLUMN b text")')
    with pytest.raises(StoreError, match=r"a migration of 'pager' failed: .*nowhere"):
        migrate(engine, [broken])
    mended = plugin("pager", CREATE.format("pager"), ADD.format("pager", "b"))
    done = migrate(engine, [mended])
    # PostgreSQL keeps each revision that succeeded; SQLite's run is one transaction.
    on_sqlite = [FIRST, Applied("pager", None, "0002")]
    assert done == (on_sqlite if engine.dialect.name == "sqlite" else [Applied("pager", "0001", "0002")])


def test_two_newest_revisions_are_the_plugins_mistake(engine: Engine, plugin: Plugin) -> None:
    forked = plugin("pager", CREATE.format("pager"), "pass", "pass", extra={3: "down_revision = '0001'"})
    with pytest.raises(PluginBroken, match=r"the migrations of 'pager' cannot run: Multiple head revisions"):
        migrate(engine, [forked])


@pytest.mark.parametrize("own_transaction", [True, False])
def test_an_index_is_built_beside_writers_where_that_is_possible(
    engine: Engine, plugin: Plugin, own_transaction: bool
) -> None:
    body = "from sendoff_migrations import create_index\ncreate_index('sendoff_pager_a', 'sendoff_pager', ['a'])"
    pager = plugin("pager", CREATE.format("pager"), body)
    seen: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda *call: seen.append(call[2]))
    if own_transaction:
        migrate(engine, [pager])
    else:
        with engine.begin() as connection:
            migrate(None, [pager], connection=connection)
    assert [index["name"] for index in sa.inspect(engine).get_indexes("sendoff_pager")] == ["sendoff_pager_a"]
    concurrently = any(text.startswith("CREATE INDEX CONCURRENTLY") for text in seen)
    assert concurrently is (own_transaction and engine.dialect.name == "postgresql")


# ------------------------------------------------------------------------------------------------------- the check


def test_an_empty_database_is_not_migrated(engine: Engine) -> None:
    with engine.connect() as connection:
        with pytest.raises(NotMigrated, match=r"^the database has no sendoff tables: run `sendoff migrate`$"):
            check_schema(connection)
        assert connection.scalar(sa.text("SELECT 1")) == 1


def test_the_check_leaves_the_callers_transaction_usable(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id integer)")
        with pytest.raises(NotMigrated):
            check_schema(connection)
        connection.exec_driver_sql("INSERT INTO orders VALUES (1)")
    assert names(engine) == {"orders"}


def test_the_check_is_one_query(engine: Engine, plugin: Plugin) -> None:
    pager = plugin("pager", CREATE.format("pager"))
    migrate(engine, [pager])
    with engine.connect() as connection:
        connection.scalar(sa.text("SELECT 1"))
        connection.rollback()
        seen: list[str] = []
        sa.event.listen(connection, "before_cursor_execute", lambda *call: seen.append(call[2]))
        check_schema(connection, [pager])
    assert [text.split()[0] for text in seen if not text.startswith("BEGIN")] == ["SELECT"]


def test_an_older_schema_is_not_enough(engine: Engine, plugin: Plugin) -> None:
    migrate(engine, [plugin("pager", CREATE.format("pager"))])
    newer = [plugin("pager", CREATE.format("pager"), "pass"), plugin("fax", CREATE.format("fax"))]
    with (
        engine.connect() as connection,
        pytest.raises(NotMigrated, match=r"pager has 1 of 2 revisions, fax has 0 of 1 .*run `sendoff migrate`$"),
    ):
        check_schema(connection, newer)


def test_a_newer_schema_that_is_compatible_will_do(engine: Engine, plugin: Plugin) -> None:
    # The fourth says nothing, so what the third said holds.
    migrate(engine, [plugin("pager", CREATE.format("pager"), *["pass"] * 3, extra={3: "compatible_from = 2"})])
    older = [plugin("pager", CREATE.format("pager"), "pass")]
    with engine.connect() as connection:
        assert reached(connection)["pager"] == (4, 2)
        check_schema(connection, older)
    assert migrate(engine, older) == []


def test_a_newer_schema_that_no_longer_works_with_us_will_not(engine: Engine, plugin: Plugin) -> None:
    migrate(engine, [plugin("pager", CREATE.format("pager"), "pass", extra={2: "compatible_from = 2"})])
    older = [plugin("pager", CREATE.format("pager"))]
    with engine.connect() as connection, pytest.raises(NotMigrated, match=r"upgrade the plugin 'pager'$"):
        check_schema(connection, older)
    with pytest.raises(NotMigrated, match=r"has 2 revisions and works with .* know 2, this one knows 1: upgrade"):
        migrate(engine, older)


def test_a_newer_core_asks_for_a_newer_sendoff(engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE sendoff_schema SET revision_no = 9, compatible_from = 8")
        with pytest.raises(NotMigrated, match=r"upgrade sendoff$"):
            check_schema(connection)
