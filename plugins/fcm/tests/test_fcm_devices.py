"""Devices: whose they are, which are active, and why not; on both databases, through several libraries."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.orm import Session

from sendoff.plugin import InvalidNotification
from sendoff_fcm import devices
from sendoff_fcm.plugin import sendoff_erase
from sendoff_fcm.tables import TABLE, device, metadata


@pytest.fixture
def connection(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.begin() as connection:
        yield connection


def tokens(recipient: str, connection: Any) -> list[str]:
    return devices.active_addresses([recipient], connection).get(recipient, [])


def age(connection: sa.Connection, token: str, by: timedelta) -> None:
    """Make a device look as if it had last been seen so long ago."""
    seen = sa.update(device).where(device.c.token == token).values(last_seen_at=datetime.now(UTC) - by)
    connection.execute(seen)


def test_a_registered_device_is_an_address(connection: sa.Connection) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    made = devices.register("u1", "t1", connection, platform="android", app="shop", installation="i1")
    assert ["t1"] == tokens("u1", connection)
    assert [made] == devices.list("u1", connection)
    assert ("android", "shop", "i1", True, "token") == (
        made.platform,
        made.app,
        made.installation,
        made.active,
        made.kind,
    )
    assert before < made.created_at <= made.last_seen_at < datetime.now(UTC) + timedelta(seconds=1)


def test_a_token_belongs_to_whoever_registered_it_last(connection: sa.Connection) -> None:
    devices.register("u1", "t1", connection, platform="ios")
    devices.register("u2", "t1", connection)
    assert ([], ["t1"]) == (tokens("u1", connection), tokens("u2", connection))
    [kept] = devices.list("u2", connection)
    assert "ios" == kept.platform


def test_a_new_token_of_an_installation_retires_the_old_one(connection: sa.Connection) -> None:
    devices.register("u1", "old", connection, installation="i1", app="shop")
    devices.register("u1", "driver", connection, installation="i1", app="driver")
    devices.register("u1", "new", connection, installation="i1", app="shop")
    assert ["driver", "new"] == sorted(tokens("u1", connection))
    [old] = devices.list("u1", connection, active=False)
    assert ("old", "replaced") == (old.token, old.deactivated_reason)


def test_tokens_of_one_installation_at_once_leave_one(engine: sa.Engine) -> None:
    together = Barrier(4)

    def register(place: int) -> None:
        together.wait(30)
        for turn in range(8):
            with engine.begin() as connection:
                devices.register("u1", f"t{(place + turn) % 3}", connection, installation="i1")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(register, range(4)))
    with engine.begin() as connection:
        assert 1 == len(tokens("u1", connection))


def test_what_no_table_holds_is_nobodys(connection: sa.Connection) -> None:
    for text in ("a\0", "\ud800"):
        assert [] == devices.list(text, connection)
        assert not devices.unregister(text, connection)
        assert not devices.unregister("t1", connection, recipient=text)


def test_registering_again_reactivates(connection: sa.Connection) -> None:
    devices.register("u1", "t1", connection)
    assert devices.unregister("t1", connection)
    [gone] = devices.list("u1", connection)
    assert (False, "unregistered") == (gone.active, gone.deactivated_reason)
    assert gone.deactivated_at is not None
    back = devices.register("u1", "t1", connection)
    assert (True, None, None) == (back.active, back.deactivated_at, back.deactivated_reason)
    assert gone.created_at == back.created_at


def test_unregistering_takes_nothing_from_others(connection: sa.Connection) -> None:
    devices.register("u2", "t1", connection)
    assert [False, False, True, False] == [
        devices.unregister("t1", connection, recipient="u1"),
        devices.unregister("unknown", connection),
        devices.unregister("t1", connection, recipient="u2"),
        devices.unregister("t1", connection),
    ]


def test_silent_devices_are_pruned_with_a_reason(connection: sa.Connection) -> None:
    for token, days in (("old", 271), ("young", 269)):
        devices.register("u1", token, connection)
        age(connection, token, timedelta(days=days))
    assert [1, 0] == [devices.prune_stale(connection), devices.prune_stale(connection)]
    assert ["young"] == tokens("u1", connection)
    assert ["stale"] == [one.deactivated_reason for one in devices.list("u1", connection, active=False)]
    assert 1 == devices.prune_stale(connection, older_than=timedelta(days=200))


def test_dead_tokens_are_deactivated_with_fcms_word_and_restored(connection: sa.Connection) -> None:
    for token in ("t1", "t2", "t3", "dropped"):
        devices.register("u1", token, connection)
    codes = {"t1": "UNREGISTERED", "t2": "SENDER_ID_MISMATCH", "dropped": "UNREGISTERED", "unknown": "UNREGISTERED"}
    assert 3 == devices.deactivate(codes, connection)
    devices.unregister("dropped", connection)
    found = {one.token: one.deactivated_reason for one in devices.list("u1", connection)}
    assert {"t1": "UNREGISTERED", "t2": "SENDER_ID_MISMATCH", "t3": None, "dropped": "unregistered"} == found
    assert 2 == devices.restore([*codes, "t3"], connection)
    assert ["t1", "t2", "t3"] == sorted(tokens("u1", connection))


def test_a_dead_token_that_was_replaced_is_not_restored(connection: sa.Connection) -> None:
    devices.register("u1", "old", connection, installation="i1")
    devices.register("u1", "tablet", connection, installation="i2")
    devices.deactivate({"old": "UNREGISTERED", "tablet": "UNREGISTERED"}, connection)
    devices.register("u1", "new", connection, installation="i1")
    assert 1 == devices.restore(["old", "tablet"], connection)
    assert ["new", "tablet"] == sorted(tokens("u1", connection))


def test_addresses_of_many_in_one_query(connection: sa.Connection) -> None:
    devices.register("u1", "t1", connection)
    devices.register("u1", "t2", connection, app="driver")
    devices.register("u2", "fid1", connection, kind="fid")
    found = devices.active_addresses(["u1", "u2", "u3"], connection)
    assert {"u1": ["t1", "t2"], "u2": ["fid:fid1"]} == found
    assert {"u1": ["t2"]} == devices.active_addresses(["u1", "u2"], connection, app="driver")


def test_an_erased_recipient_has_no_devices(connection: sa.Connection) -> None:
    devices.register("u1", "t1", connection)
    devices.register("u2", "t2", connection)
    assert 1 == sendoff_erase("u1", connection)
    assert ["u2"] == [one.recipient for one in devices.list(None, connection)]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"token": ""}, "token"),
        ({"token": "a b"}, "token"),
        ({"token": "a\n"}, "token"),
        ({"token": "x" * 1025}, "token"),
        ({"recipient": " "}, "recipient"),
        ({"platform": 7}, "platform"),
        ({"app": "a\0"}, "app"),
        ({"app": "\ud800"}, "app"),
        ({"kind": "topic"}, "kind"),
        ({"kind": []}, "kind"),
        ({"token": "/topics/news"}, "token"),
        ({"token": "fid:abc"}, "token"),
        ({"token": "fid:abc", "kind": "fid"}, "token"),
    ],
)
def test_what_is_no_device_is_refused(values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidNotification) as refused:
        devices.register(**{"recipient": "u1", "token": "t", "connection": None, **values})
    assert field == refused.value.field


# -------------------------------------------------------------------------------------------- the caller's transaction


def test_a_rollback_leaves_nothing(engine: sa.Engine) -> None:
    with Session(engine) as db:
        devices.register("u1", "t1", db, installation="i1")
        db.rollback()
        devices.register("u1", "t2", db, installation="i1")
        db.commit()
    with engine.begin() as connection:
        assert ["t2"] == tokens("u1", connection)


def test_a_psycopg_connection(empty_postgres_url: str) -> None:
    from plugins.fcm.tests.conftest import upgrade
    from sendoff.store.engine import make_engine

    engine = make_engine(empty_postgres_url)
    with engine.begin() as made:
        upgrade(made)
    engine.dispose()
    with psycopg.connect(empty_postgres_url, row_factory=psycopg.rows.dict_row) as connection:
        assert devices.register("u1", "t1", connection, installation="100% i").active
        assert ["t1"] == tokens("u1", connection)
        assert [0, True] == [devices.prune_stale(connection), devices.unregister("t1", connection)]


def test_a_sqlite3_connection(tmp_path: Any) -> None:
    from plugins.fcm.tests.conftest import upgrade
    from sendoff.store.engine import make_engine

    engine = make_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.begin() as made:
        upgrade(made)
    engine.dispose()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.row_factory = sqlite3.Row
        assert devices.register("u1", "t1", connection).active
        assert ["t1"] == tokens("u1", connection)
        assert [0, 1] == [devices.prune_stale(connection), devices.erase("u1", connection)]


def test_other_connections_are_named(sqlite_engine: sa.Engine) -> None:
    for wrong in (sqlite_engine, object(), None):
        with pytest.raises(TypeError, match=r"pass an SQLAlchemy Connection or Session"):
            devices.register("u1", "t1", wrong)


# ------------------------------------------------------------------------------------------------------------ the table


def test_the_revision_makes_what_the_model_says(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_name": lambda name, kind, _: kind != "table" or name == TABLE}
        )
        assert [] == compare_metadata(context, metadata)


def test_looking_up_addresses_takes_the_index(empty_postgres_url: str) -> None:
    from plugins.fcm.tests.conftest import upgrade
    from sendoff.store.engine import make_engine

    engine = make_engine(empty_postgres_url)
    with engine.begin() as connection:
        upgrade(connection)
        connection.exec_driver_sql(
            "INSERT INTO sendoff_device (token, recipient, kind, active, created_at, last_seen_at) "
            "SELECT 't' || n, 'u' || n, 'token', true, now(), now() FROM generate_series(1, 20000) AS n"
        )
        connection.exec_driver_sql("ANALYZE sendoff_device")
        statements: list[str] = []
        sa.event.listen(connection, "before_cursor_execute", lambda *call: statements.append(call[2]))
        assert {"u7": ["t7"]} == devices.active_addresses(["u7", "nobody"], connection)
        [statement] = statements
        plan = connection.exec_driver_sql(f"EXPLAIN {statement}", {"items": '["u7", "nobody"]'}).scalars()
        assert any("sendoff_device_active" in line for line in plan)
    engine.dispose()
