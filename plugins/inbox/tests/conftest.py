"""An inbox on each database, its table made by the plugin's own revision."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from plugins.inbox.tests.helpers import Feed, context_for
from plugins.inbox.tests.listening import no_listener_left
from sendoff.store.engine import make_engine
from sendoff_inbox.plugin import InboxChannel


def upgrade(connection: sa.Connection) -> None:
    revision = importlib.import_module("sendoff_inbox.migrations.r0001_inbox")
    with Operations.context(MigrationContext.configure(connection)):
        revision.upgrade()


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[sa.Engine]:
    engine = make_engine(empty_database_url)
    with engine.begin() as connection:
        upgrade(connection)
    yield engine
    engine.dispose()


@pytest.fixture
def channel(engine: sa.Engine) -> InboxChannel:
    return InboxChannel("inbox", context_for(lambda: engine))


@pytest.fixture
def database(database_url: str) -> Iterator[sa.Engine]:
    """A whole sendoff database, as the feed needs it: deleting looks at the outgoing rows."""
    engine = make_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def worker(database: sa.Engine) -> InboxChannel:
    """What writes entries into that database."""
    return InboxChannel("inbox", context_for(lambda: database))


@pytest.fixture
def feed(database: sa.Engine) -> Feed:
    """The feed of u1, each call in a transaction of its own."""
    return Feed(database, "u1")


@pytest.fixture
def listeners() -> Iterator[None]:
    """Every test closes its listeners, and then nothing of them is left."""
    yield
    no_listener_left()
