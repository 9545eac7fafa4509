"""In anybody's transaction, on any connection; and what is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from plugins.inbox.tests.helpers import Feed, arrive
from sendoff import ConfigurationError, NotMigrated
from sendoff.store.engine import make_engine
from sendoff_inbox import inbox
from sendoff_inbox.inbox import InvalidInput
from sendoff_inbox.plugin import InboxChannel


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
    "unread must be True or False (got 'false')": lambda db: inbox.list("u1", db, unread="false"),  # type: ignore[arg-type]  # the mistake
    "archived must be True or False (got NoneType)": lambda db: inbox.list("u1", db, archived=None),  # type: ignore[arg-type]  # the mistake
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
