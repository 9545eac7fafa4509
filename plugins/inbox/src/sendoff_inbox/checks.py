"""What callers of the feed hand in, checked before any statement runs. An endpoint may pass on what its client said."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from sendoff import ConfigurationError, SendoffError
from sendoff.plugin import Executor, executor_for
from sendoff_inbox.entry import Entry

__all__ = [
    "MAX_IDS",
    "MAX_LIMIT",
    "Ids",
    "InvalidInput",
    "Position",
    "executor",
    "flag",
    "ids",
    "limit",
    "moment",
    "position",
    "seconds",
    "text",
]

#: An entry, or its id.
Position = Entry | UUID | str
#: One of them, or several.
Ids = Position | Iterable[Position]

MAX_LIMIT = 500
MAX_IDS = 10_000
#: What neither database stores in a text.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class InvalidInput(SendoffError, ValueError):
    """An argument that means nothing, whatever is in the feed: an endpoint answers 400. ``.field``, ``.problem``."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field} {problem}")


def executor(connection: object) -> Executor:
    """The caller's connection; :class:`~sendoff.ConfigurationError` names what it could be."""
    if connection is None:
        raise ConfigurationError(
            "connection is None: pass the SQLAlchemy, psycopg or Django connection of a transaction"
        )
    return executor_for(connection)


def text(field: str, value: object) -> str:
    """Text with something in it that can be in a table."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text (got {type(value).__name__})")
    if not value.strip():
        raise InvalidInput(field, "is empty")
    if _UNSTORABLE.search(value):
        raise InvalidInput(field, "has a NUL character or a lone surrogate, which no entry has")
    return value


def limit(value: object, most: int = MAX_LIMIT) -> int:
    """A number of entries."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidInput("limit", f"must be a whole number from 1 to {most} (got {_shown(value)})")
    return value


def flag(field: str, value: object) -> bool:
    """True or False, and nothing that is only taken for one: "false" out of a query string is true."""
    if not isinstance(value, bool):
        raise InvalidInput(field, f"must be True or False (got {_shown(value)})")
    return value


def seconds(field: str, value: object) -> float:
    """A span of time, above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise InvalidInput(field, f"must be a number of seconds above 0 (got {_shown(value)})")
    return float(value)


def position(field: str, value: object) -> UUID:
    """The id of an entry, whether there is such an entry or not."""
    if isinstance(value, Entry):
        return value.id
    if isinstance(value, UUID):
        return value
    if isinstance(value, str):
        try:
            return UUID(value)
        except ValueError:
            pass
    raise InvalidInput(field, f"must be an entry or its id (got {_shown(value)})")


def ids(value: object) -> list[UUID]:
    """Ids, each once, in order."""
    if isinstance(value, Entry | UUID | str):
        return [position("ids", value)]
    if not isinstance(value, Iterable) or isinstance(value, bytes):
        raise InvalidInput("ids", f"must be an id or several (got {_shown(value)})")
    found: dict[UUID, None] = {}
    for index, one in enumerate(value):
        found[position(f"ids[{index}]", one)] = None
        if len(found) > MAX_IDS:
            raise InvalidInput("ids", f"are more than {MAX_IDS}; give fewer at a time")
    return sorted(found)


def moment(field: str, value: object) -> datetime | UUID:
    """A moment with its time zone, or the entry up to which."""
    if not isinstance(value, datetime):
        return position(field, value)
    if value.utcoffset() is None:
        raise InvalidInput(field, "is a moment without a time zone")
    return value


def _shown(value: Any) -> str:
    """A value in an error: short, and only of the kinds that can hold no content."""
    return repr(value)[:60] if isinstance(value, int | float | str) else type(value).__name__
