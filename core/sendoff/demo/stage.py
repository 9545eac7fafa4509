"""Everything up to the first worker: the folder, the local FCM, the database, the tables, the shop's data."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from attrs import field, frozen
from sqlalchemy import Connection

from sendoff.app import Sendoff
from sendoff.demo.evidence import newest_entry
from sendoff.demo.ledger import KEYS, OPEN
from sendoff.demo.localfcm import LocalFcm, installed
from sendoff.demo.postgres import EmbeddedPostgres
from sendoff.demo.processes import DemoFailed, Guard
from sendoff.demo.settings import CHANNELS, FETCHER, PUSH, Places
from sendoff.settings import mask_url
from sendoff.store.engine import parse_url
from sendoff.tables import event, fetcher, outgoing

__all__ = ["Options", "Stage", "set_up", "shareable"]

EXAMPLE = "sendoff_example_orders"
#: Named by the settings, not found through an entry point: its tables are nowhere but in the demo's database.
EXAMPLE_PLUGIN = f"{EXAMPLE}.plugin"
MISSING_EXAMPLE = (
    "the demo delivers the orders of the example shop, which is not installed here: run `make demo` in a clone of the "
    "repository, or pip install its ./examples/orders"
)


@frozen(kw_only=True)
class Options:
    """What was said on the command line."""

    database_url: str | None = None
    postgres: bool = False
    #: Where everything goes, and stays; without one a temporary folder.
    directory: Path | None = None
    keep: bool = False
    workers: int = 2
    seed: int = 1
    #: Remove what an earlier demo left in the database.
    force: bool = False
    plugins: tuple[str, ...] = ()
    #: Folders where the workers find these plugins.
    plugin_paths: tuple[str, ...] = ()


@frozen
class Stage:
    """What the workers need, ready."""

    places: Places
    guard: Guard
    app: Sendoff
    database: str
    #: By the environment to the workers, where it is not in the settings file.
    secret_url: str | None = field(repr=False)
    #: The folder of customers.csv, orders.csv and devices.csv.
    data: Path
    #: What the example's loader says of the lines.
    loaded: Any
    #: The same of the devices, and who takes the pushes; None without a push channel.
    registered: Any
    fcm: LocalFcm | None
    #: The newest entry of the inbox that is not the demo's.
    newest_entry: UUID | None


@contextmanager
def set_up(options: Options) -> Iterator[Stage]:
    """Prepare; when the block ends, however it ends, the folder and the server go unless they were to be kept."""
    example = _example()
    with ExitStack() as stack:
        guard = Guard()
        stack.callback(guard.close)
        places = Places(stack.enter_context(_folder(options, guard)))
        # It starts while the database does.
        fcm = LocalFcm(places.folder, places.requests, places.credentials, guard) if installed() else None
        if fcm is not None:
            stack.callback(fcm.close)
        if options.postgres:
            url = stack.enter_context(EmbeddedPostgres(guard)).url
            database = "the embedded PostgreSQL"
        elif options.database_url is not None:
            url, database = shareable(options.database_url), mask_url(options.database_url)
        else:
            url, database = places.sqlite_url, "SQLite"
        in_file = None if options.postgres or options.database_url is not None else url
        endpoint = None if fcm is None else fcm.wait_until_it_listens()
        places.write(
            in_file,
            plugins=(EXAMPLE_PLUGIN, *options.plugins),
            seed=options.seed,
            workers=options.workers,
            push_endpoint=endpoint,
        )
        app = Sendoff(settings=places.settings(url))
        stack.callback(app.close)
        _check_plugins(app, options.plugins, push=fcm is not None)
        with app.store.reading() as connection:
            _check_database(connection, force=options.force)
        app.migrate()
        with app.store.transaction() as connection:
            if options.force:
                _forget_earlier_demo(connection)
            loaded = example.load(connection, example.DATA)
            registered = None if fcm is None else example.register_devices(connection, example.DATA)
            newest = newest_entry(connection)
        secret_url = None if in_file else url
        yield Stage(places, guard, app, database, secret_url, example.DATA, loaded, registered, fcm, newest)


def shareable(url: str) -> str:
    """The URL as it means the same database to the workers, which run in the demo's folder."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        return url
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
        raise DemoFailed("the demo's workers are processes of their own: give it a database file, sqlite:///demo.db")
    return parsed.set(database=str(Path(parsed.database).absolute())).render_as_string(hide_password=False)


class _Example:
    """The example package, found without the core depending on it."""

    def __init__(self) -> None:
        self.DATA: Path = importlib.import_module(EXAMPLE).DATA
        self.load: Any = importlib.import_module(f"{EXAMPLE}.load").load

    def register_devices(self, connection: Connection, folder: Path) -> Any:
        """Imported late: it needs the push channel."""
        return importlib.import_module(f"{EXAMPLE}.devices").register_devices(connection, folder)


def _example() -> _Example:
    if find_spec(EXAMPLE) is None:
        raise DemoFailed(MISSING_EXAMPLE)
    return _Example()


@contextmanager
def _folder(options: Options, guard: Guard) -> Iterator[Path]:
    if options.directory is not None:
        folder = options.directory.expanduser().absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise DemoFailed(f"{folder} is not empty; name a new folder, the demo counts every file in it")
        except OSError as error:
            raise DemoFailed(f"the folder {folder} cannot be used: {error.strerror}") from None
        yield folder
        return
    folder = Path(tempfile.mkdtemp(prefix="sendoff-demo-")).resolve()
    if options.keep:
        yield folder
        return
    guard.remove(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_plugins(app: Sendoff, named: Sequence[str], *, push: bool) -> None:
    broken = app.registry.broken
    for plugin in broken:
        if plugin.name in named:
            raise DemoFailed(f"the plugin {plugin.name} cannot be loaded: {plugin.error}")
    wanted = [*CHANNELS, PUSH] if push else CHANNELS
    missing = [name for name in wanted if name not in app.registry.channels]
    if FETCHER not in app.registry.fetchers:
        missing.append(FETCHER)
    if not missing:
        return
    if broken:
        errors = "; ".join(f"{plugin.name}: {plugin.error}" for plugin in broken)
        raise DemoFailed(f"nothing provides {', '.join(missing)}, and these plugins cannot be loaded: {errors}")
    if missing == [FETCHER]:
        raise DemoFailed(MISSING_EXAMPLE)
    raise DemoFailed(
        f"no installed plugin provides {', '.join(missing)}: pip install sendoff-inbox sendoff-email-stub "
        "sendoff-sms-stub" + (" sendoff-fcm" if PUSH in missing else "")
    )


def _check_database(connection: Connection, *, force: bool) -> None:
    """The demo delivers whatever is due into its own folder: it must not find anybody else's rows."""
    if not sa.inspect(connection).has_table(outgoing.name):
        return
    ours = outgoing.c.dedup_key.like(KEYS)
    others = sa.select(sa.func.count()).select_from(outgoing).where(ours.is_not(True), outgoing.c.status.in_(OPEN))
    waiting = connection.scalar(others) or 0
    if waiting:
        raise DemoFailed(
            f"this database has {waiting:,} {'row' if waiting == 1 else 'rows'} waiting to be delivered, and the demo "
            "would deliver them into its own folder. Give it a database of its own"
        )
    rows = connection.scalar(sa.select(sa.func.count()).select_from(outgoing)) or 0
    if rows and not force:
        raise DemoFailed(
            f"this database has {rows:,} sendoff rows already. Give the demo a database of its own, or --force to "
            "remove what an earlier demo left in it and leave the rest alone"
        )


def _forget_earlier_demo(connection: Connection) -> None:
    """Its rows, their events, what the inbox has of them, and the fetcher's cursor."""
    earlier = sa.select(outgoing.c.id).where(outgoing.c.dedup_key.like(KEYS)).scalar_subquery()
    inbox = sa.table("sendoff_inbox", sa.column("outgoing_id", outgoing.c.id.type))
    connection.execute(sa.delete(inbox).where(inbox.c.outgoing_id.in_(earlier)))
    connection.execute(sa.delete(event).where(event.c.outgoing_id.in_(earlier)))
    connection.execute(sa.delete(fetcher).where(fetcher.c.name == FETCHER))
    connection.execute(sa.delete(outgoing).where(outgoing.c.dedup_key.like(KEYS)))
