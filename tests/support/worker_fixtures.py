"""The fixture that starts worker processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Starts worker processes by fork; one for all tests."""
    with Nursery() as nursery:
        yield nursery
