"""The values of options: durations, moments, choices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

from sendoff.cli.values import CHANNELS, DURATION, PAST, SOON, Choice


def convert(kind: Any, text: str) -> Any:
    return kind.convert(text, None, None)


def refused(kind: Any, text: str) -> str:
    with pytest.raises(click.BadParameter) as caught:
        convert(kind, text)
    return caught.value.message


def test_durations_have_units() -> None:
    assert [convert(DURATION, text) for text in ("90", "1h30m", "250ms", "2d")] == [
        timedelta(seconds=90),
        timedelta(minutes=90),
        timedelta(milliseconds=250),
        timedelta(days=2),
    ]
    assert refused(DURATION, "soon") == "'soon' is not a duration; write seconds or 30s, 10m, 24h"
    assert refused(DURATION, "0") == "'0' is not above zero"
    assert "is not above zero" in refused(DURATION, "-5")


def test_moments_have_a_time_zone() -> None:
    assert convert(PAST, "2026-12-01T09:00:00+01:00") == datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
    assert convert(PAST, "2026-12-01T08:00:00Z") == datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
    assert refused(PAST, "2026-12-01T09:00:00") == (
        "'2026-12-01T09:00:00' has no time zone; write 2026-12-01T09:00:00Z for UTC, or its offset such as +01:00"
    )
    assert refused(SOON, "2026-12-01").startswith("'2026-12-01' has no time zone")
    assert "is not a date and time" in refused(SOON, "tomorrow")


def test_durations_count_from_now_into_the_past_or_the_future() -> None:
    before = datetime.now(UTC)
    past, soon = convert(PAST, "2h"), convert(SOON, "2h")
    after = datetime.now(UTC)

    two_hours = timedelta(hours=2)
    assert before - two_hours <= past <= after - two_hours
    assert before + two_hours <= soon <= after + two_hours


def test_a_span_beyond_all_calendars_is_refused_like_any_other_nonsense() -> None:
    assert "is not a date and time" in refused(SOON, "99999999999d")


def test_names_are_separated_by_commas() -> None:
    assert convert(CHANNELS, "inbox, sms,,inbox") == ["inbox", "sms"]
    assert "names nothing" in refused(CHANNELS, " , ")


def test_a_near_miss_is_told_the_word_it_meant() -> None:
    kind = Choice(["pending", "sent", "no_target"])

    assert [convert(kind, text) for text in ("Sent", "no-target")] == ["sent", "no_target"]
    assert refused(kind, "pendign") == "'pendign' is not known; did you mean 'pending'?"
    assert refused(kind, "xyz") == "'xyz' is not known; one of: pending, sent, no_target"
