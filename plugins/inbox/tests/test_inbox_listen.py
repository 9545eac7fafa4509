"""Listening: every entry once, in order, whatever happens to the connections in between."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

import sendoff_inbox.plugin
from plugins.inbox.tests.helpers import Feed, arrive, context_for, delivery, titles
from sendoff import ConfigurationError, Notification, Sendoff, StoreUnavailable
from sendoff.plugin import Delivery, Sent
from sendoff.store.engine import make_engine
from sendoff_inbox import hub, inbox, store
from sendoff_inbox.inbox import InvalidInput, Listening
from sendoff_inbox.plugin import InboxChannel
from tests.support.postgres import OwnServer
from tests.support.workers import app_for, serving, settings_for, wait_until

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
        wait_until(lambda: set(recipients) <= _listened_to(database), "the announcement of the listener")


def _listened_to(database: sa.Engine) -> set[str]:
    with database.connect() as db:
        return set(db.execute(sa.text("SELECT recipient FROM sendoff_inbox_listener")).scalars())


def no_thread_left() -> None:
    wait_until(lambda: not _threads(), "the end of the listening thread")
    assert not hub._hubs


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sendoff-inbox"]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    no_thread_left()


def test_entries_as_they_arrive(worker: InboxChannel, database: sa.Engine) -> None:
    arrive(worker, "before")
    with inbox.listen("u1", database, poll=NEVER) as listening:
        assert listening.wait(0) is None
        arrive(worker, "1", "2")
        arrive(worker, "not mine", recipient="u2")
        arrive(worker, "3", body="b", data={"a": 1})
        assert ["1", "2"] == heard(listening, 2)
        entry = next(iter(listening))
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


def test_many_listeners_share_a_thread_and_a_connection(worker: InboxChannel, database: sa.Engine) -> None:
    recipients = [f"u{number}" for number in range(40)]

    async def scenario() -> list[str | None]:
        async with contextlib.AsyncExitStack() as stack:
            listening = [
                await stack.enter_async_context(inbox.listen(recipient, database, poll=NEVER))
                for recipient in recipients
            ]
            assert 1 == len(_threads())
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


# -------------------------------------------------------------------------------------------- connections that break


def _break_all(url: str) -> None:
    """End every other connection of this database."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_nothing_is_lost_or_repeated_while_connections_break(postgres_url: str) -> None:
    engine, other = make_engine(postgres_url), make_engine(postgres_url)
    worker = InboxChannel("inbox", context_for(lambda: other))
    count, done = 300, threading.Event()

    def write() -> None:
        for number in range(count):
            written_at_last(worker, delivery("u1", title=str(number)))
        done.set()

    def harm() -> None:
        while not done.wait(0.15):
            _break_all(postgres_url)

    with inbox.listen("u1", engine, poll=NEVER) as listening:
        threads = [threading.Thread(target=target) for target in (write, harm)]
        for thread in threads:
            thread.start()
        assert [str(number) for number in range(count)] == heard(listening, count)
        for thread in threads:
            thread.join()
        assert listening.wait(0.3) is None
    engine.dispose()
    other.dispose()


def test_a_server_that_restarts_is_waited_for() -> None:
    with OwnServer() as server:
        so = Sendoff(server.url, plugins=[sendoff_inbox.plugin], entry_points=False)
        so.migrate()
        worker = InboxChannel("inbox", context_for(lambda: so.engine))
        with inbox.listen("u1", so, poll=NEVER) as listening:
            arrive(worker, "1")
            assert ["1"] == heard(listening, 1)
            server.stop()
            with pytest.raises(StoreUnavailable):
                inbox.listen("u1", so).wait(0)
            assert listening.wait(0.5) is None
            server.start()
            written_at_last(worker, delivery("u1", title="2"))
            assert ["2"] == heard(listening, 1)
        so.close()


# ------------------------------------------------------------------------------------------------- what notifies whom


def test_a_batch_notifies_once_for_each_recipient_that_is_listened_to(postgres_url: str) -> None:
    engine = make_engine(postgres_url)
    worker = InboxChannel("inbox", context_for(lambda: engine))
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)

    with psycopg.connect(url, autocommit=True) as tap, contextlib.ExitStack() as stack:
        tap.execute(f"LISTEN {store.NOTIFY}")
        heard: list[Any] = []
        tap.add_notify_handler(heard.append)
        rows = [delivery(f"u{number}", title="secret") for number in (1, 1, 2, 3, 3, 3)]
        worker.send_many(rows)
        tap.execute("SELECT 1")
        assert [] == heard

        for recipient in ("u1", "u3", "u4"):
            stack.enter_context(inbox.listen(recipient, engine, poll=NEVER))
        announced(engine, "u1", "u3", "u4")
        worker.send_many(rows)
        tap.execute("SELECT 1")
        assert [] == heard  # redelivered: nothing is new

        worker.send_many([delivery(f"u{number}", title="secret") for number in (1, 1, 2, 3, 3, 3)])
        tap.execute("SELECT 1")
        assert {store.hashed("u1"), store.hashed("u3")} == {one.payload for one in heard}
        assert (2, {store.NOTIFY}) == (len(heard), {one.channel for one in heard})
        assert {16} == {len(one.payload) for one in heard}
    engine.dispose()


@pytest.mark.parametrize("recipient", ["u1", "Zoë 📦", "x" * 5000, "'; SELECT 1; --"])
def test_any_recipient_can_be_listened_to(worker: InboxChannel, database: sa.Engine, recipient: str) -> None:
    with inbox.listen(recipient, database, poll=NEVER) as listening:
        assert listening.wait(0) is None
        announced(database, recipient)
        arrive(worker, "1", recipient=recipient)
        assert ["1"] == heard(listening, 1)


def test_who_has_left_is_not_announced_for_ever(postgres_url: str) -> None:
    engine = make_engine(postgres_url)
    with engine.begin() as db:
        values = "('gone', statement_timestamp() - interval '2 hours'), ('late', statement_timestamp())"
        db.execute(sa.text(f"INSERT INTO sendoff_inbox_listener VALUES {values}"))
    with inbox.listen("u1", engine):
        announced(engine, "u1")
        assert {"late", "u1"} == _listened_to(engine)
        with engine.begin() as db:
            seconds = "SELECT extract(epoch FROM until - statement_timestamp()) FROM sendoff_inbox_listener"
            left = db.execute(sa.text(f"{seconds} WHERE recipient = 'u1'")).scalar_one()
            assert hub.RENEWED * 2 < left <= hub.ANNOUNCED
    engine.dispose()


def test_through_a_url_of_its_own(postgres_url: str) -> None:
    so = Sendoff(postgres_url, listen_url=postgres_url, plugins=[sendoff_inbox.plugin], entry_points=False)
    worker = InboxChannel("inbox", context_for(lambda: so.engine))
    with inbox.listen("u1", so, poll=NEVER) as listening:
        assert listening.wait(0) is None
        announced(so.engine, "u1")
        arrive(worker, "1")
        assert ["1"] == heard(listening, 1)
    so.close()


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
    no_thread_left()


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
