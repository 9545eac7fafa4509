"""Rows for tests of the store: made, looked at, and aged, on either database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from attrs import evolve

from sendoff.enqueue import new_id
from sendoff.policy import Transition
from sendoff.store import Store, make_engine
from sendoff.store.claim import LANES, Claimed, ClaimRequest, Positions
from sendoff.store.connections import SqlAlchemyExecutor
from sendoff.store.insert import Existing, NewRow, insert_rows
from sendoff.store.settle import Settle, Settled
from sendoff.store.sql import db_now, plus
from sendoff.tables import event, outgoing
from sendoff.types import UtcTime
from sendoff.verdict import Sent

EMAIL = "email"
#: Longer than any test takes.
LEASE = 600.0


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """A store on a database, its connections closed at the end."""
    engine = make_engine(url)
    try:
        yield Store(engine)
    finally:
        engine.dispose()


def new_row(**changes: Any) -> NewRow:
    """A row for channel ``email`` that is due at once."""
    row = NewRow(id=new_id(), notification_id=new_id(), channel=EMAIL, recipient="u1", type="order", payload={"n": 1})
    return evolve(row, **changes)


def put(store: Store, *rows: NewRow) -> dict[int, Existing]:
    """Insert rows in a transaction of their own; the duplicates among them."""
    return store.run(lambda connection: insert_rows(SqlAlchemyExecutor(connection), rows))


def put_one(store: Store, **changes: Any) -> UUID:
    """Insert one row; its id."""
    row = new_row(**changes)
    assert put(store, row) == {}
    return row.id


def claim(store: Store, limit: int = 100, *, channel: str = EMAIL, by: str = "worker", **changes: Any) -> list[Claimed]:
    """Lease due rows."""
    wanted: dict[str, Any] = {"lanes": LANES, "lease": LEASE, **changes}
    return store.claim(ClaimRequest(channel=channel, limit=limit, claimed_by=by, **wanted))


def claim_one(store: Store, **changes: Any) -> Claimed:
    """Lease the one row that is due."""
    [row] = claim(store, **changes)
    return row


def verdict(row: Claimed, transition: Transition | None = None) -> Settle:
    """What a worker would write for a row it holds; ``sent`` when nothing else is said."""
    return Settle(row.id, row.claim_count, row.requeue_count, transition or Transition.sent(Sent()))


def settle(store: Store, row: Claimed, transition: Transition | None = None) -> Settled:
    """Write one verdict."""
    [answer] = store.settle([verdict(row, transition)])
    return answer


def load(store: Store, id: UUID) -> dict[str, Any]:
    """All columns of a row."""
    found = store.read(lambda connection: connection.execute(sa.select(outgoing).where(outgoing.c.id == id)).one())
    return dict(found._mapping)


def look(store: Store, id: UUID, *names: str) -> tuple[Any, ...]:
    """Some columns of a row."""
    row = load(store, id)
    return tuple(row[name] for name in names)


def ids(store: Store) -> set[UUID]:
    """Every row there is."""
    return set(store.read(lambda connection: connection.scalars(sa.select(outgoing.c.id)).all()))


def events(store: Store, id: UUID) -> list[tuple[str, Any]]:
    """The row's events: kind and detail, oldest first."""
    chosen = sa.select(event.c.kind, event.c.detail).where(event.c.outgoing_id == id).order_by(event.c.id)
    return [(kind, detail) for kind, detail in store.read(lambda connection: connection.execute(chosen).all())]


def kinds(store: Store, id: UUID) -> list[str]:
    """The kinds of the row's events, oldest first."""
    return [kind for kind, _ in events(store, id)]


def change(store: Store, id: UUID, **values: Any) -> None:
    """Set columns of a row as no statement of the store would."""
    store.run(lambda connection: connection.execute(outgoing.update().where(outgoing.c.id == id).values(**values)))


def pass_time(store: Store, seconds: float, *ids: UUID) -> None:
    """Let time pass for these rows (all, when none is named): every moment of theirs lies so much further back."""
    moments = {column.name: plus(column, -seconds) for column in outgoing.c if isinstance(column.type, UtcTime)}
    chosen = outgoing.update().values(**moments)
    store.run(lambda connection: connection.execute(chosen.where(outgoing.c.id.in_(ids)) if ids else chosen))


def end_leases(store: Store, *ids: UUID) -> None:
    """Let the leases of these rows run out."""
    pass_time(store, LEASE + 1, *ids)


def now(store: Store) -> Any:
    """The database's clock."""
    return store.read(lambda connection: connection.scalar(sa.select(db_now())))


__all__ = [
    "EMAIL",
    "LEASE",
    "Positions",
    "change",
    "claim",
    "claim_one",
    "end_leases",
    "events",
    "ids",
    "kinds",
    "load",
    "look",
    "new_row",
    "now",
    "opened",
    "pass_time",
    "put",
    "put_one",
    "settle",
    "verdict",
]
