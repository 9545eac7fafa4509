"""Whatever happens to rows in whatever order: the store agrees with a model of a dozen lines."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from attrs import define
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sendoff.limits import Retry
from sendoff.policy import Facts, Policy, Transition, decide
from sendoff.store import Store
from sendoff.store.acts import RequeueFilter, cancel, requeue
from sendoff.store.claim import Claimed
from sendoff.tables import event, outgoing
from sendoff.verdict import NoTarget, Outage, Permanent, Retryable, Sent, Verdict
from tests.support.databases import SqliteDatabases
from tests.support.rows import LEASE, claim, new_row, opened, pass_time, put, verdict

RETRY = Retry(delays=(30.0, 120.0), jitter=0.0)
POLICY = Policy(RETRY, "sent")
VERDICTS: list[Verdict] = [
    Sent(),
    NoTarget("nobody"),
    Retryable("busy"),
    Retryable("503", counts=False),
    Permanent("no"),
    Outage("401"),
]
FINAL = {"sent", "dead", "cancelled"}


@define
class Model:
    """What a row should be. Moments are seconds on the model's own clock."""

    notification_id: UUID
    status: str = "pending"
    attempts: int = 0
    tries: int = 0
    claims: int = 0
    lost: int = 0
    requeues: int = 0
    due: float = 0.0
    leased_until: float | None = None
    cancelling: bool = False
    sent: bool = False

    def claimable(self, now: float) -> bool:
        if self.status != "pending":
            return False
        return now >= (self.due if self.leased_until is None else self.leased_until)

    def lease(self, now: float) -> None:
        self.lost += self.leased_until is not None
        self.claims += 1
        self.leased_until = now + LEASE

    def settle(self, row: Claimed, change: Transition, now: float) -> bool:
        """Whether the verdict was applied."""
        holds = self.leased_until is not None and self.claims == row.claim_count
        late = change.kind == "sent" and self.requeues == row.requeue_count
        if self.status != "pending" or not (holds or late):
            self.sent = self.sent or (late and self.status in FINAL)
            return False
        cancels = self.cancelling and change.verdict not in {"sent", "no_target"}
        self.status = "cancelled" if cancels else change.status
        self.attempts += change.counted
        self.tries += change.tried
        self.lost = 0
        self.leased_until = None
        self.sent = self.sent or change.kind == "sent"
        if change.delay is not None:
            self.due = now + change.delay
        return True


class LifeOfRows(RuleBasedStateMachine):
    """Enqueue, claim, settle, cancel, requeue and time, in any order."""

    open_store: Callable[[], tuple[Store, Callable[[], None]]]

    @initialize()
    def start(self) -> None:
        self.store, self.close = type(self).open_store()
        self.now = 0.0
        self.rows: dict[UUID, Model] = {}
        self.held: list[Claimed] = []

    def teardown(self) -> None:
        if hasattr(self, "close"):
            self.close()

    @rule(number=st.integers(1, 3))
    def enqueue(self, number: int) -> None:
        rows = [new_row(recipient=f"u{len(self.rows)}{one}", priority=one % 3) for one in range(number)]
        assert put(self.store, *rows) == {}
        self.rows |= {row.id: Model(row.notification_id, due=self.now) for row in rows}

    @rule(limit=st.integers(1, 4))
    def claim(self, limit: int) -> None:
        expected = {id for id, row in self.rows.items() if row.claimable(self.now)}
        found = claim(self.store, limit)
        assert len(found) == min(limit, len(expected))
        assert {row.id for row in found} <= expected
        for row in found:
            model = self.rows[row.id]
            model.lease(self.now)
            assert (model.claims, model.lost, model.attempts, model.tries, model.requeues, model.cancelling) == (
                row.claim_count,
                row.lost_leases,
                row.attempt_count,
                row.try_count,
                row.requeue_count,
                row.cancel_requested,
            )
        self.held += found

    @precondition(lambda self: self.held)
    @rule(data=st.data(), number=st.integers(1, 3), keep=st.booleans())
    def settle(self, data: st.DataObject, number: int, keep: bool) -> None:
        """Verdicts on leases that are held, also old ones; kept, they may be written again."""
        chosen = data.draw(
            st.lists(st.sampled_from(self.held), min_size=1, max_size=number, unique_by=lambda row: row.id)
        )
        changes = [self._decided(row, data.draw(st.sampled_from([*VERDICTS, None]))) for row in chosen]
        answers = self.store.settle([verdict(row, change) for row, change in zip(chosen, changes, strict=True)])
        for row, change, answer in zip(chosen, changes, answers, strict=True):
            applied = self.rows[row.id].settle(row, change, self.now)
            assert ("applied" if applied else "lost") == answer.outcome
        if not keep:
            self.held = [row for row in self.held if row not in chosen]

    def _decided(self, row: Claimed, given: Verdict | None) -> Transition:
        if given is None:
            return Transition.released("test")
        return decide(Facts(row.attempt_count, row.try_count, row.first_due_at), given, POLICY, row.first_due_at)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.rows)))
        model = self.rows[id]
        [told] = self.store.run(lambda connection: cancel(connection, model.notification_id))
        if model.status in FINAL:
            assert told.outcome == "final"
        elif model.leased_until is not None:
            assert told.outcome == "in_flight"
            model.cancelling = True
        else:
            assert told.outcome == "cancelled"
            model.status = "cancelled"

    @rule()
    def requeue(self) -> None:
        dead = {id for id, row in self.rows.items() if row.status == "dead"}
        assert dead == set(self.store.run(lambda connection: requeue(connection, RequeueFilter())))
        for id in dead:
            row = self.rows[id]
            self.rows[id] = Model(
                row.notification_id, claims=row.claims, requeues=row.requeues + 1, due=self.now, sent=row.sent
            )

    @rule(seconds=st.sampled_from([31.0, 121.0, LEASE + 1]))
    def wait(self, seconds: float) -> None:
        pass_time(self.store, seconds)
        self.now += seconds

    @invariant()
    def agrees(self) -> None:
        if not getattr(self, "rows", None):
            return
        row = outgoing.c
        columns: list[Any] = [row.id, row.status, row.attempt_count, row.try_count, row.claim_count, row.lost_leases]
        columns += [row.requeue_count, row.claimed_until.is_not(None), row.sent_at.is_not(None)]
        columns += [row.next_attempt_at.is_not(None), row.finished_at.is_not(None)]
        found = self.store.read(lambda connection: connection.execute(sa.select(*columns)).all())
        assert {
            id: (
                one.status,
                one.attempts,
                one.tries,
                one.claims,
                one.lost,
                one.requeues,
                one.leased_until is not None,
                one.sent,
                one.status == "pending",
                one.status in FINAL,
            )
            for id, one in self.rows.items()
        } == {one[0]: (*one[1:7], *map(bool, one[7:])) for one in found}
        assert all(one.attempts <= RETRY.attempts for one in self.rows.values())

    @invariant()
    def every_end_has_one_event(self) -> None:
        if not getattr(self, "rows", None):
            return
        ends = ["sent", "no_target", "dead", "cancelled"]
        counted = (
            sa.select(event.c.outgoing_id, sa.func.count()).where(event.c.kind.in_(ends)).group_by(event.c.outgoing_id)
        )
        found: dict[UUID, int] = dict(
            tuple(row) for row in self.store.read(lambda connection: connection.execute(counted).all())
        )
        for id, model in self.rows.items():
            assert found.get(id, 0) == model.requeues + (model.status in FINAL)


def run(open_store: Callable[[], tuple[Store, Callable[[], None]]], examples: int) -> None:
    machine = type("LifeOfRowsHere", (LifeOfRows,), {"open_store": staticmethod(open_store)})
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=checks),
    )


def test_the_life_of_rows_on_sqlite(sqlite_databases: SqliteDatabases) -> None:
    def open_store() -> tuple[Store, Callable[[], None]]:
        folder = Path(tempfile.mkdtemp())
        context = opened(sqlite_databases.create(folder / "sendoff.db"))
        store = context.__enter__()

        def close() -> None:
            context.__exit__(None, None, None)
            shutil.rmtree(folder)

        return store, close

    run(open_store, 20)


def test_the_life_of_rows_on_postgresql(postgres_url: str) -> None:
    with opened(postgres_url) as store:

        def open_store() -> tuple[Store, Callable[[], None]]:
            with store.transaction() as connection:
                connection.execute(outgoing.delete())
                connection.execute(event.delete())
            return store, lambda: None

        run(open_store, 6)
