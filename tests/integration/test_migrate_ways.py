"""Migrations in the caller's transaction, on engines that are not ours, and as a script for psql or sqlite3."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine
from sqlalchemy.pool import NullPool

from sendoff.migrate import Applied, check_schema, migrate, sql
from sendoff.plugin import Migrations
from tests.integration.test_migrate import description, names
from tests.support.postgres import default_binaries
from tests.support.revisions import ADD, CREATE, opened, write_plugin

FIRST = Applied("core", None, "0001")
PAGER = Applied("pager", None, "0002")


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    with opened(empty_database_url) as engine:
        yield engine


@pytest.fixture
def pager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Migrations:
    """A plugin with two revisions."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    return write_plugin(tmp_path / "site", "pager", CREATE.format("pager"), ADD.format("pager", "b"))


# ------------------------------------------------------------------------------------- in the caller's transaction


def test_nothing_is_left_after_the_callers_rollback(engine: Engine, pager: Migrations) -> None:
    with engine.connect() as connection:
        assert migrate(None, [pager], connection=connection) == [FIRST, PAGER]
        check_schema(connection, [pager])
        connection.rollback()
    assert names(engine) == set()


def test_it_is_part_of_what_the_caller_had_begun(engine: Engine, pager: Migrations) -> None:
    with engine.connect() as connection, connection.begin() as transaction:
        connection.exec_driver_sql("CREATE TABLE orders (id integer)")
        migrate(engine, [pager], connection=connection)
        assert migrate(engine, [pager], connection=connection) == []
        transaction.rollback()
    assert names(engine) == set()


def test_the_callers_commit_keeps_it(engine: Engine, pager: Migrations) -> None:
    with engine.begin() as connection:
        migrate(None, [pager], connection=connection)
    assert migrate(engine, [pager]) == []


def test_a_savepoint_of_the_callers_takes_it_back(engine: Engine) -> None:
    with engine.begin() as connection:
        with connection.begin_nested() as savepoint:
            migrate(None, connection=connection)
            savepoint.rollback()
        assert names(connection) == set()


# ---------------------------------------------------------------------------------------- an application's engines


@pytest.mark.parametrize("begin", [None, "BEGIN"], ids=["driver's own transactions", "deferred"])
def test_any_sqlite_engine_rolls_back_as_well(empty_sqlite_url: str, begin: str | None) -> None:
    engine = sa.create_engine(empty_sqlite_url)
    if begin is not None:  # as SQLAlchemy's documentation teaches it

        @sa.event.listens_for(engine, "connect")
        def _leave_it_to_us(connection: sqlite3.Connection, _: object) -> None:
            connection.isolation_level = None

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql("BEGIN")

    with engine.connect() as connection:
        assert migrate(None, connection=connection) == [FIRST]
        connection.rollback()
    assert names(engine) == set()
    assert migrate(engine) == [FIRST]
    with engine.connect() as connection, closing(sqlite3.connect(str(engine.url.database), timeout=0)) as other:
        # It has the write lock before it reads: to get it after a read fails when somebody else has written meanwhile.
        assert migrate(None, connection=connection) == []
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
    engine.dispose()


@pytest.mark.parametrize("level", ["AUTOCOMMIT", "SERIALIZABLE", "REPEATABLE READ"])
def test_any_isolation_level_on_postgresql_will_do(empty_postgres_url: str, pager: Migrations, level: str) -> None:
    url = sa.make_url(empty_postgres_url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, isolation_level=level, poolclass=NullPool)
    assert migrate(engine, [pager]) == [FIRST, PAGER]
    assert migrate(engine, [pager]) == []


def test_a_database_in_memory(pager: Migrations) -> None:
    with opened("sqlite://") as engine:
        assert migrate(engine, [pager]) == [FIRST, PAGER]
        assert migrate(engine, [pager]) == []


# ---------------------------------------------------------------------------------------------------------- scripts


def run_script(url: str, script: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.executescript(script)
        return
    psql = [str(default_binaries() / "psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", url]
    done = subprocess.run(psql, input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_makes_the_same_schema(empty_database_url: str, pager: Migrations) -> None:
    run_script(empty_database_url, sql(empty_database_url, [pager]))
    with opened(empty_database_url) as engine:
        assert migrate(engine, [pager]) == []
        with engine.begin() as connection:
            check_schema(connection, [pager])
            scripted = description(connection)
            for name in names(connection):
                connection.exec_driver_sql(f"DROP TABLE {name}")
        migrate(engine, [pager])
        with engine.connect() as connection:
            assert description(connection) == scripted


def test_a_script_for_what_is_new(empty_database_url: str, pager: Migrations, tmp_path: Path) -> None:
    run_script(empty_database_url, sql(empty_database_url, [pager]))
    newer = write_plugin(tmp_path / "site", "pager", CREATE.format("pager"), *[ADD.format("pager", c) for c in "bc"])
    script = sql(empty_database_url, [newer], since={"core": "0001", "pager": "0002"})
    assert "CREATE TABLE" not in script
    run_script(empty_database_url, script)
    with opened(empty_database_url) as engine:
        assert migrate(engine, [newer]) == []


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_a_dialect_will_do_instead_of_a_url(dialect: str) -> None:
    script = sql(dialect)
    assert script.count("BEGIN;") == script.count("COMMIT;") == 1
    assert ("fillfactor = 70" in script) is (dialect == "postgresql")
