"""Tables that keep to a terminal's width, and to one line a row in a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from sendoff.cli.tables import Column, table

ID = "01936d5e-0000-7000-8000-000000000001"
COLUMNS: list[Column | str] = [
    Column("id", fixed=True),
    "recipient",
    Column("rows", numeric=True),
    Column("note", fluid=True),
]
ROWS = [
    (ID, "somebody@example.org", 12345, "the provider said that it is busy and to try again later"),
    (ID, "u2", 0, ""),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    table(COLUMNS, ROWS)
    return terminal.getvalue().splitlines()


def test_running_text_wraps_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_terminal(100, monkeypatch) == [
        "id                                    recipient               rows  note",
        f"{ID}  somebody@example.org  12,345  the provider said that it is",
        "                                                                    busy and to try again later",
        f"{ID}  u2                         0",
    ]


def test_running_text_moves_below_its_row_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_terminal(80, monkeypatch) == [
        "id                                    recipient               rows",
        f"{ID}  somebody@example.org  12,345",
        "  note: the provider said that it is busy and to try again later",
        f"{ID}  u2                         0",
    ]


def test_what_may_be_cut_is_cut_before_an_id_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_terminal(56, monkeypatch) == [
        "id                                   recipient      rows",
        f"{ID} somebody@ex\N{HORIZONTAL ELLIPSIS} 12,345",
        "  note: the provider said that it is busy and to try",
        "  again later",
        f"{ID} u2                0",
    ]


def test_a_terminal_that_is_too_narrow_for_a_table_gets_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_terminal(48, monkeypatch) == [
        f"id         {ID}",
        "recipient  somebody@example.org",
        "rows       12,345",
        "note       the provider said that it is busy and",
        "           to try again later",
        "",
        f"id         {ID}",
        "recipient  u2",
        "rows       0",
    ]


@pytest.mark.parametrize("width", [20, 30, 45, 60, 79, 101])
def test_no_line_is_wider_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_terminal(width, monkeypatch)

    assert [line for line in shown if len(line) > width] == []


def test_running_text_that_nobody_wrote_takes_no_room(capsys: pytest.CaptureFixture[str]) -> None:
    table(["a", Column("reason", fluid=True)], [("x", None), ("y", "")])

    assert capsys.readouterr().out == "a\nx\ny\n"
