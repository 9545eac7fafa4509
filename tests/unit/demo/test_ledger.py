"""What the outgoing table is taken to say: which tries ended in doubt, who holds which lease, how far it is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from sendoff import Sendoff
from sendoff.demo.ledger import arrived, held_leases, read_rows, watch
from sendoff.tables import event, fetcher, outgoing, worker

NOW = datetime.now(UTC)
HERE = socket.gethostname()


@pytest.fixture
def so(sqlite_url: str) -> Iterator[Sendoff]:
    with Sendoff(sqlite_url) as so:
        yield so


def add(so: Sendoff, *events: tuple[str, dict[str, Any] | None], **values: Any) -> str:
    """A row, and its events as (kind, detail); its id."""
    id = uuid4()
    row = {
        "notification_id": uuid4(),
        "channel": "email",
        "recipient": "C-1",
        "type": "order.shipped",
        "payload": {},
        "status": "sent",
        "verdict": "sent",
        "dedup_key": "order:SO-1:shipped",
        "created_at": NOW,
        **values,
    }
    with so.engine.begin() as connection:
        connection.execute(outgoing.insert().values(id=id, **row))
        for kind, detail in events:
            connection.execute(event.insert().values(at=NOW, outgoing_id=id, kind=kind, detail=detail))
    return str(id)


@pytest.mark.parametrize(
    ("events", "values", "doubts", "calls"),
    [
        ([("sent", None)], {"try_count": 1, "claim_count": 1}, 0, 1),
        # Two leases were lost with their worker, one was given back.
        ([("released", None), ("sent", None)], {"try_count": 1, "claim_count": 4}, 2, 3),
        ([("retry", {"reason": "451"}), ("sent", None)], {"try_count": 2, "claim_count": 2}, 0, 2),
        # Nobody waited for an answer: the channel may have it, and was called once for it.
        ([("retry", {"details": {"maybe_sent": True}}), ("sent", None)], {"try_count": 2, "claim_count": 2}, 1, 2),
        # A worker settled it whose lease was over.
        ([("sent", None)], {"try_count": 1, "claim_count": 2}, 1, 2),
        (
            [("no_target", None)],
            {"try_count": 1, "claim_count": 1, "verdict": "no_target", "reason": "no address"},
            0,
            0,
        ),
        ([("dead", None)], {"try_count": 1, "claim_count": 1, "verdict": "no_target", "reason": "malformed"}, 0, 1),
    ],
)
def test_doubts_and_calls(
    so: Sendoff, events: list[tuple[str, dict[str, Any] | None]], values: dict[str, Any], doubts: int, calls: int
) -> None:
    id = add(so, *events, **values)
    with so.store.reading() as connection:
        [row] = read_rows(connection)
    assert (row.id, row.order, row.tries) == (id, "SO-1", values["try_count"])
    assert (row.doubts, row.calls) == (doubts, calls)


def test_other_peoples_rows_are_not_the_demos(so: Sendoff) -> None:
    add(so, dedup_key=None)
    add(so, dedup_key="order:17:shipped")
    with so.store.reading() as connection:
        assert list(read_rows(connection)) == []
    assert watch(so.store, "orders").finished == 0


def test_a_lease_is_held_while_the_row_is_pending_and_its_time_has_not_come(so: Sendoff) -> None:
    later, before = NOW + timedelta(days=1), NOW - timedelta(seconds=1)
    held = add(so, status="pending", claimed_by=f"{HERE}:17:abc", claimed_until=later)
    others: list[dict[str, Any]] = [
        {"status": "pending", "claimed_by": f"{HERE}:17:abc", "claimed_until": before},
        {"status": "pending", "claimed_by": f"{HERE}:17:abc", "claimed_until": None},
        {"status": "pending", "claimed_by": f"{HERE}:170:abc", "claimed_until": later},
        {"status": "pending", "claimed_by": "elsewhere:17:abc", "claimed_until": later},
        {"status": "sent", "claimed_by": f"{HERE}:17:abc", "claimed_until": None},
    ]
    for number, values in enumerate(others):
        add(so, dedup_key=f"order:SO-{number + 2}:shipped", **values)
    assert held_leases(so.store, 17) == [held]


def test_looking_waits_for_no_writer(so: Sendoff) -> None:
    """A frozen worker may hold SQLite's write lock for as long as the look takes."""
    add(so)
    with so.store.transaction() as connection:
        connection.execute(outgoing.update().values(recipient="C-2"))
        assert watch(so.store, "orders").finished == 1
        assert held_leases(so.store, 17) == []


def test_how_far_it_is(so: Sendoff) -> None:
    for number, status in enumerate(["sent", "dead", "pending", "waiting"]):
        add(so, dedup_key=f"order:SO-{number}:shipped", status=status)
    assert watch(so.store, "orders").fetched_at is None
    with so.engine.begin() as connection:
        connection.execute(fetcher.insert().values(name="orders", last_finished_at=NOW, failures=0))
    look = watch(so.store, "orders")
    assert (look.final, look.open, look.finished) == ({"email": 2}, 2, 2)
    assert look.fetched_at == NOW
    with so.engine.begin() as connection:
        connection.execute(fetcher.update().values(failures=2, last_error="ValueError: no"))
    look = watch(so.store, "orders")
    assert (look.fetched_at, look.fetch_failures, look.fetch_error) == (None, 2, "ValueError: no")


def test_who_has_begun_to_serve(so: Sendoff) -> None:
    with so.engine.begin() as connection:
        for host, pid in ((HERE, 17), ("elsewhere", 18)):
            connection.execute(worker.insert().values(id=uuid4(), host=host, pid=pid, started_at=NOW, seen_at=NOW))
    assert arrived(so.store) == {17}
