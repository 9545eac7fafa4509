"""The one store: every call of the engine to its database, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from sendoff.errors import StoreError, StoreUnavailable
from sendoff.jsonsafe import dumps
from sendoff.policy import Transition
from sendoff.store.claim import Claimed, ClaimRequest, claim_postgresql, claim_sqlite
from sendoff.store.engine import store_errors
from sendoff.store.settle import Settle, Settled, settle_postgresql, settle_sqlite

__all__ = ["Store"]

T = TypeVar("T")
#: What one odd verdict may cause: the database refuses it, or it cannot be written as JSON at all.
_REFUSED = (StoreError, TypeError, ValueError, RecursionError)

_HELD_POSTGRESQL = sa.text("""
SELECT o.id FROM sendoff_outgoing o
JOIN json_to_recordset(CAST(:rows AS json)) AS i(id uuid, claim_count int)
  ON i.id = o.id AND i.claim_count = o.claim_count
WHERE (o.status || '') = 'pending' AND o.claimed_until IS NOT NULL
""")
_HELD_SQLITE = sa.text("""
SELECT o.id FROM json_each(:rows) AS i
JOIN sendoff_outgoing o ON o.id = json_extract(i.value, '$.id')
  AND o.claim_count = json_extract(i.value, '$.claim_count')
WHERE o.status = 'pending' AND o.claimed_until IS NOT NULL
""")


class Store:
    """Synchronous; one thread may use one call at a time, many threads the store. Raises
    :class:`~sendoff.errors.StoreError` only, with SQLSTATE and constraint and never a driver's text."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_postgresql = engine.dialect.name == "postgresql"
        self._autocommit = engine.execution_options(isolation_level="AUTOCOMMIT") if self.is_postgresql else engine

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction of the store's own."""
        with store_errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def _statement(self) -> Iterator[Connection]:
        """One statement: autocommit on PostgreSQL (a round trip less each way), BEGIN IMMEDIATE on SQLite."""
        with store_errors(), self._autocommit.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only connection: for reports, address look-ups and fetchers."""
        if self.is_postgresql:
            options = {"postgresql_readonly": True}
        else:
            options = {"sendoff_read_only": True}
        with store_errors(), self.engine.connect().execution_options(**options) as connection:
            if not self.is_postgresql:
                connection.exec_driver_sql("PRAGMA query_only = ON")
            try:
                yield connection
            finally:
                if not connection.invalidated and not connection.closed:
                    connection.rollback()
                    if not self.is_postgresql:
                        connection.exec_driver_sql("PRAGMA query_only = OFF")

    def run(self, work: Callable[[Connection], T]) -> T:
        """``work`` in a transaction of its own."""
        with self.transaction() as connection:
            return work(connection)

    def read(self, work: Callable[[Connection], T]) -> T:
        """``work`` on a read-only connection."""
        with self.reading() as connection:
            return work(connection)

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        """Lease up to ``request.limit`` due rows."""
        with self._statement() as connection:
            return (claim_postgresql if self.is_postgresql else claim_sqlite)(connection, request)

    def still_held(self, rows: Sequence[Claimed]) -> set[UUID]:
        """Which of these leases nobody has settled, cancelled or taken meanwhile."""
        records = dumps([{"id": row.id, "claim_count": row.claim_count} for row in rows])
        with self.reading() as connection:
            found = connection.execute(_HELD_POSTGRESQL if self.is_postgresql else _HELD_SQLITE, {"rows": records})
            return {id if isinstance(id, UUID) else UUID(id) for (id,) in found}

    def settle(self, verdicts: Sequence[Settle]) -> list[Settled]:
        """Write verdicts, in the order given; two for one row go in two statements. A batch that the database refuses
        is written row by row, and a row that it refuses again without what a channel added to it."""
        answers: list[Settled] = []
        for batch in _without_repeats(verdicts):
            try:
                answers += self._settle(batch)
            except StoreUnavailable:
                raise
            except _REFUSED as error:
                answers += [self._settle_alone(verdict, error) for verdict in batch]
        return answers

    def _settle(self, batch: Sequence[Settle]) -> list[Settled]:
        with self._statement() as connection:
            return (settle_postgresql if self.is_postgresql else settle_sqlite)(connection, batch)

    def _settle_alone(self, verdict: Settle, refused: Exception) -> Settled:
        try:
            return self._settle([verdict])[0]
        except StoreUnavailable:
            raise
        except _REFUSED:
            return self._settle([_bare(verdict, refused)])[0]


def _without_repeats(verdicts: Sequence[Settle]) -> Iterator[list[Settle]]:
    """The verdicts in runs in which no id stands twice."""
    batch: dict[UUID, Settle] = {}
    for verdict in verdicts:
        if verdict.id in batch:
            yield list(batch.values())
            batch = {}
        batch[verdict.id] = verdict
    if batch:
        yield list(batch.values())


def _bare(verdict: Settle, refused: Exception) -> Settle:
    """The same transition without the texts that the database refused."""
    change = verdict.transition
    reason = (
        change.reason
        and f"the reason could not be stored ({getattr(refused, 'sqlstate', None) or type(refused).__name__})"
    )
    bare = Transition(
        kind=change.kind,
        status=change.status,
        verdict=change.verdict,
        reason=reason,
        delay=change.delay,
        moves_due=change.moves_due,
        counted=change.counted,
        tried=change.tried,
    )
    return Settle(verdict.id, verdict.claim_count, verdict.requeue_count, bare)
