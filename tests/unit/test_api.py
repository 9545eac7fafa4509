"""The public names: importable, documented, and what the design promises."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "api.md"
MODULES = ["sendoff", "sendoff.plugin"]


def exported(module: str) -> list[str]:
    names: list[str] = importlib.import_module(module).__all__
    return names


def documented(module: str) -> list[str]:
    """The names that docs/api.md heads below the module's own heading."""
    [section] = re.findall(
        rf"^## {re.escape(module)}$(.*?)(?=^## |\Z)", DOCS.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return re.findall(r"^### `(\w+)`$", section, re.MULTILINE)


@pytest.mark.parametrize("module", MODULES)
def test_every_exported_name_can_be_imported(module: str) -> None:
    imported = importlib.import_module(module)
    assert [] == [name for name in exported(module) if not hasattr(imported, name)]


@pytest.mark.parametrize("module", MODULES)
def test_the_names_are_listed_in_order_and_once(module: str) -> None:
    assert sorted(set(exported(module))) == sorted(exported(module))


@pytest.mark.parametrize("module", MODULES)
def test_the_documentation_heads_exactly_the_public_names(module: str) -> None:
    assert sorted(exported(module)) == sorted(documented(module))
    assert len(documented(module)) == len(set(documented(module)))


@pytest.mark.parametrize("module", MODULES)
def test_every_public_class_and_function_says_what_it_is(module: str) -> None:
    imported = importlib.import_module(module)
    silent = [
        name
        for name in exported(module)
        if callable(found := getattr(imported, name)) and name != "hookimpl" and not (found.__doc__ or "").strip()
    ]
    assert silent == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Sendof'"):
        importlib.import_module("sendoff").Sendof  # noqa: B018 - the access is the point


def test_importing_the_vocabulary_loads_no_database_library() -> None:
    """A process that only makes notifications starts quickly."""
    code = (
        "import sys; from sendoff import Notification, Sent, Secret; "
        "print([name for name in ('sqlalchemy', 'alembic', 'psycopg', 'click', 'rich') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
