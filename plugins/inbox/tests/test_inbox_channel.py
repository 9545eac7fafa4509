"""Entries are written once each, in batches, on both databases."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugins.inbox.tests.helpers import context_for, delivery
from sendoff.errors import ConfigurationError
from sendoff.plugin import Delivery, Notification, Outage, Permanent, Retryable, Sent, Verdict
from sendoff.store.engine import make_engine
from sendoff_inbox import plugin
from sendoff_inbox.plugin import InboxChannel
from sendoff_inbox.tables import inbox, metadata

#: What the databases refuse: both take a trigger, and neither can be told so by prepare().
REFUSE = {
    "sqlite": [
        """CREATE TRIGGER refuse BEFORE INSERT ON sendoff_inbox WHEN NEW.title = 'refused'
           BEGIN SELECT RAISE(ABORT, 'secret text'); END"""
    ],
    "postgresql": ["ALTER TABLE sendoff_inbox ADD CONSTRAINT no_refused CHECK (title <> 'refused')"],
}


def entries(engine: sa.Engine) -> Sequence[Any]:
    with engine.begin() as connection:
        return connection.execute(sa.select(inbox).order_by(inbox.c.id)).all()


def refuse(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        for statement in REFUSE[engine.dialect.name]:
            connection.exec_driver_sql(statement)


def test_an_entry_holds_what_the_notification_said(channel: InboxChannel, engine: sa.Engine) -> None:
    options = {"link": "/orders/17", "icon": "box", "actions": [{"label": "Track", "link": "https://example.org/t"}]}
    notification = Notification(
        recipient="u1",
        type="order.shipped",
        title="Unterwegs 📦",
        body='It\'s "on" its way\n\\',
        data={"order": 17, "sum": 1.50, "big": 2**53 + 1, "none": None, "deep": {"a": ["é", True]}},
        options={"inbox": options},
    )
    before = datetime.now(UTC) - timedelta(seconds=1)
    row = delivery(**channel.prepare(notification))
    assert [Sent()] == channel.send_many([row])
    [entry] = entries(engine)
    assert (row.id, row.notification_id, "u1", "order.shipped") == (
        entry.outgoing_id,
        entry.notification_id,
        entry.recipient,
        entry.type,
    )
    assert (notification.title, notification.body, notification.data) == (entry.title, entry.body, entry.data)
    assert entry.link == "/orders/17"
    assert {"icon": "box", "actions": options["actions"]} == entry.options
    assert (entry.seen_at, entry.read_at, entry.archived_at, entry.deleted_at) == (None, None, None, None)
    assert before < entry.created_at < datetime.now(UTC) + timedelta(seconds=1)
    assert entry.id.version == 7
    assert abs(entry.created_at.timestamp() * 1000 - (entry.id.int >> 80)) < 1.5


def test_what_is_not_there_is_null(channel: InboxChannel, engine: sa.Engine) -> None:
    channel.send_many([delivery(body="only a body")])
    [entry] = entries(engine)
    assert (entry.title, entry.body, entry.data, entry.link, entry.options) == (None, "only a body", None, None, None)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), below, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=json_values, title=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_json_and_text_comes_back_as_it_was(
    channel: InboxChannel, engine: sa.Engine, data: Any, title: str
) -> None:
    row = delivery(title=title, data={"value": data})
    assert [Sent()] == channel.send_many([row])
    with engine.begin() as connection:
        found = connection.execute(sa.select(inbox).where(inbox.c.outgoing_id == row.id)).one()
    assert (title, {"value": data}) == (found.title, found.data)


def test_a_batch_is_one_statement(channel: InboxChannel, engine: sa.Engine) -> None:
    statements: list[str] = []
    rows = [delivery(f"u{number}") for number in range(300)]
    with_listener = ("before_cursor_execute", lambda *args: statements.append(args[2].split()[0]))
    sa.event.listen(engine, *with_listener)
    assert [Sent()] * 300 == list(channel.send_many(rows))
    sa.event.remove(engine, *with_listener)
    assert len([word for word in statements if word != "BEGIN"]) == 1
    assert {row.id for row in rows} == {entry.outgoing_id for entry in entries(engine)}


def test_a_repeat_makes_no_second_entry(channel: InboxChannel, engine: sa.Engine) -> None:
    first, second = delivery(), delivery()
    channel.send_many([first])
    before = entries(engine)
    assert [Sent(), Sent(), Sent()] == channel.send_many([first, second, first])
    assert sorted([first.id, second.id]) == sorted(entry.outgoing_id for entry in entries(engine))
    assert before[0] in entries(engine)


def test_a_tombstone_stays_one(channel: InboxChannel, engine: sa.Engine) -> None:
    row = delivery()
    channel.send_many([row])
    with engine.begin() as connection:
        connection.execute(inbox.update().values(deleted_at=datetime(2026, 1, 1, tzinfo=UTC)))
    channel.send_many([row])
    assert [datetime(2026, 1, 1, tzinfo=UTC)] == [entry.deleted_at for entry in entries(engine)]


def test_a_batch_keeps_the_order_of_its_enqueueing(channel: InboxChannel, engine: sa.Engine) -> None:
    rows = [delivery(title=str(number)) for number in range(5000)]
    channel.send_many(rows[::-1])
    assert [str(number) for number in range(5000)] == [entry.title for entry in entries(engine)]


def test_a_later_batch_comes_later_in_the_feed(channel: InboxChannel, engine: sa.Engine) -> None:
    for number in range(100):
        channel.send_many([delivery(title=f"{number} a"), delivery(title=f"{number} b")])
    expected = [f"{number} {place}" for number in range(100) for place in "ab"]
    assert expected == [entry.title for entry in entries(engine)]


def test_many_senders_of_the_same_rows_make_one_entry_each(channel: InboxChannel, engine: sa.Engine) -> None:
    rows = [delivery(f"u{number}") for number in range(50)]
    together = threading.Barrier(4)

    def send(order: list[Delivery]) -> list[Sequence[Verdict | None]]:
        together.wait(30)
        return [channel.send_many(order) for _ in range(10)]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(send, [rows, rows[::-1], rows[25:] + rows[:25], rows]))
    assert [[[Sent()] * 50] * 10] * 4 == answers
    assert len(entries(engine)) == 50


def test_one_refused_entry_leaves_the_others_written(channel: InboxChannel, engine: sa.Engine) -> None:
    refuse(engine)
    rows = [delivery(title=title) for title in ("a", "refused", "b", "refused", "c")]
    verdicts = channel.send_many(rows)
    assert [Sent, Permanent, Sent, Permanent, Sent] == [type(verdict) for verdict in verdicts]
    assert [entry.title for entry in entries(engine)] == ["a", "b", "c"]
    assert isinstance(verdicts[1], Permanent)
    assert "secret text" not in verdicts[1].reason
    assert "refused the entry" in verdicts[1].reason


def test_a_refused_entry_alone(channel: InboxChannel, engine: sa.Engine) -> None:
    refuse(engine)
    verdict = channel.send(delivery(title="refused"))
    assert isinstance(verdict, Permanent)


def test_a_missing_table_is_an_outage_that_names_the_command(channel: InboxChannel, engine: sa.Engine) -> None:
    assert channel.check() is None
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE sendoff_inbox")
    verdicts = channel.send_many([delivery(), delivery()])
    assert [Outage, Outage] == [type(verdict) for verdict in verdicts]
    assert "sendoff migrate" in str(verdicts[0])
    assert "sendoff migrate" in str(channel.check())


def test_a_locked_database_costs_nobody_their_budget(sqlite_file: sa.Engine) -> None:
    hasty = sa.create_engine(sqlite_file.url, connect_args={"timeout": 0})
    channel = InboxChannel("inbox", context_for(lambda: hasty))
    with sqlite_file.begin() as connection:
        connection.exec_driver_sql("DELETE FROM sendoff_inbox")  # takes the write lock and keeps it
        verdicts = channel.send_many([delivery(), delivery()])
    hasty.dispose()
    assert [Retryable("the database is busy or away (SQLITE_BUSY)", counts=False)] * 2 == list(verdicts)


def test_a_database_that_is_away_costs_nobody_their_budget(tmp_path: Path) -> None:
    away = make_engine(f"postgresql://nobody@/none?host={tmp_path}")
    verdicts = InboxChannel("inbox", context_for(lambda: away)).send_many([delivery(), delivery()])
    assert [Retryable("the database is busy or away (the connection failed)", counts=False)] * 2 == list(verdicts)


def test_a_connection_that_died_in_the_pool_is_replaced(empty_postgres_url: str) -> None:
    engine = make_engine(empty_postgres_url)
    metadata.create_all(engine)
    channel = InboxChannel("inbox", context_for(lambda: engine))
    with engine.connect() as connection:
        own = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    other = make_engine(empty_postgres_url)
    with other.begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_terminate_backend({own}, 10000)")
    other.dispose()
    assert [Sent()] == channel.send_many([delivery()])
    engine.dispose()


@pytest.fixture
def sqlite_file(empty_sqlite_url: str) -> Iterator[sa.Engine]:
    engine = make_engine(empty_sqlite_url)
    metadata.create_all(engine)
    yield engine
    engine.dispose()


def test_erase_takes_everything_of_one_recipient(channel: InboxChannel, engine: sa.Engine) -> None:
    channel.send_many([delivery("u1"), delivery("u1"), delivery("u2")])
    with engine.begin() as connection:
        assert plugin.sendoff_erase("u1", connection) == 2
    assert [entry.recipient for entry in entries(engine)] == ["u2"]


def test_the_revision_makes_the_declared_table(engine: sa.Engine) -> None:
    options = {"include_name": lambda name, type_, _: type_ != "table" or name in metadata.tables}
    with engine.begin() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
        indexes = {index["name"]: index for index in sa.inspect(connection).get_indexes("sendoff_inbox")}
    unread = indexes["sendoff_inbox_unread"]["dialect_options"]
    assert {f"sendoff_inbox_{name}" for name in ("outgoing", "feed", "archive", "deleted", "unread")} == set(indexes)
    assert indexes["sendoff_inbox_outgoing"]["unique"]
    assert "read_at IS NULL" in str(unread[f"{engine.dialect.name}_where"])


def test_one_instance_is_called_inbox_and_leads() -> None:
    [channel] = plugin.sendoff_channels(context_for(_no_engine))
    assert (channel.name, channel.leads) == ("inbox", True)


def test_instances_are_named_by_the_settings() -> None:
    channels = plugin.sendoff_channels(context_for(_no_engine, inbox={"plugin": "inbox"}, feed={"plugin": "inbox"}))
    assert [channel.name for channel in channels] == ["inbox", "feed"]


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"channels\.inbox\.colour"):
        plugin.sendoff_channels(context_for(_no_engine, inbox={"colour": "red"}))


def test_the_migrations_hook_names_the_package() -> None:
    migrations = plugin.sendoff_migrations()
    assert ("inbox", "sendoff_inbox.migrations", metadata) == (
        migrations.name,
        migrations.package,
        migrations.metadata,
    )


def _no_engine() -> sa.Engine:
    raise AssertionError("a hook opened the database")


def test_importing_the_package_is_light() -> None:
    program = "import sys, sendoff_inbox; print({'sqlalchemy', 'alembic', 'sendoff'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"
