"""Tables for people and JSON for programs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from uuid import UUID

import attrs
import pytest

from sendoff.cli.output import Column, facts, lines, print_json, table, unstructure
from sendoff.notification import Enqueued, EnqueuedRow, Priority
from sendoff.report import EventView

ID = UUID("01936d5e-0000-7000-8000-000000000001")


class Colour(Enum):
    RED = "red"


@attrs.frozen
class Odd:
    span: timedelta
    colour: Colour
    path: Path
    words: tuple[str, ...]
    maybe: UUID | None


def test_json_is_what_a_method_returned_as_plain_values() -> None:
    answer = Enqueued(ID, (EnqueuedRow("inbox", "created", ID), EnqueuedRow("fcm", "suppressed", None, "muted")))

    assert unstructure(answer) == {
        "notification_id": "01936d5e-0000-7000-8000-000000000001",
        "rows": [
            {"channel": "inbox", "outcome": "created", "outgoing_id": str(ID), "reason": None},
            {"channel": "fcm", "outcome": "suppressed", "outgoing_id": None, "reason": "muted"},
        ],
    }


def test_moments_are_iso_8601_in_utc() -> None:
    event = EventView(at=datetime(2026, 12, 1, 10, 30, tzinfo=timezone(timedelta(hours=1))), kind="sent")

    assert unstructure([event]) == [{"at": "2026-12-01T09:30:00Z", "kind": "sent", "detail": {}}]


def test_durations_enums_paths_and_tuples_are_plain_too() -> None:
    odd = Odd(timedelta(minutes=1), Colour.RED, Path("a/b"), ("x", "y"), ID)

    expected = {"span": 60.0, "colour": "red", "path": "a/b", "words": ["x", "y"], "maybe": str(ID)}
    assert unstructure({"odd": odd, "priority": Priority.BULK}) == {"odd": expected, "priority": 2}


def test_json_is_one_line_of_utf8(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    print_json({"title": "Grüße 🎉"})

    assert capsysbinary.readouterr().out == '{"title":"Grüße 🎉"}\n'.encode()


def test_a_piped_table_has_one_line_a_row_and_nothing_a_pipe_would_mind(capsys: pytest.CaptureFixture[str]) -> None:
    table(
        ["name", Column("rows", numeric=True), Column("reason", fluid=True)],
        [("inbox", 12345, "x" * 300), ("[bold]sms[/bold]", 0, "two\nlines \x1b[31m")],
    )

    assert capsys.readouterr().out == (
        "name                rows  reason\n"
        f"inbox             12,345  {'x' * 300}\n"
        "[bold]sms[/bold]       0  two lines \ufffd[31m\n"
    )


def test_facts_leave_out_what_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    facts([("row", ID), ("reason", None), ("tries", 0), ("key", "")])

    assert capsys.readouterr().out == f"row    {ID}\ntries  0\n"


def test_sentences_stay_on_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines("one\ntwo", "", "three", "")

    assert capsys.readouterr().out == "one two\n\nthree\n\n"


def test_datetimes_without_rows_print_the_titles_alone(capsys: pytest.CaptureFixture[str]) -> None:
    table(["a", "b"], [])

    assert capsys.readouterr().out == "a  b\n"


def test_a_moment_in_a_detail_is_found_too() -> None:
    assert unstructure({"a": [datetime(2026, 12, 1, tzinfo=UTC)]}) == {"a": ["2026-12-01T00:00:00Z"]}
