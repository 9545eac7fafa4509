"""Fresh databases for each measurement, copied from one that is migrated, or migrated and full of due rows."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from benchmarks.plugin import Singles, notifications
from sendoff import Sendoff
from tests.support.postgres import OwnServer

__all__ = ["SETTINGS", "Databases", "SqliteFiles", "embedded"]

#: PostgreSQL as it comes, and durable; only memory and checkpoints are those of a small server.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
}
#: Notifications in one call of ``enqueue_many``.
CALL = 1000


@contextmanager
def embedded() -> Iterator[str]:
    """The URL of a PostgreSQL server of our own, which ends with the block."""
    with OwnServer(SETTINGS) as server:
        yield server.url


def fill(url: str, rows: int) -> None:
    """Migrate a database and enqueue rows that are due."""
    with Sendoff(url, plugins=[Singles()], entry_points=False) as so:
        so.migrate()
        for start in range(0, rows, CALL):
            so.enqueue_many(notifications(start, min(CALL, rows - start), "fill"), None)


class Databases:
    """Databases of one server; all are dropped at the end."""

    def __init__(self, url: str, rows: int) -> None:
        self._url = make_url(url)
        self._prefix = f"sendoff_bench_{secrets.token_hex(3)}"
        self._admin = psycopg.connect(self._text(self._url.database or "postgres"), autocommit=True)
        self._made: list[str] = []
        self.empty = self._template("empty", 0)
        self.full = self._template("full", rows)

    @property
    def version(self) -> str:
        """The server's version and those of its settings that matter here."""
        found = self._admin.execute(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s) ORDER BY name",
            [["server_version", *SETTINGS]],
        )
        return ", ".join(f"{name} {value}" for name, value in found)

    @contextmanager
    def copy(self, template: str) -> Iterator[str]:
        """The URL of a copy, for one measurement. What is still in memory is written before it begins."""
        name = f"{self._prefix}_{len(self._made)}"
        self._create(name, template)
        self._admin.execute("CHECKPOINT")
        try:
            yield self._text(name)
        finally:
            self._drop(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._made):
            self._drop(name)
        self._admin.close()

    def _template(self, kind: str, rows: int) -> str:
        name = f"{self._prefix}_{kind}"
        self._create(name, "template0")
        fill(self._text(name), rows)
        with psycopg.connect(self._text(name), autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        return name

    def _create(self, name: str, template: str) -> None:
        names = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
        self._admin.execute(sql.SQL("CREATE DATABASE {name} TEMPLATE {template}").format(**names))
        self._made.append(name)

    def _drop(self, name: str) -> None:
        self._admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        self._made.remove(name)

    def _text(self, database: str) -> str:
        return self._url.set(drivername="postgresql", database=database).render_as_string(hide_password=False)


class SqliteFiles:
    """The same for SQLite: files in one folder."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._folder = folder
        self._full = folder / "full.db"
        fill(f"sqlite:///{self._full}", rows)

    @contextmanager
    def copy(self) -> Iterator[str]:
        """The URL of a copy, for one measurement."""
        file = self._folder / f"{secrets.token_hex(4)}.db"
        copyfile(self._full, file)
        try:
            yield f"sqlite:///{file}"
        finally:
            for path in self._folder.glob(f"{file.name}*"):
                path.unlink()
