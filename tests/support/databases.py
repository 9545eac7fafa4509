"""Databases for tests: made in milliseconds by copying one that was migrated once, and dropped afterwards."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import LiteralString, Self

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL, make_url

from tests.support.postgres import OwnServer

PREFIX = "sendoff_test_"
FILE_COPY_SINCE = 15_00_00


def migrate(url: str) -> None:
    """Bring a database to the current schema, the core's and every installed plugin's."""
    from sendoff import Sendoff  # here, so that tests of the packaging run without the core

    so = Sendoff(url)
    try:
        so.migrate()
    finally:
        so.close()


class PostgresDatabases:
    """Hands out databases of one server. Several test processes may share the server: names carry a run's own id.

    A run that was killed leaves its databases on a server that is not ours. The next run drops those whose run has no
    connection any more, which is why this object holds one from beginning to end.
    """

    def __init__(self, admin_url: str) -> None:
        self._admin_url = make_url(admin_url).set(drivername="postgresql")
        self._run = secrets.token_hex(4)
        self._template: str | None = None
        self._count = 0
        self._admin = psycopg.connect(
            self._text(self._admin_url), autocommit=True, application_name=f"{PREFIX}{self._run}"
        )
        self._drop_orphans()

    @contextmanager
    def database(self, *, migrated: bool) -> Iterator[str]:
        """The URL of a fresh database, which is dropped at the end, whoever is still connected."""
        name = self.create(migrated=migrated)
        try:
            yield self.url_of(name)
        finally:
            self.drop(name)

    def create(self, *, migrated: bool) -> str:
        self._count += 1
        name = f"{PREFIX}{self._run}_{self._count}"
        if not migrated:
            self._execute("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'", name)
            return name
        template = self._migrated_template()
        strategy = " STRATEGY file_copy" if self._admin.info.server_version >= FILE_COPY_SINCE else ""
        self._execute("CREATE DATABASE {} TEMPLATE {}" + strategy, name, template)
        return name

    def drop(self, name: str) -> None:
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def url_of(self, name: str) -> str:
        return self._text(self._admin_url.set(database=name))

    def close(self) -> None:
        if self._template is not None:
            self.drop(self._template)
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _migrated_template(self) -> str:
        if self._template is None:
            name = self.create(migrated=False)
            try:
                migrate(self.url_of(name))
            except BaseException:
                self.drop(name)
                raise
            self._template = name
        return self._template

    def _drop_orphans(self) -> None:
        rows = self._admin.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %(prefix)s) AND NOT EXISTS ("
            "SELECT FROM pg_stat_activity"
            " WHERE application_name = %(prefix)s || split_part(substr(pg_database.datname, %(start)s), '_', 1))",
            {"prefix": PREFIX, "start": len(PREFIX) + 1},
        )
        for (name,) in rows.fetchall():
            self.drop(name)

    def _execute(self, statement: LiteralString, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    @staticmethod
    def _text(url: URL) -> str:
        return url.render_as_string(hide_password=False).replace(" ", "%20")  # which libpq insists on


class SqliteDatabases:
    """Hands out SQLite files, each a copy of one that was migrated once."""

    def __init__(self, folder: Path) -> None:
        self._template = folder / "migrated.db"

    def create(self, path: Path) -> str:
        """The URL of a migrated database at `path`."""
        if not self._template.exists():
            fresh = self._template.with_suffix(".new")
            migrate(sqlite_url(fresh))
            with closing(sqlite3.connect(fresh)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            fresh.rename(self._template)
        shutil.copyfile(self._template, path)
        return sqlite_url(path)


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path.as_posix()}"


@contextmanager
def named_or_own_server(binaries: Path | None = None) -> Iterator[str]:
    """The URL of the server that SENDOFF_TEST_DATABASE_URL names, or of one that is started for these tests."""
    named = os.environ.get("SENDOFF_TEST_DATABASE_URL")
    if named and binaries is None:
        yield named
        return
    with OwnServer(binaries=binaries) as server:
        yield server.url
