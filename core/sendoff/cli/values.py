"""Kinds of option values: moments with a time zone, durations, lists of names, ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import click

from sendoff.errors import InvalidNotification, nearest

__all__ = ["CHANNELS", "DURATION", "PAST", "SOON", "STATUSES", "VERDICTS", "Choice", "moment", "seconds"]

STATUSES = ("pending", "waiting", "sent", "delivered", "dead", "cancelled", "expired")
VERDICTS = ("sent", "no_target", "retryable", "permanent", "outage")


def moment(text: str, field: str) -> datetime:
    """An ISO 8601 moment; :class:`~sendoff.InvalidNotification` says what is missing."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidNotification(
            field, "is not a date and time; write it as 2026-12-01T09:00:00+01:00 or 2026-12-01T08:00:00Z", kind="text"
        ) from None
    if found.tzinfo is None:
        raise InvalidNotification(
            field,
            f"has no time zone; write {found.isoformat(timespec='seconds')}Z for UTC, or its offset such as +01:00",
            kind="naive datetime",
        )
    return found


def seconds(text: str | float, field: str) -> timedelta:
    """A duration such as ``90``, ``30s``, ``1h30m``, ``2d``."""
    from sendoff.settings import duration

    try:
        return timedelta(seconds=duration(text))
    except OverflowError:
        raise InvalidNotification(field, f"{text!r} is longer than anybody can wait", value=text) from None
    except ValueError as error:
        raise InvalidNotification(field, str(error), value=text) from None


class _Duration(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            found = seconds(value, "duration")
        except InvalidNotification as error:
            self.fail(error.problem, param, ctx)
        if found <= timedelta():
            self.fail(f"{value!r} is not above zero", param, ctx)
        return found


class _Moment(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """A moment with a time zone, or a duration counted from now: into the past, or into the future."""

    name = "moment"

    def __init__(self, direction: Literal[-1, 1]) -> None:
        self._direction = direction

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return datetime.now(UTC) + self._direction * seconds(value, "moment")
        except (InvalidNotification, OverflowError):
            pass
        try:
            return moment(value, "moment")
        except InvalidNotification as error:
            self.fail(f"{value!r} {error.problem}", param, ctx)


class _Names(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """``a,b``."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        if isinstance(value, list):
            return value
        found = [name.strip() for name in value.split(",") if name.strip()]
        if not found:
            self.fail("names nothing; write one or more names, separated by commas", param, ctx)
        return list(dict.fromkeys(found))


class Choice(click.Choice):  # type: ignore[type-arg]  # generic only in newer clicks
    """One of some words; a near miss is told the word it meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        word = str(value).lower().replace("-", "_")
        if word in self.choices:
            return word
        guess = nearest(word, self.choices)
        meant = f"did you mean {guess!r}?" if guess else f"one of: {', '.join(self.choices)}"
        raise click.BadParameter(f"{value!r} is not known; {meant}", ctx, param)


DURATION = _Duration()
PAST = _Moment(-1)
SOON = _Moment(1)
CHANNELS = _Names()
