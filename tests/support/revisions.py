"""Plugins with migrations, written by tests: a package of revision files, and an engine that is closed again."""

from __future__ import annotations

import textwrap
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine

from sendoff.plugin import Migrations
from sendoff.store.engine import make_engine

REVISION = """
import sqlalchemy as sa
from alembic import op
revision = {revision!r}
down_revision = {down!r}
{extra}
def upgrade():
{body}
"""
#: The body of a first revision: a table for the plugin of this name.
CREATE = 'op.create_table("sendoff_{0}", sa.Column("id", sa.Integer(), primary_key=True), sa.Column("a", sa.Text()))'
ADD = 'op.add_column("sendoff_{0}", sa.Column("{1}", sa.Text()))'


def write_plugin(site: Path, name: str, *bodies: str, extra: Mapping[int, str] | None = None) -> Migrations:
    """Write a package of revisions below ``site``, which is on ``sys.path``: one for each body of ``upgrade()``.

    Called again with more or fewer bodies, it makes a newer or older version of the plugin. ``extra`` is, by a
    revision's number, more text of its module.
    """
    # Python remembers packages by name, and each test has its own.
    package = f"plugin_{zlib.crc32(str(site).encode())}_{name}"
    folder = site / package / "migrations"
    folder.mkdir(parents=True, exist_ok=True)
    for parent in (folder.parent, folder):
        (parent / "__init__.py").touch()
    for stale in folder.glob("0*.py"):
        stale.unlink()
    for number, body in enumerate(bodies, start=1):
        text = REVISION.format(
            revision=f"{number:04}",
            down=f"{number - 1:04}" if number > 1 else None,
            body=textwrap.indent(textwrap.dedent(body), "    "),
            extra=(extra or {}).get(number, ""),
        )
        # A file name for each text: Python's cache tells files of one name apart by size and second only.
        (folder / f"{number:04}_{zlib.crc32(text.encode())}.py").write_text(text)
    return Migrations(name=name, package=f"{package}.migrations")


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """An engine as the store makes it."""
    engine = make_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()
