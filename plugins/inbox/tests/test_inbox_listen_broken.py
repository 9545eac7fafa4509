"""Listening while connections break; and which batches notify."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

import sendoff_inbox.plugin
from plugins.inbox.tests.helpers import arrive, context_for, delivery
from plugins.inbox.tests.listening import (
    NEVER,
    announced,
    heard,
    listened_to,
    written_at_last,
)
from sendoff import Sendoff, StoreUnavailable
from sendoff.store.engine import make_engine
from sendoff_inbox import hub, inbox, store
from sendoff_inbox.plugin import InboxChannel
from tests.support.postgres import OwnServer

pytestmark = pytest.mark.usefixtures("listeners")


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


def test_a_batch_notifies_once_for_each_recipient_that_islistened_to(postgres_url: str) -> None:
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

        with engine.begin() as db:
            db.execute(sa.text("INSERT INTO sendoff_inbox_listener VALUES ('u2', statement_timestamp())"))
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
def test_any_recipient_can_belistened_to(worker: InboxChannel, database: sa.Engine, recipient: str) -> None:
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
        assert {"late", "u1"} == listened_to(engine)
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
