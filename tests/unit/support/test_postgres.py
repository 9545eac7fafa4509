"""The servers that tests own: they obey, keep what was committed, and are gone when their owner is."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.support import keeper
from tests.support.databases import PREFIX, PostgresDatabases
from tests.support.postgres import NoPostgres, OwnServer, default_binaries

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def own_server() -> Iterator[OwnServer]:
    with OwnServer() as server:
        yield server


def test_a_server_keeps_what_was_committed_over_a_restart_and_a_kill(own_server: OwnServer) -> None:
    own_server.execute("CREATE TABLE kept (n int)")
    own_server.execute("INSERT INTO kept VALUES (1)")
    own_server.restart()
    own_server.execute("SET synchronous_commit = on; INSERT INTO kept VALUES (2)")
    own_server.kill()
    with pytest.raises(psycopg.OperationalError):
        own_server.execute("SELECT 1")
    own_server.start()
    assert own_server.execute("SELECT sum(n) FROM kept") == [(3,)]
    own_server.execute("DROP TABLE kept")


def test_a_setting_of_the_test_wins(own_server: OwnServer) -> None:
    assert own_server.execute("SHOW synchronous_commit") == [("off",)]
    with OwnServer({"synchronous_commit": "on"}) as server:
        assert server.execute("SHOW synchronous_commit") == [("on",)]


def test_what_postgres_refuses_is_said_with_its_own_words() -> None:
    with pytest.raises(NoPostgres, match="no_such_setting"):
        OwnServer({"no_such_setting": "on"})


@pytest.mark.parametrize("fatal", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda fatal: fatal.name)
def test_a_server_goes_with_its_owner_however_that_ends(fatal: signal.Signals) -> None:
    program = (
        "from tests.support.postgres import OwnServer; s = OwnServer(); print(s.pid, s.folder, flush=True); input()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner:
        pid, folder = owner.stdout.readline().split()
        server = psutil.Process(int(pid))
        assert server.is_running()
        owner.send_signal(fatal)
        owner.wait(10)
    _eventually(lambda: not keeper.is_alive(server) and not Path(folder).exists())


def test_databases_of_a_run_that_was_killed_are_dropped_by_the_next(own_server: OwnServer) -> None:
    own_server.execute(f"CREATE DATABASE {PREFIX}dead_1")
    with PostgresDatabases(own_server.url) as running:
        alive = running.create(migrated=False)
        with PostgresDatabases(own_server.url):
            rows = own_server.execute(f"SELECT datname FROM pg_database WHERE starts_with(datname, '{PREFIX}')")
        assert rows == [(alive,)]


def test_no_postgres_at_all_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.postgres.packaged_binaries", lambda: None)
    monkeypatch.setattr("tests.support.postgres.installed_binaries", dict)
    with pytest.raises(NoPostgres, match=r"make setup.*apt-get install postgresql.*SENDOFF_TEST_DATABASE_URL"):
        default_binaries()


def _eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not holds():
        assert time.monotonic() < deadline, "still not so after 15 s"
        time.sleep(0.02)
