"""The core's alembic environment and revisions, and what revisions of plugins may use.

A revision never changes once released; its number is its place in the history, counted from 1. Revisions only expand
the schema, so that workers of the version before keep running while the new ones start. One that does take something
away (a column nobody has used for two releases) says so with a module attribute: ``compatible_from = 7`` means that
code which knows 7 or more revisions still works afterwards. Without it a revision is compatible with all before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["create_index"]


def create_index(name: str, table: str, columns: Sequence[Any], **options: Any) -> None:
    """In a revision, build an index without keeping writers out, where the database and the transaction allow it.

    On PostgreSQL this is CREATE INDEX CONCURRENTLY, which runs outside a transaction: what the revision did before is
    committed first, and a failure makes all of it run again. So give such an index a revision of its own. What a
    failed attempt left behind (an index marked invalid) is dropped first. On SQLite, and in a transaction of the
    caller's, it is an ordinary CREATE INDEX.

    :param options: as for ``alembic.op.create_index``: ``unique``, ``postgresql_where``, ``sqlite_where``, ...
    """
    from alembic import op

    context = op.get_context()
    if context.config is None or not context.config.attributes.get("autocommit"):
        op.create_index(name, table, columns, **options)
        return
    with context.autocommit_block():
        op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)
        op.create_index(name, table, columns, postgresql_concurrently=True, **options)
