"""The third source: the outgoing table and its events. Also what the demo has to know of it while it runs.

Everything here only reads, also by what it tells the database: on SQLite a frozen worker may hold the write lock, and
whoever waited for it would wait until the worker is thawed.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

import sqlalchemy as sa
from attrs import frozen
from sqlalchemy import Connection

from sendoff.demo.facts import Row
from sendoff.store import Store
from sendoff.store.sql import db_now
from sendoff.tables import event, fetcher, outgoing, worker

__all__ = ["KEYS", "Progress", "arrived", "held_leases", "read_rows", "watch"]

#: The example's dedup keys: ``order:SO-10017:shipped``.
KEYS = "order:SO-%"
OURS = outgoing.c.dedup_key.like(KEYS)
OPEN = ("pending", "waiting")


def read_rows(connection: Connection) -> Iterator[Row]:
    """Every row of the demo."""
    given_back, maybe_sent = _events(connection)
    columns = (
        outgoing.c.id,
        outgoing.c.dedup_key,
        outgoing.c.channel,
        outgoing.c.recipient,
        outgoing.c.status,
        outgoing.c.verdict,
        outgoing.c.reason,
        outgoing.c.try_count,
        outgoing.c.claim_count,
        outgoing.c.attempt_count,
    )
    for row in connection.execute(sa.select(*columns).where(OURS).order_by(outgoing.c.id)):
        id = str(row.id)
        lost = max(0, row.claim_count - row.try_count - given_back[id])
        # The core's own words for a row that its channel never saw.
        uncalled = row.verdict == "no_target" and row.reason == "no address"
        yield Row(
            id=id,
            order=row.dedup_key.split(":")[1],
            channel=row.channel,
            recipient=row.recipient,
            status=row.status,
            verdict=row.verdict,
            tries=row.try_count,
            doubts=lost + maybe_sent[id],
            calls=0 if uncalled else row.try_count + lost,
            counted=row.attempt_count,
        )


def _events(connection: Connection) -> tuple[Counter[str], Counter[str]]:
    """By row: leases given back without a try, and verdicts that say it may have been sent all the same."""
    given_back: Counter[str] = Counter()
    maybe_sent: Counter[str] = Counter()
    kinds = ("released", "deferred", "retry", "dead")
    found = sa.select(event.c.outgoing_id, event.c.kind, event.c.detail).where(event.c.kind.in_(kinds))
    for outgoing_id, kind, detail in connection.execute(found):
        if kind in {"released", "deferred"}:
            given_back[str(outgoing_id)] += 1
        elif ((detail or {}).get("details") or {}).get("maybe_sent"):
            maybe_sent[str(outgoing_id)] += 1
    return given_back, maybe_sent


@frozen
class Progress:
    """How far it is."""

    #: Final rows by channel.
    final: Mapping[str, int]
    open: int
    #: When the fetcher's last good run ended; a bad one since then makes it None.
    fetched_at: datetime | None
    fetch_failures: int
    fetch_error: str | None

    @property
    def finished(self) -> int:
        """Final rows of all channels."""
        return sum(self.final.values())


def watch(store: Store, name: str) -> Progress:
    """One look at the outgoing table and at the fetcher ``name``."""
    counted = sa.select(outgoing.c.channel, outgoing.c.status, sa.func.count()).where(OURS)
    final: Counter[str] = Counter()
    still_open = 0
    fetched = sa.select(fetcher.c.last_finished_at, fetcher.c.failures, fetcher.c.last_error)
    with store.reading() as connection:
        # First the fetcher: what it committed before its last run ended is then among the rows.
        ended = connection.execute(fetched.where(fetcher.c.name == name)).one_or_none()
        for channel, status, count in connection.execute(counted.group_by(outgoing.c.channel, outgoing.c.status)):
            if status in OPEN:
                still_open += count
            else:
                final[channel] += count
    if ended is None:
        return Progress(final, still_open, None, 0, None)
    finished_at, failures, error = ended
    return Progress(final, still_open, None if failures else finished_at, failures, error)


def held_leases(store: Store, pid: int) -> list[str]:
    """The ids of the rows that the worker with this process id has leased at this moment, by the database's clock."""
    leased = sa.select(outgoing.c.id).where(
        OURS,
        outgoing.c.status == "pending",
        # A worker writes host:pid:id there.
        outgoing.c.claimed_by.startswith(f"{socket.gethostname()}:{pid}:", autoescape=True),
        outgoing.c.claimed_until > db_now(),
    )
    with store.reading() as connection:
        return [str(id) for id in connection.scalars(leased)]


def arrived(store: Store) -> set[int]:
    """The process ids of the workers on this machine that have begun to serve; until then they know no SIGTERM."""
    with store.reading() as connection:
        return set(connection.scalars(sa.select(worker.c.pid).where(worker.c.host == socket.gethostname())))
