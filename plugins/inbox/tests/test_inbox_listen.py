"""Listening: every entry once, and no more threads and connections than it takes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import sendoff_inbox.plugin
from plugins.inbox.tests.helpers import Feed, arrive, context_for, delivery, titles
from plugins.inbox.tests.listening import (
    NEVER,
    PATIENCE,
    announced,
    heard,
    no_listener_left,
    threads_that_listen,
)
from sendoff import ConfigurationError, Notification
from sendoff.store.engine import make_engine
from sendoff_inbox import inbox, store
from sendoff_inbox.inbox import InvalidInput, Listening
from sendoff_inbox.plugin import InboxChannel
from tests.support.workers import app_for, serving, settings_for, wait_until

pytestmark = pytest.mark.usefixtures("listeners")


def test_entries_as_they_arrive(worker: InboxChannel, database: sa.Engine) -> None:
    arrive(worker, "before")
    with inbox.listen("u1", database, poll=NEVER) as listening:
        assert listening.wait(0) is None
        arrive(worker, "1", "2")
        arrive(worker, "not mine", recipient="u2")
        arrive(worker, "3", body="b", data={"a": 1})
        assert ["1", "2"] == heard(listening, 2)
        [entry] = itertools.islice(listening, 1)
        assert ("3", "b", {"a": 1}) == (entry.title, entry.body, entry.data)
        assert entry == Feed(database, "u1").list(limit=1)[0]
        assert listening.wait(0.05) is None


def test_entries_of_a_worker(database_url: str, tmp_path: Path) -> None:
    with (
        app_for(settings_for(database_url, tmp_path), sendoff_inbox.plugin) as so,
        serving(so, ["inbox"]),
        inbox.listen("u1", so, poll=NEVER) as listening,
    ):
        for number in range(20):
            so.enqueue(_notification(number), None)
            assert [str(number)] == heard(listening, 1)
        # Batches that are written at the same time are heard in the order of their commits.
        so.enqueue_many([_notification(number) for number in range(20, 900)], None)
        assert sorted(map(str, range(20, 900))) == sorted(map(str, heard(listening, 880)))
        assert listening.wait(0.05) is None


def _notification(number: int) -> Notification:
    return Notification(recipient="u1", type="t", title=str(number), channels=["inbox"])


def test_on_an_event_loop(worker: InboxChannel, database: sa.Engine) -> None:
    async def scenario() -> list[str | None]:
        found: list[str | None] = []
        async with inbox.listen("u1", database, poll=NEVER) as listening:
            assert await listening.wait_async(0) is None
            for number in range(5):
                # A wait that is given up loses nothing, at whatever moment.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(anext(listening), 0.001 * number)
                    raise AssertionError("nothing has arrived")
                await asyncio.to_thread(arrive, worker, str(number))
                async for entry in listening:
                    found.append(entry.title)
                    break
            waiting = asyncio.create_task(listening.wait_async())
            await asyncio.sleep(0)
            listening.close()
            assert await waiting is None
            assert [] == [entry async for entry in listening]
        return found

    assert list("01234") == asyncio.run(scenario())


def test_what_a_wait_that_was_given_up_finds_is_for_the_next(
    worker: InboxChannel, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()

    async def scenario() -> str | None:
        async with inbox.listen("u1", database, poll=NEVER) as listening:
            await listening.wait_async(0)
            await asyncio.to_thread(announced, database, "u1")
            take = listening._take

            def take_slowly() -> bool:
                looking.set()
                assert go_on.wait(PATIENCE)
                return take()

            # Until nothing is due any more: from here on only what arrives makes it look.
            while await listening.wait_async(2):
                pass
            monkeypatch.setattr(listening, "_take", take_slowly)
            given_up = asyncio.create_task(listening.wait_async())
            await asyncio.to_thread(arrive, worker, "1")
            assert await asyncio.to_thread(looking.wait, PATIENCE)
            given_up.cancel()
            await asyncio.wait([given_up])
            next_one = asyncio.create_task(listening.wait_async())
            for _ in range(10):
                await asyncio.sleep(0)  # until it waits
            go_on.set()
            entry = await asyncio.wait_for(next_one, PATIENCE)
            return None if entry is None else entry.title

    assert "1" == asyncio.run(scenario())


def test_many_listeners_share_a_thread_and_a_connection(worker: InboxChannel, database: sa.Engine) -> None:
    recipients = [f"u{number}" for number in range(40)]

    async def scenario() -> list[str | None]:
        async with contextlib.AsyncExitStack() as stack:
            listening = [
                await stack.enter_async_context(inbox.listen(recipient, database, poll=NEVER))
                for recipient in recipients
            ]
            assert 1 == len(threads_that_listen())
            await asyncio.to_thread(announced, database, *recipients)
            for recipient in recipients:
                await asyncio.to_thread(arrive, worker, f"for {recipient}", recipient=recipient)
            entries = await asyncio.gather(*(one.wait_async(PATIENCE) for one in listening))
            return titles(entry for entry in entries if entry is not None)

    assert [f"for {recipient}" for recipient in recipients] == asyncio.run(scenario())


def test_two_listeners_of_one_recipient_hear_the_same(worker: InboxChannel, database: sa.Engine) -> None:
    with (
        inbox.listen("u1", database, poll=NEVER) as one,
        inbox.listen("u1", database, poll=NEVER) as other,
    ):
        arrive(worker, "1")
        assert (["1"], ["1"]) == (heard(one, 1), heard(other, 1))
        one.close()
        arrive(worker, "2")
        assert ["2"] == heard(other, 1)


def test_going_on_behind_an_entry(worker: InboxChannel, database: sa.Engine, feed: Feed) -> None:
    arrive(worker, *map(str, range(1200)))
    after = feed.list(limit=500, before=feed.list(limit=500)[-1])[-1]
    with inbox.listen("u1", database, after=str(after.id), poll=NEVER) as listening:
        assert [str(number) for number in range(201, 1200)] == heard(listening, 999)
        arrive(worker, "new")
        assert ["new"] == heard(listening, 1)


def test_what_was_deleted_before_it_was_looked_for_does_not_arrive(
    worker: InboxChannel, database: sa.Engine, feed: Feed
) -> None:
    with inbox.listen("u1", database, poll=NEVER) as listening:
        arrive(worker, "1", "2", "3")
        three, two, _ = feed.list()
        feed.delete(three)
        feed.archive(two)
        arrive(worker, "4")
        assert ["1", "4"] == heard(listening, 2)
        feed.unarchive(two)


def test_a_later_commit_of_an_earlier_entry(postgres_url: str) -> None:
    engine = make_engine(postgres_url)
    worker = InboxChannel("inbox", context_for(lambda: engine))
    with inbox.listen("u1", engine, poll=NEVER) as listening:
        assert listening.wait(0) is None
        announced(engine, "u1")
        with engine.connect() as db:
            store.insert(db, [delivery("u1", title="first written")])
            arrive(worker, "first committed")
            assert ["first committed"] == heard(listening, 1)
            db.commit()
        assert ["first written"] == heard(listening, 1)
    assert ["first committed", "first written"] == titles(Feed(engine, "u1").list())
    engine.dispose()


def test_an_entry_that_was_being_written_before_anybody_listened(postgres_url: str) -> None:
    engine = make_engine(postgres_url)
    with engine.connect() as db:
        store.insert(db, [delivery("u1", title="under way")])
        with inbox.listen("u1", engine, poll=NEVER) as listening:
            assert listening.wait(0) is None
            announced(engine, "u1")
            # It was written without a notification: only the early looks can find it.
            db.commit()
            assert ["under way"] == heard(listening, 1)
    engine.dispose()


def test_a_notification_that_got_lost_costs_a_poll(worker: InboxChannel, database: sa.Engine) -> None:
    with inbox.listen("u1", database, poll=0.2) as listening:
        assert listening.wait(0) is None
        assert listening._hub is not None
        listening._hub.remove(listening._bell)
        arrive(worker, "1")
        assert ["1"] == heard(listening, 1)


# ---------------------------------------------------------------------------------------------------------- closing


def test_closing_ends_a_wait_in_another_thread(worker: InboxChannel, database: sa.Engine) -> None:
    listening = inbox.listen("u1", database, poll=NEVER)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(listening))
    thread.start()
    wait_until(lambda: listening._began, "the beginning")
    arrive(worker, "1")
    wait_until(lambda: found, "the entry")
    listening.close()
    listening.close()
    thread.join(PATIENCE)
    assert (False, ["1"]) == (thread.is_alive(), titles(found))


def test_the_connection_goes_with_the_last_listener(postgres_url: str) -> None:
    engine, watching = make_engine(postgres_url), make_engine(postgres_url)

    def connections() -> int:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        with watching.connect() as db:
            return int(db.execute(sa.text(sql)).scalar_one())

    with inbox.listen("u1", engine), inbox.listen("u2", engine):
        announced(watching, "u1", "u2")
        engine.dispose()
        wait_until(lambda: connections() == 1, "one connection")
    wait_until(lambda: connections() == 0, "no connection")
    watching.dispose()


def test_one_that_was_forgotten_is_no_burden(database: sa.Engine) -> None:
    for _ in range(3):
        inbox.listen("u1", database).wait(0)
    gc.collect()
    no_listener_left()


def test_a_closed_one_stays_closed(worker: InboxChannel, database: sa.Engine) -> None:
    with inbox.listen("u1", database) as listening:
        arrive(worker, "1")
    assert [] == list(listening)
    assert listening.wait() is None


CALLS: dict[str, Callable[[sa.Engine], object]] = {
    "recipient is empty": lambda engine: inbox.listen("", engine),
    "poll must be a number of seconds above 0 (got 0)": lambda engine: inbox.listen("u1", engine, poll=0),
    "poll must be a number of seconds above 0 (got nan)": lambda engine: inbox.listen("u1", engine, poll=float("nan")),
    "after must be an entry or its id (got 'x')": lambda engine: inbox.listen("u1", engine, after="x"),
}


@pytest.mark.parametrize("problem", CALLS)
def test_arguments_that_mean_nothing(problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        CALLS[problem](sa.create_engine("sqlite:///never-made.db"))
    assert problem == str(caught.value)


def test_sources_that_are_none(database: sa.Engine) -> None:
    with database.connect() as db:
        for wrong in (None, "postgresql://", object()):
            with pytest.raises(ConfigurationError, match="pass a Sendoff or an SQLAlchemy Engine"):
                inbox.listen("u1", wrong)
        # A connection knows its engine, which is what is listened on.
        assert isinstance(inbox.listen("u1", db), Listening)
    with pytest.raises(ConfigurationError, match="in-memory"):
        inbox.listen("u1", make_engine("sqlite://"))


FORK = """
import os, signal, sys
from sendoff.store.engine import make_engine
from sendoff_inbox import inbox

signal.alarm(60)
engine = make_engine(sys.argv[1])
with inbox.listen("u1", engine, poll=0.5) as parents:
    print("listening", flush=True)
    print("parent", parents.wait(30).title, flush=True)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        engine.dispose(close=False)
        with inbox.listen("u1", engine, poll=3600) as listening:
            print("listening", flush=True)
            print("child", listening.wait(30).title, flush=True)
        os._exit(0)
    print("parent", parents.wait(30).title, flush=True)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_listens_by_itself(worker: InboxChannel, database: sa.Engine) -> None:
    url = database.url.render_as_string(hide_password=False)
    command = [sys.executable, "-W", "ignore", "-c", FORK, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "listening\n" == process.stdout.readline()
        arrive(worker, "1")
        # Forked once it has heard, when its listening thread holds no lock that the child would wait for.
        assert ["parent 1\n", "listening\n"] == [process.stdout.readline() for _ in range(2)]
        arrive(worker, "2")
        assert {"child 2\n", "parent 2\n"} == set(process.stdout)
    assert 0 == process.returncode
