"""Several processes that migrate one database, and sessions that are in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from sendoff.errors import MigrationTimeout
from sendoff.migrate import LOCK, Applied, check_schema, migrate
from sendoff_migrations import locks
from tests.support.revisions import ADD, CREATE, opened, write_plugin

FIRST = Applied("core", None, "0001")
HOLD = sa.text(f"SELECT pg_advisory_xact_lock({LOCK})")
#: Migrates in as many processes as it is told, all at the same moment (0: in this one), each telling what it did. They
#: are forked because to import everything ten times takes ten times as long.
PROGRAM = """
import json, os, sys, traceback
import alembic.command
from sendoff.migrate import check_schema, migrate
from sendoff.plugin import Migrations
from sendoff.store.engine import make_engine
url, count, packages = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
sets = [Migrations(name=package.split(".")[0].rpartition("_")[2], package=package) for package in packages]

def run():
    engine = make_engine(url)
    done = migrate(engine, sets)
    with engine.connect() as connection:
        check_schema(connection, sets)
    line = json.dumps([[each.name, each.from_revision, each.to_revision] for each in done])
    os.write(1, line.encode() + b"\\n")
    engine.dispose()

def child():
    status = 1
    try:
        os.close(opener)
        os.read(gate, 1)
        run()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)

if not count:
    run()
gate, opener = os.pipe()
children = [os.fork() or child() for _ in range(count)]
os.close(opener)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""
INDEX = "from sendoff_migrations import create_index\ncreate_index('sendoff_pager_a', 'sendoff_pager', ['a'])"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


@pytest.fixture
def postgres(empty_postgres_url: str) -> Iterator[Engine]:
    with opened(empty_postgres_url) as engine:
        yield engine


def start(url: str, count: int, *packages: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, url, str(count), *packages],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ten_processes_at_once(empty_database_url: str, site: Path) -> None:
    """One of them does each step, and none fails; the index is built concurrently while the others ask for the lock."""
    pager = write_plugin(site, "pager", CREATE.format("pager"), INDEX)
    fax = write_plugin(site, "fax", CREATE.format("fax"))
    ten = start(empty_database_url, 10, pager.package, fax.package)
    told, complaints = ten.communicate(timeout=200)
    assert (ten.returncode, complaints) == (0, "")
    answers = [json.loads(line) for line in told.splitlines()]
    assert len(answers) == 10
    done = sorted(tuple(step) for answer in answers for step in answer)
    assert done == [("core", None, "0001"), ("fax", None, "0001"), ("pager", None, "0002")]


def test_a_process_killed_in_the_middle_is_in_nobodys_way(empty_database_url: str, site: Path) -> None:
    hang = f"open({str(site / 'reached')!r}, 'w').close(); import time; time.sleep(600)"
    stuck = start(empty_database_url, 0, write_plugin(site, "pager", CREATE.format("pager"), hang).package)
    with opened(empty_database_url) as engine:
        try:
            until((site / "reached").exists)
            with pytest.raises(MigrationTimeout):
                migrate(engine, [write_plugin(site, "pager", CREATE.format("pager"), "pass")], timeout=0.3)
        finally:
            stuck.kill()
            stuck.communicate()
        pager = write_plugin(site, "pager", CREATE.format("pager"), ADD.format("pager", "b"))
        assert migrate(engine, [pager])[-1].to_revision == "0002"
        with engine.connect() as connection:
            check_schema(connection, [pager])


# ------------------------------------------------------------------------------------------------ others in the way


def test_the_lock_held_by_another_session_is_named_with_the_way_out(postgres: Engine) -> None:
    with postgres.connect() as other:
        other.execute(HOLD)
        pid = other.scalar(sa.text("SELECT pg_backend_pid()"))
        with takes(0.3, 15), pytest.raises(MigrationTimeout) as caught:
            migrate(postgres, timeout=0.3)
        with takes(0.2, 15), postgres.begin() as connection, pytest.raises(MigrationTimeout):
            migrate(None, connection=connection, timeout=0.2)
    assert str(caught.value) == (
        f"the database session {pid} has held the migration lock for 0.3 s: wait for it or end it with "
        f"SELECT pg_terminate_backend({pid}), then run `sendoff migrate` again"
    )
    assert migrate(postgres) == [FIRST]


def test_nobody_waits_for_the_lock_when_there_is_nothing_to_do(postgres: Engine) -> None:
    migrate(postgres)
    with postgres.connect() as other:
        other.execute(HOLD)
        assert migrate(postgres, timeout=0) == []


def test_a_writer_that_keeps_the_sqlite_file(empty_sqlite_url: str) -> None:
    with opened(empty_sqlite_url) as engine:
        with engine.begin() as other:
            other.exec_driver_sql("CREATE TABLE orders (id integer)")
            with takes(0.3, 15), pytest.raises(MigrationTimeout, match=r"^another process has been writing .* 0\.3 s"):
                migrate(engine, timeout=0.3)
        assert migrate(engine) == [FIRST]
        # The pool's connections are as patient as they were.
        with engine.connect() as one, engine.execution_options(sendoff_read_only=True).connect() as two:
            assert [each.exec_driver_sql("PRAGMA busy_timeout").scalar() for each in (one, two)] == [30_000] * 2


def test_a_table_in_use_is_waited_for_without_holding_up_others(
    postgres: Engine, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCK_TIMEOUT", 0.2)
    migrate(postgres, [write_plugin(site, "pager", CREATE.format("pager"))])
    newer = write_plugin(site, "pager", CREATE.format("pager"), ADD.format("pager", "b"))
    done: list[Applied] = []
    with postgres.connect() as reader:
        reader.execute(sa.text("SELECT * FROM sendoff_pager"))
        thread = threading.Thread(target=lambda: done.extend(migrate(postgres, [newer], timeout=30)))
        thread.start()
        with postgres.connect() as watcher:
            until(lambda: waits(watcher))
        with postgres.connect() as another:
            # Queues behind the ALTER TABLE, which steps back before it gets the table.
            another.exec_driver_sql("SET LOCAL lock_timeout = '20 s'")
            another.execute(sa.text("SELECT * FROM sendoff_pager"))
        assert done == []
    thread.join(10)
    assert done == [Applied("pager", "0001", "0002")]


def test_a_table_that_stays_in_use_ends_in_a_message(
    postgres: Engine, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCK_TIMEOUT", 0.2)
    older = write_plugin(site, "pager", CREATE.format("pager"))
    migrate(postgres, [older])
    newer = write_plugin(site, "pager", CREATE.format("pager"), "pass", ADD.format("pager", "b"))
    with postgres.connect() as reader:
        reader.execute(sa.text("SELECT * FROM sendoff_pager"))
        with (
            takes(0.5, 15),
            pytest.raises(MigrationTimeout, match=r"of pager waited 0\.5 s .*pg_stat_activity") as caught,
        ):
            migrate(postgres, [newer], timeout=0.5)
    assert caught.value.sqlstate == "55P03"
    assert migrate(postgres, [newer]) == [Applied("pager", "0002", "0003")]


def test_a_long_revision_outlives_the_limit_on_idle_transactions(postgres: Engine, site: Path) -> None:
    with postgres.connect() as connection:
        database = connection.scalar(sa.text("SELECT current_database()"))
        connection.exec_driver_sql(f"ALTER DATABASE {database} SET idle_in_transaction_session_timeout = '200 ms'")
        connection.commit()
    postgres.dispose()
    long = write_plugin(site, "pager", "op.execute('SELECT pg_sleep(1)')")
    assert migrate(postgres, [long]) == [FIRST, Applied("pager", None, "0001")]


def test_no_session_keeps_what_a_run_has_set(postgres: Engine, site: Path) -> None:
    """Behind PgBouncer the next user of the session is somebody else."""
    settings = sa.text(
        "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'),"
        " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"
    )
    migrate(postgres, [write_plugin(site, "pager", CREATE.format("pager"), INDEX)])
    # The pool hands out the run's two sessions again.
    with postgres.connect() as one, postgres.connect() as two:
        assert [tuple(each.execute(settings).one()) for each in (one, two)] == [("0", "0", 0)] * 2


# ---------------------------------------------------------------------------------------------------------- helpers


def waits(watcher: Connection) -> bool:
    with watcher.begin():
        return bool(watcher.scalar(sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")))


def until(happened: Callable[[], bool], patience: float = 100.0) -> None:
    deadline = time.monotonic() + patience
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@contextmanager
def takes(least: float, most: float) -> Iterator[None]:
    before = time.monotonic()
    yield
    assert least <= time.monotonic() - before <= most
