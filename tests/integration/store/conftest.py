"""Every test of the store runs on both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sendoff.store import Store
from tests.support.rows import opened


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """The store on a migrated database of this test's own."""
    with opened(database_url) as store:
        yield store
