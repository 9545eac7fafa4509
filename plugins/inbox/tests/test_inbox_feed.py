"""What an application does with a feed, on both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import attrs
import orjson
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from plugins.inbox.tests.helpers import Feed, arrive, titles, uuid7
from sendoff import ConfigurationError, NotMigrated
from sendoff.store.engine import make_engine
from sendoff_inbox import inbox
from sendoff_inbox.inbox import Entry, InvalidInput
from sendoff_inbox.plugin import InboxChannel
from sendoff_inbox.tables import inbox as table


def test_an_entry_is_what_was_sent(worker: InboxChannel, feed: Feed) -> None:
    content: dict[str, Any] = {
        "body": "b",
        "data": {"order": 17, "x": [None, 1.5, "é"]},
        "link": "/o/17",
        "options": {"icon": "box"},
    }
    before = datetime.now(UTC) - timedelta(seconds=1)
    [row] = arrive(worker, "On its way", **content)
    [entry] = feed.list()
    expected = {
        **content,
        "title": "On its way",
        "outgoing_id": row.id,
        "notification_id": row.notification_id,
        "recipient": "u1",
        "type": "order.shipped",
        **dict.fromkeys(["seen_at", "read_at", "archived_at"]),
    }
    found = attrs.asdict(entry)
    assert expected == {name: value for name, value in found.items() if name not in {"id", "created_at"}}
    assert entry.created_at.tzinfo is UTC
    assert before < entry.created_at < datetime.now(UTC) + timedelta(seconds=1)
    assert orjson.loads(orjson.dumps(found))["id"] == str(entry.id)


def test_what_is_not_there_is_none(worker: InboxChannel, feed: Feed) -> None:
    arrive(worker, "t")
    [entry] = feed.list()
    assert (None, None, None, None) == (entry.body, entry.data, entry.link, entry.options)


def test_newest_first(worker: InboxChannel, feed: Feed) -> None:
    arrive(worker, "1", "2")
    arrive(worker, "3")
    assert ["3", "2", "1"] == titles(feed.list())


def test_pages_are_complete_and_disjoint_while_entries_arrive(worker: InboxChannel, feed: Feed) -> None:
    arrive(worker, *map(str, range(10)))
    page, found = feed.list(limit=3), []
    while page:
        found += page
        arrive(worker, "later")
        page = feed.list(limit=3, before=page[-1])
    assert [str(number) for number in reversed(range(10))] == titles(found)


def test_a_page_goes_on_behind_an_entry_that_is_gone(worker: InboxChannel, feed: Feed) -> None:
    arrive(worker, "1", "2", "3")
    last = feed.list(limit=2)[-1]
    feed.delete(last)
    assert ["1"] == titles(feed.list(before=str(last.id)))


def test_filters(worker: InboxChannel, feed: Feed) -> None:
    arrive(worker, "1", "2", "3", "4")
    by_title = {entry.title: entry for entry in feed.list()}
    feed.mark_read([by_title["1"], by_title["2"]])
    feed.archive([by_title["2"], by_title["3"]])
    with worker._context.transaction() as db:
        db.execute(sa.update(table).where(table.c.title == "4").values(type="order.paid"))
    pages: dict[tuple[Any, ...], list[str]] = {
        (): ["4", "1"],
        ("unread",): ["4"],
        ("read",): ["1"],
        ("archived",): ["3", "2"],
        ("archived", "unread"): ["3"],
        ("archived", "read"): ["2"],
        ("paid",): ["4"],
        ("paid", "archived"): [],
    }
    named: dict[str, dict[str, Any]] = {
        "unread": {"unread": True},
        "read": {"unread": False},
        "archived": {"archived": True},
        "paid": {"type": "order.paid"},
    }
    for words, expected in pages.items():
        filters = {key: value for word in words for key, value in named[word].items()}
        assert (words, expected) == (words, titles(feed.list(**filters)))


def test_counts(worker: InboxChannel, feed: Feed) -> None:
    assert (0, 0) == (feed.unread_count(), feed.unseen_count())
    arrive(worker, *map(str, range(10)))
    entries = feed.list()
    assert (10, 10) == (feed.unread_count(), feed.unseen_count())
    assert 3 == feed.mark_seen(entries[:3])
    assert (10, 7) == (feed.unread_count(), feed.unseen_count())
    assert 2 == feed.mark_read(entries[2:4])
    assert (8, 6) == (feed.unread_count(), feed.unseen_count())
    assert 2 == feed.archive(entries[3:5])
    assert (7, 5) == (feed.unread_count(), feed.unseen_count())
    assert 2 == feed.delete(entries[4:6])
    assert (6, 4) == (feed.unread_count(), feed.unseen_count())
    assert 1 == feed.unarchive(entries[3:5])
    assert (6, 4) == (feed.unread_count(), feed.unseen_count())
    assert 2 == feed.mark_unread(entries[2:4])
    assert (8, 4) == (feed.unread_count(), feed.unseen_count())


def test_501_unread_entries_marked_at_once(worker: InboxChannel, feed: Feed) -> None:
    arrive(worker, *map(str, range(501)))
    assert 501 == feed.unread_count()
    assert 501 == feed.mark_read()
    assert (0, 0) == (feed.unread_count(), feed.mark_read())


@pytest.mark.parametrize(
    ("name", "column", "undo"),
    [
        ("mark_seen", "seen_at", None),
        ("mark_read", "read_at", "mark_unread"),
        ("archive", "archived_at", "unarchive"),
    ],
)
def test_again_changes_nothing(worker: InboxChannel, feed: Feed, name: str, column: str, undo: str | None) -> None:
    arrive(worker, "1", "2")
    one, other = feed.list()
    change = getattr(feed, name)
    assert 1 == change(one.id)
    [first] = [entry for entry in _all(feed) if entry.id == one.id]
    when = getattr(first, column)
    assert abs(when - datetime.now(UTC)) < timedelta(seconds=5)
    assert 1 == change([one, other, one.id, str(one.id)])
    assert when == next(getattr(entry, column) for entry in _all(feed) if entry.id == one.id)
    if undo:
        assert 2 == getattr(feed, undo)([one, other])
        assert 0 == getattr(feed, undo)([one, other])
        assert {None} == {getattr(entry, column) for entry in _all(feed)}


def _all(feed: Feed) -> list[Entry]:
    return [*feed.list(), *feed.list(archived=True)]


def test_reading_is_seeing_and_keeps_when_it_was(worker: InboxChannel, feed: Feed) -> None:
    arrive(worker, "1", "2")
    newer, older = feed.list()
    feed.mark_seen(newer)
    [seen_at] = [entry.seen_at for entry in feed.list(limit=1)]
    feed.mark_read()
    newer, older = feed.list()
    assert seen_at == newer.seen_at < newer.read_at
    assert abs(older.read_at - older.seen_at) < timedelta(milliseconds=100)
    feed.mark_unread([newer, older])
    assert [seen_at, older.seen_at] == [entry.seen_at for entry in feed.list()]


@pytest.mark.parametrize("mark", ["mark_read", "mark_seen"])
def test_up_to_a_moment_or_an_entry(worker: InboxChannel, feed: Feed, mark: str) -> None:
    def left() -> list[str | None]:
        return titles(entry for entry in feed.list() if entry.seen_at is None)

    for title in "12345":
        arrive(worker, title)
    fifth, _, third, _, first = feed.list()
    change = getattr(feed, mark)
    assert 0 == change(up_to=first.created_at - timedelta(microseconds=1))
    assert 1 == change(up_to=first.created_at)
    assert ["5", "4", "3", "2"] == left()
    assert 2 == change(up_to=third)
    assert ["5", "4"] == left()
    assert 0 == change(up_to=str(third.id))
    assert 2 == change(up_to=fifth.created_at.astimezone(), ids=None)


def test_all_of_the_feed_leaves_the_archive_alone(worker: InboxChannel, feed: Feed) -> None:
    arrive(worker, "1", "2")
    [_, older] = feed.list()
    feed.archive(older)
    assert 1 == feed.mark_read()
    assert 1 == feed.mark_read(older)


def test_nobody_touches_what_is_not_theirs(worker: InboxChannel, feed: Feed, database: sa.Engine) -> None:
    arrive(worker, *map(str, range(6)))
    theirs = feed.list()
    feed.mark_read(theirs[:2])
    feed.archive(theirs[1:3])
    before = _all(feed)
    other = Feed(database, "u2")
    arrive(worker, "mine", recipient="u2")
    ids = [entry.id for entry in theirs] + [uuid4(), uuid7()]
    for name in ("mark_seen", "mark_read", "mark_unread", "archive", "unarchive", "delete"):
        assert (name, 0) == (name, getattr(other, name)(ids))
    assert ["mine"] == titles(other.list())
    assert [] == other.list(before=theirs[0], archived=True)
    assert 1 == other.mark_read(up_to=datetime.now(UTC) + timedelta(days=1))
    assert before == _all(feed)


def test_a_recipient_is_one_text_and_no_pattern(worker: InboxChannel, database: sa.Engine) -> None:
    names = ["u1", "U1", "u1 ", "u", "u%", "ü1", "u1\n", "u10", "'; --", "û", "u\u0308"]
    for name in names:
        arrive(worker, f"for {name}", recipient=name)
    for name in names:
        other = Feed(database, name)
        assert [f"for {name}"] == titles(other.list())
        assert (1, 1, 0) == (other.unread_count(), other.mark_read(), other.unread_count())


# ------------------------------------------------------------------------------------------------------ tombstones


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


# ------------------------------------------------------------------------------------------- connections and inputs


def test_in_the_callers_transaction(worker: InboxChannel, feed: Feed, database: sa.Engine) -> None:
    arrive(worker, "1", "2")
    with database.connect() as db:
        inbox.mark_read("u1", db)
        inbox.delete("u1", db, inbox.list("u1", db, limit=1))
        assert (1, 0) == (len(inbox.list("u1", db)), inbox.unread_count("u1", db))
        db.rollback()
    assert (2, 2) == (len(feed.list()), feed.unread_count())


def test_any_kind_of_connection(worker: InboxChannel, feed: Feed, database: sa.Engine) -> None:
    arrive(worker, *map(str, range(5)), data={"a": 1})
    expected = feed.list()

    def exercise(connection: Any) -> None:
        assert expected == inbox.list("u1", connection)
        assert 5 == inbox.unread_count("u1", connection)
        assert 5 == inbox.mark_read("u1", connection)
        assert 5 == inbox.mark_unread("u1", connection, expected)
        assert 2 == inbox.mark_read("u1", connection, up_to=expected[3].created_at) - 3
        assert 2 == inbox.delete("u1", connection, (entry.id for entry in expected[:2]))
        assert 0 == inbox.purge(connection)
        connection.rollback()

    with Session(database) as session:
        exercise(session)
    if database.dialect.name == "sqlite":
        with sqlite3.connect(str(database.url.database)) as raw:
            raw.row_factory = sqlite3.Row
            exercise(raw)
        raw.close()
    else:
        url = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
        rows: list[Any] = [psycopg.rows.tuple_row, psycopg.rows.dict_row]
        for factory in rows:
            with psycopg.connect(url, row_factory=factory) as connection:
                connection.execute("SET TimeZone = 'Asia/Kolkata'")
                exercise(connection)
    assert expected == feed.list()


CALLS: dict[str, Callable[[Any], object]] = {
    "recipient is empty": lambda db: inbox.list("", db),
    "recipient is empty ": lambda db: inbox.mark_read(" \n", db),
    "recipient must be text (got int)": lambda db: inbox.unread_count(17, db),  # type: ignore[arg-type]  # the mistake
    "recipient has a NUL": lambda db: inbox.list("u\0", db),
    "recipient has a NUL character or a lone": lambda db: inbox.delete("u\ud800", db, []),
    "limit must be a whole number from 1 to 500 (got 0)": lambda db: inbox.list("u1", db, limit=0),
    "limit must be a whole number from 1 to 500 (got 501)": lambda db: inbox.list("u1", db, limit=501),
    "limit must be a whole number from 1 to 500 (got True)": lambda db: inbox.list("u1", db, limit=True),
    "limit must be a whole number from 1 to 500 (got '20')": lambda db: inbox.list("u1", db, limit="20"),  # type: ignore[arg-type]  # the mistake
    "before must be an entry or its id (got 'next')": lambda db: inbox.list("u1", db, before="next"),
    "type is empty": lambda db: inbox.list("u1", db, type=""),
    "ids must be an id or several (got 17)": lambda db: inbox.archive("u1", db, 17),  # type: ignore[arg-type]  # the mistake
    "ids[1] must be an entry or its id (got 17)": lambda db: inbox.archive("u1", db, [uuid4(), 17]),  # type: ignore[list-item]  # the mistake
    "ids must be an entry or its id (got 'x')": lambda db: inbox.mark_read("u1", db, "x"),
    "ids must be an id or several (got NoneType)": lambda db: inbox.delete("u1", db, None),  # type: ignore[arg-type]  # the mistake
    "ids are more than 10000": lambda db: inbox.delete("u1", db, (uuid4() for _ in range(10_001))),
    "up_to is for all entries": lambda db: inbox.mark_read("u1", db, [], up_to=datetime.now(UTC)),
    "up_to is a moment without a time zone": lambda db: inbox.mark_seen("u1", db, up_to=datetime(2026, 1, 1)),  # noqa: DTZ001 - the mistake
    "up_to must be an entry or its id (got 'now')": lambda db: inbox.mark_read("u1", db, up_to="now"),
}


@pytest.mark.parametrize("problem", CALLS)
def test_arguments_that_mean_nothing(sqlite_url: str, problem: str) -> None:
    engine = make_engine(sqlite_url)
    with engine.begin() as db, pytest.raises(InvalidInput) as caught:
        CALLS[problem](db)
    engine.dispose()
    assert str(caught.value).startswith(problem.rstrip())
    assert isinstance(caught.value, ValueError)


def test_no_ids_are_nothing(feed: Feed) -> None:
    for name in ("mark_seen", "mark_read", "mark_unread", "archive", "unarchive", "delete"):
        assert (name, 0) == (name, getattr(feed, name)([]))


def test_connections_that_are_none(sqlite_url: str) -> None:
    engine = make_engine(sqlite_url)
    for wrong in (None, engine, "postgresql://", object()):
        with pytest.raises(ConfigurationError, match="connection is "):
            inbox.unread_count("u1", wrong)
    engine.dispose()


def test_missing_tables_name_the_command(empty_database_url: str) -> None:
    engine = make_engine(empty_database_url)
    with engine.begin() as db, pytest.raises(NotMigrated, match="sendoff migrate"):
        inbox.list("u1", db)
    engine.dispose()
