"""Which connections will do, and what is said of those that will not."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from sendoff import ConfigurationError, NotMigrated, StoreError
from sendoff.store import Store
from sendoff.store.connections import executor_for, own_transaction
from sendoff.store.engine import make_engine, parse_url
from sendoff.tables import outgoing


def test_an_engine_has_no_transaction(store: Store) -> None:
    with pytest.raises(
        ConfigurationError, match="is an Engine, which has no transaction: pass a Connection or Session"
    ):
        executor_for(store.engine)


class AsyncSession:
    """As SQLAlchemy's looks from outside; its own needs greenlet to be imported."""

    __module__ = "sqlalchemy.ext.asyncio.session"

    def connection(self) -> None:
        raise AssertionError("nobody waits for it here")

    get_bind = connection


def test_asynchronous_connections_are_told_the_way() -> None:
    with pytest.raises(ConfigurationError, match=r"is asynchronous: call it inside `await connection\.run_sync"):
        executor_for(AsyncSession())


class Psycopg2Connection:
    """As its connections look from outside."""

    __module__ = "psycopg2.extensions"


def test_what_psycopg_has_besides_connections_is_named(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection, connection.cursor() as cursor:
        for wrong in (cursor, Psycopg2Connection()):
            with pytest.raises(ConfigurationError, match=r"is a psycopg.*: pass a synchronous psycopg 3 connection"):
                executor_for(wrong)


def test_another_database_is_named() -> None:
    session = SimpleNamespace(
        connection=lambda: SimpleNamespace(dialect=SimpleNamespace(name="mysql"), connection=None), get_bind=None
    )
    with pytest.raises(ConfigurationError, match="works with PostgreSQL and SQLite, not with 'mysql'"):
        executor_for(session)


class Django:
    """As django.db.connection looks from outside."""

    __module__ = "django.db.utils"

    def __init__(self, vendor: str, connection: Any = None) -> None:
        self.vendor = vendor
        self.connection = connection


def test_djangos_other_databases_are_named() -> None:
    with pytest.raises(ConfigurationError, match="not with Django's 'oracle' backend"):
        executor_for(Django("oracle"))


def test_our_own_transaction_commits_or_rolls_back(fresh_store: Store) -> None:
    with own_transaction(fresh_store.engine) as executor:
        executor.execute("CREATE TABLE shop (name text)", {})
        executor.execute("INSERT INTO shop VALUES (:name)", {"name": "a :b 100 %"})
    with contextlib.suppress(ZeroDivisionError), own_transaction(fresh_store.engine) as executor:
        executor.execute("INSERT INTO shop VALUES (:name)", {"name": "lost"})
        _ = 1 / 0
    with own_transaction(fresh_store.engine) as executor:
        assert [("a :b 100 %",)] == [tuple(row) for row in executor.execute("SELECT name FROM shop", {})]


def test_a_missing_table_means_not_migrated(empty_database_url: str) -> None:
    engine = make_engine(empty_database_url)
    with pytest.raises(NotMigrated, match="run `sendoff migrate`"), own_transaction(engine) as executor:
        executor.execute("SELECT * FROM sendoff_outgoing", {})
    engine.dispose()


def test_an_error_tells_state_and_constraint_and_no_value(fresh_store: Store) -> None:
    with fresh_store.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE shop (name text CONSTRAINT not_private CHECK (name <> 'private'))")
    with pytest.raises(StoreError) as caught, fresh_store.transaction() as connection:
        connection.execute(sa.text("INSERT INTO shop VALUES (:name)"), {"name": "private"})
    assert "'private'" not in str(caught.value)
    assert "INSERT" not in str(caught.value)
    assert caught.value.sqlstate in {"23514", "SQLITE_CONSTRAINT_CHECK"}
    assert caught.value.constraint in {"not_private", None}


def test_a_read_writes_nothing_and_leaves_the_connection_as_it_was(store: Store) -> None:
    with pytest.raises(StoreError), store.reading() as connection:
        connection.execute(sa.text("DELETE FROM sendoff_event"))
    for _ in range(12):
        with store.transaction() as connection:
            connection.execute(sa.text("DELETE FROM sendoff_event"))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "cannot be read"),
        ("nonsense", "cannot be read; write postgresql://user:password@host/name or sqlite:///file.db"),
        ("mysql://h/d", "not with 'mysql'"),
        ("postgresql://u:p@h:port/d", "cannot be read"),
        ("nosuchdb://h/d", "nosuchdb"),
    ],
)
def test_a_url_that_is_none_of_ours_is_one_clear_line(url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        parse_url(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_means_psycopg(scheme: str) -> None:
    assert parse_url(f"{scheme}://u@h/d").drivername == "postgresql+psycopg"


def test_a_plugin_that_closes_a_reading_connection_leaves_no_read_only_one_behind(store: Store) -> None:
    for _ in range(20):
        store.read(lambda connection: connection.close())
        store.run(lambda connection: connection.execute(outgoing.delete()))
