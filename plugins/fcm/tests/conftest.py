"""A local FCM, and the table of devices on each database, made by the plugin's own revision."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from sendoff.store.engine import make_engine
from sendoff_fcm.testing import LocalFCM


def upgrade(connection: sa.Connection) -> None:
    revision = importlib.import_module("sendoff_fcm.migrations.r0001_device")
    with Operations.context(MigrationContext.configure(connection)):
        revision.upgrade()


def _engine(url: str) -> Iterator[sa.Engine]:
    engine = make_engine(url)
    with engine.begin() as connection:
        upgrade(connection)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[sa.Engine]:
    """The table on either database, in turn."""
    yield from _engine(empty_database_url)


@pytest.fixture
def sqlite_engine(empty_sqlite_url: str) -> Iterator[sa.Engine]:
    yield from _engine(empty_sqlite_url)


@pytest.fixture
def fcm() -> Iterator[LocalFCM]:
    with LocalFCM() as server:
        yield server
