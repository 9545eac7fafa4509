"""Brings a database to the schema that this version needs, and checks that it is there.

Each set of migrations (the core's, each plugin's) is an alembic run of its own with a version table of its own,
``sendoff_<name>_version``, so that plugins come and go and two of them may use the same revision id.
docs/decisions/0001-one-alembic-run-per-plugin.md has the reasons, also for the kind of lock.

The table ``sendoff_schema`` has one row for each set, written with each revision: ``revision_no`` (how many revisions
the database has) and ``compatible_from`` (how many a program must know to work with it). A program that knows N
revisions of a set starts when ``compatible_from <= N <= revision_no``.
"""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from attrs import Factory, evolve, frozen
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError

from sendoff import tables
from sendoff.errors import MigrationTimeout, NotMigrated, StoreError
from sendoff.plugin.hookspecs import Migrations
from sendoff.store.engine import parse_url, store_errors, translate_driver_error
from sendoff_migrations.locks import (
    LOCK,
    POLL,
    Patience,
    begin_immediate,
    guard,
    is_busy,
    limit_lock_waits,
    prepare_file,
    take,
)
from sendoff_migrations.run import SCHEMA, Applied, Known, OnStep, known, run

__all__ = ["CORE", "LOCK", "Applied", "check_schema", "migrate", "sql"]

CORE = Migrations(name="core", package="sendoff_migrations.versions", metadata=tables.metadata)
#: lock_not_available, deadlock_detected
_STEP_BACK = {"55P03", "40P01"}
_WAY_OUT = (
    "Find the oldest transaction (SELECT pid, xact_start, state, application_name FROM pg_stat_activity "
    "ORDER BY xact_start), wait for it or end it (SELECT pg_terminate_backend(pid)), then run `sendoff migrate` again"
)


# ---------------------------------------------------------------------------------------------------- the three verbs


def migrate(
    engine: Engine | None,
    sets: Sequence[Migrations] = (),
    *,
    connection: Connection | None = None,
    timeout: float = 60.0,
    on_step: OnStep | None = None,
) -> list[Applied]:
    """Bring the database to the newest revision of the core, then of each of ``sets``, the plugins'.

    Any number of processes may do this at once: one works, the others wait and find nothing left to do. Each revision
    is a transaction on PostgreSQL; on SQLite the whole run is one. A database that is up to date costs one query.

    :param connection: run inside this connection's transaction, which the caller commits or rolls back; ``engine`` is
        then not used. Without it, PostgreSQL needs two connections of the engine at once.
    :param timeout: seconds to wait for others, all in all.
    :param on_step: told of each revision once its statements have run.
    :returns: one entry for each set that changed, in order.
    :raises MigrationTimeout: somebody held the migration lock, or a table, for longer than ``timeout``.
    :raises NotMigrated: a newer version migrated this database, and it no longer works with this one.
    :raises PluginBroken: a set's package is missing, or is not a linear history of alembic revisions.
    :raises StoreError: the database refused a statement.
    """
    job = _Job(known(_with_core(sets)), Patience(timeout), on_step)
    with store_errors():
        if connection is not None:
            _within(connection, job)
        elif engine is None:
            raise TypeError("migrate() needs an engine or a connection")
        elif engine.dialect.name == "sqlite":
            _on_sqlite(engine, job)
        else:
            _on_postgresql(engine, job)
    return list(job.done.values())


def sql(dialect_or_url: str, sets: Sequence[Migrations] = (), *, since: Mapping[str, str] | None = None) -> str:
    """What :func:`migrate` would run on an empty database, as a script for ``psql -v ON_ERROR_STOP=1`` or ``sqlite3
    -bail``.

    :param dialect_or_url: ``"postgresql"`` or ``"sqlite"``, or a database URL, of which only the dialect counts.
    :param since: by a set's name, the revision that the database has; the script then starts after it.
    """
    url = dialect_or_url if ":" in dialect_or_url else f"{dialect_or_url}://"
    dialect = parse_url(url).get_backend_name()
    output = io.StringIO()
    if dialect == "sqlite":
        output.write("PRAGMA journal_mode = WAL;\n\n")
    configure = {
        "dialect_name": dialect,
        "dialect_opts": {"paramstyle": "named"},
        "literal_binds": True,
        "output_buffer": output,
        # Alembic takes SQLite's DDL for not transactional, which is a peculiarity of Python's driver.
        "transactional_ddl": True,
    }
    for one in known(_with_core(sets)):
        start = (since or {}).get(one.name, "base")
        run(one, configure, target=f"{start}:head", autocommit=dialect == "postgresql")
    return output.getvalue()


def check_schema(connection: Connection, sets: Sequence[Migrations] = ()) -> None:
    """Pass if the database has what this version of the core and of each of ``sets`` needs. One query.

    :raises NotMigrated: tables are missing, older than this version needs, or newer than it can work with; the
        message names the way out.
    """
    with store_errors():
        found = _read(connection)
        behind = _behind(found, known(_with_core(sets)))
    if not found:
        raise NotMigrated("the database has no sendoff tables: run `sendoff migrate`")
    if behind:
        lacks = ", ".join(
            f"{one.name} has {found[one.name].revision_no if one.name in found else 0} of {one.number} revisions"
            for one in behind
        )
        raise NotMigrated(f"the database is older than this version needs ({lacks}): run `sendoff migrate`")


# --------------------------------------------------------------------------------------------------- what is there


@frozen
class _Reached:
    revision_no: int
    compatible_from: int


def _read(connection: Connection) -> dict[str, _Reached]:
    """The rows of ``sendoff_schema`` by name; none where there is no such table."""
    # On PostgreSQL the error would end a transaction of the caller's; without one there is nothing to protect.
    shield = connection.dialect.name == "postgresql" and connection.in_transaction()
    alone = not connection.in_transaction()
    try:
        with connection.begin_nested() if shield else nullcontext():
            rows = connection.execute(SCHEMA.select()).all()
    except DBAPIError as error:
        if alone:
            connection.rollback()
        if getattr(error.orig, "sqlstate", None) == "42P01" or str(error.orig) == f"no such table: {SCHEMA.name}":
            return {}
        raise
    return {row.name: _Reached(row.revision_no, row.compatible_from) for row in rows}


def _behind(found: Mapping[str, _Reached], sets: Sequence[Known]) -> list[Known]:
    """The sets of which the database has fewer revisions than we know.

    :raises NotMigrated: a set has more of them, and they are no longer compatible with what we know.
    """
    for one in sets:
        if one.name in found and found[one.name].compatible_from > one.number:
            what = "sendoff" if one.name == CORE.name else f"the plugin {one.name!r}"
            raise NotMigrated(
                f"a newer version migrated this database: {one.name} has {found[one.name].revision_no} revisions and "
                f"works with programs that know {found[one.name].compatible_from}, this one knows {one.number}: "
                f"upgrade {what}"
            )
    return [one for one in sets if one.name not in found or found[one.name].revision_no < one.number]


def _with_core(sets: Sequence[Migrations]) -> list[Migrations]:
    return [CORE, *(each for each in sets if each != CORE)]


# ------------------------------------------------------------------------------------------------------ how it is run


@frozen
class _Job:
    """One call of :func:`migrate`: what to reach, how long to wait, and what was done so far, by name."""

    sets: Sequence[Known]
    patience: Patience
    on_step: OnStep | None
    done: dict[str, Applied] = Factory(dict)

    def run(self, one: Known, connection: Connection, *, autocommit: bool) -> None:
        run(one, {"connection": connection}, target="head", autocommit=autocommit, on_step=self._note)

    def _note(self, step: Applied) -> None:
        before = self.done.get(step.name)
        self.done[step.name] = step if before is None else evolve(step, from_revision=before.from_revision)
        if self.on_step is not None:
            self.on_step(step)


def _within(connection: Connection, job: _Job) -> None:
    """In the caller's transaction, which is begun if it was not: outside one, alembic would commit its own."""
    if connection.dialect.name == "sqlite":
        begin_immediate(connection)
    else:
        if not connection.in_transaction():
            connection.begin()
        if _behind(_read(connection), job.sets):
            # To the end of the caller's transaction: nobody may create what it has created and not committed yet.
            take(connection, job.patience)
    for one in _behind(_read(connection), job.sets):
        job.run(one, connection, autocommit=False)


def _on_postgresql(engine: Engine, job: _Job) -> None:
    with engine.connect() as connection:
        if not _behind(_read(connection), job.sets):
            return
    with guard(engine, job.patience), engine.connect() as plain:
        connection = plain.execution_options(isolation_level="READ COMMITTED")
        event.listen(connection, "begin", lambda begun: limit_lock_waits(begun, job.patience))
        behind = _behind(_read(connection), job.sets)
        connection.rollback()  # alembic begins its own transactions, one for each revision
        for one in behind:
            _patiently(one, connection, job)


def _patiently(one: Known, connection: Connection, job: _Job) -> None:
    """Run a set. When a table's lock does not come, step back and try again; alembic goes on where it was."""
    while True:
        try:
            job.run(one, connection, autocommit=True)
            return
        except StoreError as error:
            if error.sqlstate not in _STEP_BACK:
                raise
            connection.rollback()
            if not job.patience.left():
                raise MigrationTimeout(
                    f"a migration of {one.name} waited {job.patience.seconds:g} s for a table that other sessions use, "
                    f"and changed nothing. {_WAY_OUT}",
                    sqlstate=error.sqlstate,
                ) from None
        job.patience.pause(1.0)  # those who queued behind us have the table meanwhile


def _on_sqlite(engine: Engine, job: _Job) -> None:
    while True:
        try:
            with engine.connect() as connection, prepare_file(connection):
                _within(connection, job)
                connection.commit()
            return
        except (DBAPIError, sqlite3.Error) as error:
            job.done.clear()
            if not is_busy(error):
                raise (translate_driver_error(error) if isinstance(error, sqlite3.Error) else None) or error from None
            if not job.patience.left():
                raise MigrationTimeout(
                    f"another process has been writing to the database file for {job.patience.seconds:g} s: "
                    "wait for it or stop it, then run `sendoff migrate` again"
                ) from None
        job.patience.pause(POLL)
