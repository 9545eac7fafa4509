"""What an application does with a feed, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import attrs
import orjson
import pytest
import sqlalchemy as sa

from plugins.inbox.tests.helpers import Feed, arrive, titles, uuid7
from sendoff_inbox.inbox import Entry
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
