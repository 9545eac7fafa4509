"""One alembic run for one set of migrations, without an alembic.ini; and the row of ``sendoff_schema`` it leaves.

:mod:`sendoff.migrate` decides which sets run, on which connection, and who waits for whom.
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from attrs import field, frozen
from sqlalchemy.exc import DBAPIError

from sendoff.errors import PluginBroken, SendoffError, StoreError, StoreUnavailable
from sendoff.plugin import Migrations
from sendoff.store.engine import translate_driver_error

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["SCHEMA", "Applied", "Known", "OnStep", "known", "run"]

#: What each set has reached: see :mod:`sendoff.migrate`. Revision 0001 of the core creates it.
SCHEMA = sa.table("sendoff_schema", sa.column("name"), sa.column("revision_no"), sa.column("compatible_from"))

#: sendoff_<name>_version has to fit into the 63 bytes of an identifier.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,46}")
#: What alembic takes for a revision: see Script._from_path.
_REVISION_FILE = re.compile(r"(?!\.#|__init__).*\.py")

# Alembic keeps the run that `op` and `context` speak to in module globals, so one run at a time in a process.
_alembic = threading.Lock()


@frozen
class Applied:
    """What happened to one set: its revision before (None: there was none) and its revision now."""

    name: str
    from_revision: str | None
    to_revision: str


OnStep = Callable[[Applied], None]


@frozen
class Known:
    """A set of migrations as this installation has it. ``number`` counts its revisions."""

    name: str
    number: int
    folders: Sequence[Path]
    tables: frozenset[str] = field(repr=False)

    @property
    def version_table(self) -> str:
        return f"sendoff_{self.name}_version"


def known(sets: Sequence[Migrations]) -> list[Known]:
    """Find the revision files of each set. They are counted, not run: a worker does this at every start.

    :raises PluginBroken: a package is missing or holds no revisions, or a name is unusable or taken twice.
    """
    found: dict[str, Known] = {}
    for each in sets:
        if not _NAME.fullmatch(each.name):
            raise PluginBroken(
                f"migrations named {each.name!r}: a name has at most 47 lower-case letters, digits and underscores",
                plugin=each.name,
            )
        if each.name in found:
            raise PluginBroken(f"two plugins have migrations named {each.name!r}", plugin=each.name)
        folders = _folders(each)
        number = sum(1 for folder in folders for file in folder.iterdir() if _REVISION_FILE.fullmatch(file.name))
        if number == 0:
            raise PluginBroken(f"the migrations of {each.name!r}: {each.package!r} holds no revision", plugin=each.name)
        tables = frozenset(each.metadata.tables) if each.metadata is not None else frozenset()
        found[each.name] = Known(each.name, number, folders, tables)
    return list(found.values())


def run(
    one: Known, configure: Mapping[str, Any], *, target: str, autocommit: bool, on_step: OnStep | None = None
) -> None:
    """Run the revisions up to ``target`` (``head``, or ``since:head`` for a script).

    :param configure: for alembic's ``EnvironmentContext.configure``: a connection, or a dialect and an output buffer.
    :param autocommit: whether a revision may leave its transaction, as CREATE INDEX CONCURRENTLY must.
    :raises PluginBroken: the files are not a linear history of alembic revisions.
    :raises StoreError: the database refused a statement.
    """
    from alembic import command  # a third of a second that a worker's start does not pay

    def applied(*, ctx: Any, step: Any, **_: Any) -> None:
        _record(one, ctx, step.up_revision_id)
        if on_step is not None:
            before = step.source_revision_ids
            on_step(Applied(one.name, before[0] if before else None, step.up_revision_id))

    options = {
        "version_table": one.version_table,
        "transaction_per_migration": True,
        "include_name": lambda name, type_, _parents: type_ != "table" or name in one.tables,
        "on_version_apply": applied,
        **configure,
    }
    with _alembic, _failures(one.name):
        command.upgrade(_config(one, {"configure": options, "autocommit": autocommit}), target, sql=":" in target)


def _config(one: Known, attributes: dict[str, Any]) -> Config:
    from alembic.config import Config

    config = Config(attributes=attributes)
    # Folders instead of "package:" resources, which a path_separator of ":" would tear apart without a word; a newline
    # separates, since a folder's name may have every other character. Percent signs are configparser's.
    config.set_main_option("path_separator", "newline")
    config.set_main_option("script_location", _escaped(Path(__file__).parent))
    config.set_main_option("version_locations", "\n".join(map(_escaped, one.folders)))
    return config


def _escaped(folder: Path) -> str:
    return str(folder).replace("%", "%%")


def _folders(each: Migrations) -> list[Path]:
    try:
        spec = importlib.util.find_spec(each.package)
    except Exception as error:  # noqa: BLE001  # importing a plugin's package runs its code, which may raise anything
        problem = f"cannot be imported ({type(error).__name__}: {error})"
    else:
        if spec is not None and spec.submodule_search_locations:
            return [Path(folder).absolute() for folder in spec.submodule_search_locations]
        problem = "does not exist" if spec is None else "is a module, not a package"
    raise PluginBroken(
        f"the migrations of {each.name!r}: the package {each.package!r} {problem}; it holds the plugin's alembic "
        "revision files and is part of its wheel",
        plugin=each.name,
    )


def _record(one: Known, context: Any, revision: str) -> None:
    """Write the set's row of ``sendoff_schema``, in the transaction of the revision that was just applied."""
    history = list(context.script.iterate_revisions(revision, "base"))
    compatible_from = max(int(getattr(each.module, "compatible_from", 1)) for each in history)
    # Not an upsert: so it is one text for both dialects. Literals, because it may become part of a script.
    name: sa.ColumnElement[str] = sa.literal_column(f"'{one.name}'")
    context.execute(SCHEMA.delete().where(SCHEMA.c.name == name))
    values = {"revision_no": len(history), "compatible_from": compatible_from}
    context.execute(
        SCHEMA.insert().values({"name": name} | {key: sa.literal_column(str(value)) for key, value in values.items()})
    )


@contextmanager
def _failures(name: str) -> Iterator[None]:
    """Errors of alembic and of the driver as errors of ours."""
    from alembic.util import CommandError

    try:
        yield
    except CommandError as error:
        raise PluginBroken(f"the migrations of {name!r} cannot run: {error}", plugin=name) from error
    except SendoffError:
        raise
    except DBAPIError as error:
        failure = translate_driver_error(error.orig) if error.orig is not None else None
        if failure is None or isinstance(failure, StoreUnavailable):
            raise (failure or StoreError(f"a migration of {name!r} failed")) from None
        said = _said(error.orig)
        raise StoreError(
            f"a migration of {name!r} failed: {said or failure}",
            sqlstate=failure.sqlstate,
            constraint=failure.constraint,
        ) from None
    except Exception as error:  # a revision is code of a plugin's, which may raise anything when loaded or run
        raise PluginBroken(
            f"the migrations of {name!r} cannot run: {type(error).__name__}: {error}", plugin=name
        ) from error


def _said(original: BaseException | None) -> str | None:
    """The database's own words where they can only be about the schema, as in "permission denied for schema public"."""
    if getattr(original, "sqlite_errorname", None) == "SQLITE_ERROR":
        return str(original)
    # Class 42 is "syntax error or access rule violation"; the messages of others may quote a row.
    if (getattr(original, "sqlstate", None) or "").startswith("42"):
        return getattr(getattr(original, "diag", None), "message_primary", None)
    return None
