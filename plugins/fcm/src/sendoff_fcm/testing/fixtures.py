"""``pytest_plugins = ["sendoff_fcm.testing.fixtures"]`` in an application's conftest.py; no async plugin needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sendoff_fcm.testing.local import LocalFCM

__all__ = ["local_fcm"]


@pytest.fixture
def local_fcm() -> Iterator[LocalFCM]:
    """A local FCM of its own for each test."""
    with LocalFCM() as fcm:
        yield fcm
