"""Words for people: durations, moments, and text that cannot drive a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sendoff.cli.text import ago, clock, count, plain, relative, span

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-3, "0 s"),
        (0, "0 s"),
        (0.25, "250 ms"),
        (1, "1 s"),
        (2.53, "2.5 s"),
        (42, "42 s"),
        (59.7, "1 min"),
        (180, "3 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (86400 * 4 + 3700, "4 d 1 h"),
        (86400 * 400, "400 d"),
    ],
)
def test_durations_show_their_two_largest_units(seconds: float, expected: str) -> None:
    assert expected == span(seconds)


def test_moments_are_told_relative_to_now() -> None:
    assert relative(NOW - timedelta(minutes=3), NOW) == "3 min ago"
    assert relative(NOW + timedelta(hours=2), NOW) == "in 2 h"
    assert relative(NOW + timedelta(milliseconds=300), NOW) == "now"
    assert ago(None, NOW) == ""


def test_moments_are_shown_in_utc_wherever_they_come_from() -> None:
    berlin = timezone(timedelta(hours=1))

    assert clock(datetime(2026, 12, 1, 10, 0, tzinfo=berlin)) == "2026-12-01 09:00:00 UTC"


def test_counts_agree_with_their_noun() -> None:
    assert [count(0, "row"), count(1, "row"), count(2000, "row")] == ["0 rows", "1 row", "2,000 rows"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two\n  lines", "two lines"),
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        ("a\u202eb", "a\ufffdb"),
        ("a\x00b\ud800", "a\ufffdb\ufffd"),
        ("Grüße 🎉", "Grüße 🎉"),
    ],
)
def test_text_of_others_cannot_drive_a_terminal(text: str, expected: str) -> None:
    assert plain(text) == expected
