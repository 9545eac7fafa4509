"""Whatever is done to feeds in whatever order: they are what a list in memory would be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from attrs import define
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from plugins.inbox.tests.helpers import Feed, context_for, delivery
from sendoff.plugin import Delivery, Sent
from sendoff.store.engine import make_engine
from sendoff_inbox import inbox
from sendoff_inbox.plugin import InboxChannel

RECIPIENTS = ("u1", "u2")


@define(eq=False)
class Known:
    """What we know of an entry."""

    delivery: Delivery
    id: UUID
    seen: bool = False
    read: bool = False
    archived: bool = False
    deleted: bool = False

    @property
    def recipient(self) -> str:
        return self.delivery.recipient

    def shown(self, *, archived: bool) -> bool:
        return not self.deleted and self.archived is archived


#: What each call does to an entry that is there, and on which it changes something.
CHANGES: dict[str, tuple[Callable[[Known], bool], dict[str, bool]]] = {
    "mark_seen": (lambda entry: not entry.seen, {"seen": True}),
    "mark_read": (lambda entry: not entry.read, {"seen": True, "read": True}),
    "mark_unread": (lambda entry: entry.read, {"read": False}),
    "archive": (lambda entry: not entry.archived, {"archived": True}),
    "unarchive": (lambda entry: entry.archived, {"archived": False}),
    "delete": (lambda entry: True, {"deleted": True}),
}


class Feeds(RuleBasedStateMachine):
    engine: sa.Engine

    def __init__(self) -> None:
        super().__init__()
        with self.engine.begin() as db:
            db.execute(sa.text("DELETE FROM sendoff_inbox"))
        self.worker = InboxChannel("inbox", context_for(lambda: self.engine))
        self.feeds = {recipient: Feed(self.engine, recipient) for recipient in RECIPIENTS}
        #: Oldest first.
        self.known: list[Known] = []

    @rule(recipients=st.lists(st.sampled_from(RECIPIENTS), min_size=1, max_size=4))
    def arrive(self, recipients: list[str]) -> None:
        self._send([delivery(recipient) for recipient in recipients])

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def redeliver(self, data: st.DataObject) -> None:
        again = data.draw(st.lists(st.sampled_from([entry.delivery for entry in self.known]), min_size=1, max_size=3))
        self._send([*again, delivery(data.draw(st.sampled_from(RECIPIENTS)))])

    def _send(self, rows: list[Delivery]) -> None:
        assert [Sent()] * len(rows) == list(self.worker.send_many(rows))
        with self.engine.begin() as db:
            found = db.execute(sa.text("SELECT outgoing_id, id FROM sendoff_inbox ORDER BY id")).all()
        ids = {UUID(outgoing_id): UUID(id) for outgoing_id, id in found}
        there = {entry.delivery.id for entry in self.known}
        new = sorted((row for row in rows if row.id not in there), key=lambda row: row.id)
        self.known += [Known(row, ids[row.id]) for row in new]

    @precondition(lambda self: self.known)
    @rule(name=st.sampled_from(sorted(CHANGES)), recipient=st.sampled_from(RECIPIENTS), data=st.data())
    def change(self, name: str, recipient: str, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.known), max_size=5))
        possible, values = CHANGES[name]
        changed = {entry for entry in chosen if entry.recipient == recipient and not entry.deleted and possible(entry)}
        assert len(changed) == getattr(self.feeds[recipient], name)([entry.id for entry in chosen])
        self._set(changed, values)

    @rule(name=st.sampled_from(["mark_seen", "mark_read"]), recipient=st.sampled_from(RECIPIENTS), data=st.data())
    def change_all(self, name: str, recipient: str, data: st.DataObject) -> None:
        up_to = data.draw(st.none() | st.sampled_from(self.known)) if self.known else None
        possible, values = CHANGES[name]
        changed = {
            entry
            for entry in self.known
            if entry.recipient == recipient and entry.shown(archived=False) and possible(entry)
            if up_to is None or entry.id <= up_to.id
        }
        change = getattr(self.feeds[recipient], name)
        assert len(changed) == (change() if up_to is None else change(up_to=up_to.id))
        self._set(changed, values)

    @staticmethod
    def _set(entries: set[Known], values: dict[str, bool]) -> None:
        for entry in entries:
            for name, value in values.items():
                setattr(entry, name, value)

    @rule(
        recipient=st.sampled_from(RECIPIENTS),
        limit=st.integers(1, 4),
        unread=st.none() | st.booleans(),
        archived=st.booleans(),
    )
    def read_in_pages(self, recipient: str, limit: int, unread: bool | None, archived: bool) -> None:
        found: list[Any] = []
        filters = {"limit": limit, "unread": unread, "archived": archived}
        while page := self.feeds[recipient].list(before=found[-1] if found else None, **filters):
            found += page
            if len(page) < limit:
                break
        expected = [
            (entry.id, entry.seen, entry.read, entry.archived)
            for entry in reversed(self.known)
            if entry.recipient == recipient and entry.shown(archived=archived) and unread in {None, not entry.read}
        ]
        as_known = [
            (one.id, one.seen_at is not None, one.read_at is not None, one.archived_at is not None) for one in found
        ]
        assert expected == as_known

    @rule()
    def purge(self) -> None:
        with self.engine.begin() as db:
            assert 0 == inbox.purge(db)  # nothing was deleted long ago

    @invariant()
    def counts(self) -> None:
        for recipient, feed in self.feeds.items():
            there = [entry for entry in self.known if entry.recipient == recipient and entry.shown(archived=False)]
            assert sum(not entry.read for entry in there) == feed.unread_count()
            assert sum(not entry.seen and not entry.read for entry in there) == feed.unseen_count()


def test_feeds_are_what_a_list_would_be(sqlite_url: str) -> None:
    engine = make_engine(sqlite_url)
    machine = type("FeedsOnSqlite", (Feeds,), {"engine": engine})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
    engine.dispose()
