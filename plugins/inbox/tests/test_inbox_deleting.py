"""What is deleted stays deleted, and leaves nothing behind for longer than it is needed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from plugins.inbox.tests.helpers import Feed, arrive, titles
from sendoff_inbox import inbox
from sendoff_inbox.plugin import InboxChannel
from sendoff_inbox.tables import inbox as table


def test_what_is_deleted_is_gone_with_its_content(worker: InboxChannel, feed: Feed, database: sa.Engine) -> None:
    arrive(worker, "secret", body="secret", data={"a": "secret"}, link="/secret", options={"icon": "secret"})
    [entry] = feed.list()
    feed.archive(entry)
    assert 1 == feed.delete(entry)
    assert (0, [], []) == (feed.delete(entry), feed.list(), feed.list(archived=True))
    for name in ("mark_seen", "mark_read", "mark_unread", "archive", "unarchive"):
        assert (name, 0) == (name, getattr(feed, name)(entry))
    with database.begin() as db:
        assert "secret" not in repr(db.execute(sa.text("SELECT * FROM sendoff_inbox")).all())


def test_a_redelivery_does_not_bring_it_back(worker: InboxChannel, feed: Feed) -> None:
    rows = arrive(worker, "1", "2")
    feed.delete(feed.list()[0])
    worker.send_many(rows)
    assert ["1"] == titles(feed.list())
    assert 0 == feed.delete(feed.list()[0].outgoing_id)


#: Status of the outgoing row, days since it was finished, days since the entry was deleted, whether the tombstone goes.
ENDS: list[tuple[str | None, float, float, bool]] = [
    ("sent", 2, 2, True),
    ("delivered", 2, 2, True),
    (None, 0, 2, True),
    ("sent", 2, 0.9, False),
    ("sent", 0.9, 2, False),
    (None, 0, 0.9, False),
    ("pending", 0, 2, False),
    ("dead", 2, 2, False),
    ("expired", 2, 2, False),
]


@pytest.mark.parametrize("how", ["purge", "the next delete"])
@pytest.mark.parametrize(("status", "finished", "deleted", "goes"), ENDS)
def test_a_tombstone_goes_when_no_redelivery_can_come(
    worker: InboxChannel,
    feed: Feed,
    database: sa.Engine,
    how: str,
    status: str | None,
    finished: float,
    deleted: float,
    goes: bool,
) -> None:
    [row] = arrive(worker, "1")
    feed.delete(feed.list())
    now = datetime.now(UTC)
    with database.begin() as db:
        db.execute(sa.update(table).values(deleted_at=now - timedelta(days=deleted)))
        if status is not None:
            outgoing = sa.Table("sendoff_outgoing", sa.MetaData(), autoload_with=db)
            ended = None if status == "pending" else now - timedelta(days=finished)
            db.execute(
                sa.insert(outgoing).values(
                    id=_as_stored(row.id, db),
                    notification_id=_as_stored(row.notification_id, db),
                    channel="inbox",
                    recipient="u1",
                    type="t",
                    payload="{}" if db.dialect.name == "sqlite" else {},
                    status=status,
                    finished_at=_moment(ended, db),
                    created_at=_moment(now, db),
                )
            )
    if how == "purge":
        with database.begin() as db:
            assert (int(goes), 0) == (inbox.purge(db), inbox.purge(db))
    else:
        assert 0 == Feed(database, "u2").delete(uuid4())
        assert 0 == feed.delete(uuid4())
    with database.begin() as db:
        assert int(not goes) == db.execute(sa.select(sa.func.count()).select_from(table)).scalar()


def _as_stored(id: UUID, db: sa.Connection) -> Any:
    return str(id) if db.dialect.name == "sqlite" else id


def _moment(moment: datetime | None, db: sa.Connection) -> Any:
    if moment is None or db.dialect.name != "sqlite":
        return moment
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_a_purge_has_a_limit(worker: InboxChannel, feed: Feed, database: sa.Engine) -> None:
    arrive(worker, "1", "2", "3", "live")
    feed.delete(feed.list()[1:])
    with database.begin() as db:
        past = datetime.now(UTC) - timedelta(days=3)
        db.execute(sa.update(table).where(table.c.deleted_at.is_not(None)).values(deleted_at=past))
        assert [2, 1, 0] == [inbox.purge(db, limit=2) for _ in range(3)]
    assert ["live"] == titles(feed.list())
