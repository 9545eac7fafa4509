"""Column types: one meaning on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite

from sendoff.types import EPOCH, Json, UtcTime, Uuid, from_micros, to_micros

POSTGRESQL: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves this one untyped
SQLITE: Dialect = sqlite.dialect()
MOMENT = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
KEY = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def stored(type_: sa.types.TypeDecorator[Any], value: object, dialect: Dialect) -> Any:
    return type_.process_bind_param(value, dialect)


def loaded(type_: sa.types.TypeDecorator[Any], value: object, dialect: Dialect) -> Any:
    return type_.process_result_value(value, dialect)


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))])))
def test_a_moment_is_exact_to_the_microsecond(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_moments_sort_on_sqlite_as_they_do_in_time(first: datetime, second: datetime) -> None:
    assert (stored(UtcTime(), first, SQLITE) < stored(UtcTime(), second, SQLITE)) == (first < second)


def test_before_1970_counts_down() -> None:
    assert to_micros(EPOCH - timedelta(microseconds=1)) == -1


@pytest.mark.parametrize("dialect", [POSTGRESQL, SQLITE], ids=["postgresql", "sqlite"])
def test_a_moment_is_read_in_utc(dialect: Dialect) -> None:
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=-7)))
    kept = stored(UtcTime(), elsewhere, dialect)
    back = loaded(UtcTime(), kept, dialect)
    assert back == MOMENT
    assert back.tzinfo is UTC


@pytest.mark.parametrize("dialect", [POSTGRESQL, SQLITE], ids=["postgresql", "sqlite"])
def test_a_moment_without_a_zone_is_refused(dialect: Dialect) -> None:
    with pytest.raises(ValueError, match="time zone"):
        stored(UtcTime(), MOMENT.replace(tzinfo=None), dialect)


@pytest.mark.parametrize("dialect", [POSTGRESQL, SQLITE], ids=["postgresql", "sqlite"])
@pytest.mark.parametrize("type_", [UtcTime(), Uuid(), Json()], ids=["time", "uuid", "json"])
def test_nothing_stays_nothing(type_: sa.types.TypeDecorator[Any], dialect: Dialect) -> None:
    assert stored(type_, None, dialect) is None
    assert loaded(type_, None, dialect) is None


@pytest.mark.parametrize("given_as", [KEY, str(KEY), str(KEY).upper()])
@pytest.mark.parametrize("dialect", [POSTGRESQL, SQLITE], ids=["postgresql", "sqlite"])
def test_an_id_may_be_given_as_text(dialect: Dialect, given_as: UUID | str) -> None:
    assert loaded(Uuid(), stored(Uuid(), given_as, dialect), dialect) == KEY


def test_ids_on_sqlite_sort_like_the_text_they_are() -> None:
    assert stored(Uuid(), KEY, SQLITE) == str(KEY)


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True]}, [], "é😀", 0, {"ключ": "значение"}])
def test_json_comes_back_from_sqlite_as_it_went_in(value: object) -> None:
    assert loaded(Json(), stored(Json(), value, SQLITE), SQLITE) == value


@pytest.mark.parametrize(
    ("type_", "on_postgresql", "on_sqlite"),
    [(UtcTime(), "TIMESTAMP WITH TIME ZONE", "BIGINT"), (Uuid(), "UUID", "VARCHAR(36)"), (Json(), "JSON", "TEXT")],
)
def test_what_a_column_is_declared_as_never_changes(
    type_: sa.types.TypeDecorator[Any], on_postgresql: str, on_sqlite: str
) -> None:
    """Released revisions use these types: another column type is a new type with a new name."""
    assert type_.compile(POSTGRESQL) == on_postgresql
    assert type_.compile(SQLITE) == on_sqlite


def test_a_real_column_takes_and_gives_all_of_them() -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("at", UtcTime), sa.Column("id", Uuid), sa.Column("what", Json))
    with sa.create_engine("sqlite://").connect() as connection:
        table.create(connection)
        connection.execute(table.insert(), {"at": MOMENT, "id": KEY, "what": {"n": 1}})
        assert connection.execute(table.select().where(table.c.at <= MOMENT)).one() == (MOMENT, KEY, {"n": 1})
        assert connection.execute(table.select().where(table.c.id == str(KEY))).one()
