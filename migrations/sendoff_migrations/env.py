"""What alembic runs for one set of migrations, the core's or a plugin's. :mod:`sendoff.migrate` says how."""

from __future__ import annotations

from alembic import context, util

_options = context.config.attributes.get("configure")
if _options is None:
    raise util.CommandError("this alembic environment is driven by sendoff: run `sendoff migrate`")

context.configure(**_options)
with context.begin_transaction():
    context.run_migrations()
