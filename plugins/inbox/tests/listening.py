"""What tests of listeners share."""

from __future__ import annotations

import threading
import time

import sqlalchemy as sa

from sendoff.plugin import Delivery, Sent
from sendoff_inbox import hub
from sendoff_inbox.inbox import Listening
from sendoff_inbox.plugin import InboxChannel
from tests.support.workers import wait_until

#: Longer than any test: what arrives is not found because it was time to look.
NEVER = 3600.0
#: Enough for a busy machine.
PATIENCE = 30.0


def heard(listening: Listening, count: int) -> list[str | None]:
    """The titles of the next entries."""
    found: list[str | None] = []
    for _ in range(count):
        entry = listening.wait(PATIENCE)
        assert entry is not None, f"{count} entries expected, these came: {found}"
        found.append(entry.title)
    return found


def written_at_last(worker: InboxChannel, row: Delivery) -> None:
    """Send it as often as it takes, which is what a worker does with a verdict that costs no budget."""
    deadline = time.monotonic() + PATIENCE
    while (verdict := worker.send(row)) != Sent():
        assert time.monotonic() < deadline, verdict


def announced(database: sa.Engine, *recipients: str) -> None:
    """Wait until batches notify for these (PostgreSQL)."""
    if database.dialect.name == "postgresql":
        wait_until(lambda: set(recipients) <= listened_to(database), "the announcement of the listener")


def listened_to(database: sa.Engine) -> set[str]:
    with database.connect() as db:
        return set(db.execute(sa.text("SELECT recipient FROM sendoff_inbox_listener")).scalars())


def no_listener_left() -> None:
    wait_until(lambda: not threads_that_listen(), "the end of the listening thread")
    assert not hub._hubs


def threads_that_listen() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sendoff-inbox"]
