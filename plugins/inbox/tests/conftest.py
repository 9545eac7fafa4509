"""An inbox on each database, its table made by the plugin's own revision."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from plugins.inbox.tests.helpers import context_for
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
