"""Two at once, on real connections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from plugins.inbox.tests.helpers import Feed, arrive, context_for, titles
from sendoff.store.engine import make_engine
from sendoff_inbox import inbox
from sendoff_inbox.plugin import InboxChannel
from tests.support.workers import wait_until


def _waits_for_a_lock(engine: sa.Engine) -> bool:
    with engine.connect() as db:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return bool(db.execute(sa.text(sql)).scalar())


@contextmanager
def _meanwhile(work: Callable[[], Any]) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


def test_what_arrives_during_the_call_stays_unread(postgres_url: str) -> None:
    engine = make_engine(postgres_url)
    worker, feed = InboxChannel("inbox", context_for(lambda: engine)), Feed(engine, "u1")
    arrive(worker, *map(str, range(501)))
    with engine.begin() as holding:
        # Somebody holds one of the entries, so that the call is under way when the next entry is committed.
        holding.execute(sa.text("SELECT id FROM sendoff_inbox ORDER BY id LIMIT 1 OFFSET 250 FOR UPDATE"))
        with _meanwhile(feed.mark_read) as marking:
            wait_until(lambda: _waits_for_a_lock(engine), "the call under way")
            arrive(worker, "new")
            assert not marking.done()
            holding.commit()
    assert 501 == marking.result(30)
    assert (1, ["new"]) == (feed.unread_count(), titles(feed.list(unread=True)))
    engine.dispose()


def test_what_arrives_before_the_commit_stays_unread(postgres_url: str) -> None:
    engine = make_engine(postgres_url)
    worker, feed = InboxChannel("inbox", context_for(lambda: engine)), Feed(engine, "u1")
    arrive(worker, *map(str, range(501)))
    with engine.connect() as db:
        assert 501 == inbox.mark_read("u1", db)
        arrive(worker, "new")
        db.commit()
    assert ["new"] == titles(feed.list(unread=True))
    engine.dispose()


def test_on_sqlite_what_arrives_during_the_call_waits_for_it(sqlite_url: str) -> None:
    engine = make_engine(sqlite_url)
    worker, feed = InboxChannel("inbox", context_for(lambda: engine)), Feed(engine, "u1")
    arrive(worker, *map(str, range(501)))
    with engine.connect() as db:
        assert 501 == inbox.mark_read("u1", db)
        with _meanwhile(lambda: arrive(worker, "new")) as arriving:
            assert not arriving.done()
            db.commit()
    assert 1 == len(arriving.result(30))
    assert ["new"] == titles(feed.list(unread=True))
    engine.dispose()


def test_an_entry_that_two_mark_counts_once(worker: InboxChannel, database: sa.Engine, feed: Feed) -> None:
    arrive(worker, *map(str, range(300)))
    ids = [entry.id for entry in feed.list(limit=300)]
    together = threading.Barrier(4)

    def mark(how: Callable[[], int]) -> int:
        together.wait(30)
        return how()

    # All of them, and the same ids from both ends, in a table whose rows lie in another order than their ids: whoever
    # locks in another order than the others deadlocks.
    for _ in range(10):
        for start in (2, 0, 1):
            assert 100 == feed.mark_read(ids[start::3])
            assert 100 == feed.mark_unread(ids[start::3])
        ways = [feed.mark_read, lambda: feed.mark_read(ids), lambda: feed.mark_read(ids[::-1]), feed.mark_read]
        with ThreadPoolExecutor(4) as pool:
            assert 300 == sum(pool.map(mark, ways))
        assert 300 == feed.mark_unread(ids)


def test_a_redelivery_that_races_with_the_deletion(worker: InboxChannel, feed: Feed) -> None:
    for number in range(10):
        rows = arrive(worker, str(number))
        with _meanwhile(lambda rows=rows: worker.send_many(rows)) as again:  # type: ignore[misc]  # mypy: default of a lambda
            assert 1 == feed.delete(feed.list())
        again.result(30)
        assert [] == feed.list()
