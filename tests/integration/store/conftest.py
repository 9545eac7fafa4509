"""Every test of the store runs on both databases.

Making a database costs more than most of these tests. `store` is one database of each kind for all of them, emptied
before each; a test that changes the schema takes `fresh_store`, which is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sendoff.store import Store
from sendoff.tables import metadata
from tests.support.databases import SqliteDatabases
from tests.support.fixtures import POSTGRES, SQLITE, PostgresOf, other_servers
from tests.support.rows import opened


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        metafunc.parametrize("store", [SQLITE, POSTGRES, *other_servers()], indirect=True)


OpenStore = Callable[[str], Store]


@pytest.fixture(scope="session")
def shared_store(
    postgres_of: PostgresOf, sqlite_databases: SqliteDatabases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenStore]:
    """The one store of each kind, opened when the first test asks for it."""
    known: dict[str, Store] = {}
    with ExitStack() as stack:

        def of(kind: str) -> Store:
            if kind not in known:
                url = (
                    sqlite_databases.create(tmp_path_factory.mktemp("shared") / "sendoff.db")
                    if kind == SQLITE
                    else stack.enter_context(postgres_of(kind).database(migrated=True))
                )
                known[kind] = stack.enter_context(opened(url))
            return known[kind]

        yield of


@pytest.fixture
def store(request: pytest.FixtureRequest, shared_store: OpenStore) -> Store:
    """The store on an empty, migrated database: the test runs once on each kind."""
    store = shared_store(request.param)
    with store.transaction() as connection:
        for table in metadata.sorted_tables:
            connection.execute(table.delete())
    return store


@pytest.fixture
def fresh_store(database_url: str) -> Iterator[Store]:
    """The store on a migrated database of this test's own."""
    with opened(database_url) as store:
        yield store
