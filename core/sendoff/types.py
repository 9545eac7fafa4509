"""Column types that mean the same on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from attrs import Attribute
from sqlalchemy import BigInteger, DateTime, Dialect, String, Text, types
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from sendoff.errors import ConfigurationError

__all__ = ["EPOCH", "Json", "UtcTime", "Uuid", "aware", "from_micros", "to_micros"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 (UTC), exactly."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """The reverse of :func:`to_micros`."""
    return EPOCH + timedelta(microseconds=micros)


def aware(_: Any, attribute: Attribute[Any], value: Any) -> None:
    """For attrs: a moment that people give needs a time zone."""
    if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
        raise ConfigurationError(f"{attribute.name} must be a datetime with a time zone (got {value!r})")


class UtcTime(types.TypeDecorator[datetime]):
    """A moment: ``timestamptz`` on PostgreSQL; on SQLite microseconds since 1970 as an integer, so that times compare
    exactly. Always timezone-aware in Python, always UTC when read."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(BigInteger() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment needs a time zone")
        return to_micros(value) if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return from_micros(value) if dialect.name == "sqlite" else value.astimezone(UTC)


class Uuid(types.TypeDecorator[UUID]):
    """``uuid`` on PostgreSQL; on SQLite its 36 characters, which sort like the id."""

    impl = String(36)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(String(36) if dialect.name == "sqlite" else postgresql.UUID(as_uuid=True))

    def process_bind_param(self, value: UUID | str | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        return str(value) if dialect.name == "sqlite" else UUID(str(value))

    def process_result_value(self, value: Any, dialect: Dialect) -> UUID | None:
        if value is None:
            return None
        return value if isinstance(value, UUID) else UUID(str(value))


class Json(types.TypeDecorator[Any]):
    """``json`` on PostgreSQL (the text as it was written), ``text`` on SQLite."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else postgresql.JSON())

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        return self

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return None
        return orjson.dumps(value).decode() if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        # PostgreSQL's driver has read the JSON already: what is text there is a text in it.
        return orjson.loads(value) if dialect.name == "sqlite" and value is not None else value
