"""What commands print: JSON for programs, tables for people, progress on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from sendoff.cli.text import plain

if TYPE_CHECKING:
    import cattrs
    from rich.console import Console

    from sendoff.cli.options import Cli

__all__ = ["Column", "Progress", "console", "facts", "lines", "print_json", "progress", "table", "unstructure"]

#: Nothing is cut or wrapped where the reader is a program: one row is one line, however long.
PIPE_WIDTH = 100_000


# ------------------------------------------------------------------------------------------------------------ JSON


@cache
def _converter() -> cattrs.Converter:
    import cattrs

    converter = cattrs.Converter()
    converter.register_unstructure_hook(datetime, _moment)
    converter.register_unstructure_hook(timedelta, _seconds)
    converter.register_unstructure_hook(UUID, str)
    converter.register_unstructure_hook_func(_is_enum, _enum)
    converter.register_unstructure_hook_func(_is_path, str)
    converter.register_unstructure_hook_func(_is_sequence, _items)
    return converter


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _is_path(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, PurePath)


def _is_sequence(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple | set | frozenset)


def _items(value: Iterable[Any]) -> list[Any]:
    return [unstructure(item) for item in value]


def _enum(value: Enum) -> Any:
    return value.value


def _seconds(value: timedelta) -> float:
    return value.total_seconds()


def _moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def unstructure(value: object) -> Any:
    """``value`` as plain JSON: UUIDs as text, moments as ISO 8601 in UTC, durations as seconds, enums as values."""
    return _converter().unstructure(value)


def print_json(value: object) -> None:
    """One JSON document on one line of stdout, in UTF-8 whatever the terminal thinks."""
    sys.stdout.buffer.write(orjson.dumps(unstructure(value), option=orjson.OPT_APPEND_NEWLINE))


# ---------------------------------------------------------------------------------------------------------- tables


class Column:
    """One column of a table: ``numeric`` ones are aligned right, ``fixed`` ones are never cut, ``fluid`` ones wrap."""

    def __init__(self, title: str, *, numeric: bool = False, fixed: bool = False, fluid: bool = False) -> None:
        self.title = title
        self.numeric = numeric
        self.fixed = fixed
        self.fluid = fluid


def console(*, stderr: bool = False) -> Console:
    """A rich console: colours on a terminal only, none at all with NO_COLOR, and no guessing at content."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    terminal = stream.isatty()
    return Console(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        force_terminal=terminal,
        # None is no escape sequence of any kind, bold included.
        color_system="auto" if terminal and not os.environ.get("NO_COLOR") else None,
        width=None if terminal else PIPE_WIDTH,
    )


def table(columns: Sequence[Column | str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under their titles. On a terminal it keeps to the width; elsewhere one row is exactly one line."""
    from rich.table import Table

    out = console()
    grid = Table(box=None, pad_edge=False, header_style="bold", show_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        spec = column if isinstance(column, Column) else Column(column)
        grid.add_column(
            spec.title,
            justify="right" if spec.numeric else "left",
            no_wrap=not out.is_terminal or not (spec.fluid or spec.fixed),
            overflow="fold" if spec.fixed or spec.fluid else "ellipsis",
        )
    for row in rows:
        grid.add_row(*(_cell(value) for value in row))
    with out.capture() as captured:
        out.print(grid)
    _write(captured.get())


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values below each other; pairs without a value are left out."""
    from rich.table import Table

    out = console()
    grid = Table(box=None, show_header=False, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=not out.is_terminal, overflow="fold")
    for name, value in pairs:
        if value not in (None, ""):
            grid.add_row(_cell(name), _cell(value))
    with out.capture() as captured:
        out.print(grid)
    _write(captured.get())


def lines(*texts: str) -> None:
    """Sentences, each harmless to a terminal."""
    _write("".join(f"{plain(text)}\n" for text in texts))


def _cell(value: object) -> Any:
    from rich.text import Text

    if value is None:
        return Text("")
    return Text(f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else plain(str(value)))


def _write(text: str) -> None:
    """Without the blanks that rich fills lines with: they wrap on a terminal and disturb a pipe."""
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in text.splitlines()))


# -------------------------------------------------------------------------------------------------------- progress


class Progress:
    """Tells how far long work is; says nothing where nobody watches."""

    def __init__(self, display: Any = None, task: Any = None) -> None:
        self._display = display
        self._task = task

    def set(self, done: int, text: str = "", total: int | None = None) -> None:
        """``done`` of ``total`` is through; ``text`` says more."""
        if self._display is not None:
            self._display.update(self._task, completed=done, total=total, note=plain(text))


@contextmanager
def progress(cli: Cli, title: str) -> Iterator[Progress]:
    """A line on the terminal's stderr that goes away when the work is done; nothing when piped or with ``--json``."""
    if cli.as_json or not sys.stderr.isatty():
        yield Progress()
        return
    from rich import progress as rich_progress

    display = rich_progress.Progress(
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(bar_width=24),
        rich_progress.TextColumn("{task.completed:,}", markup=False),
        rich_progress.TextColumn("{task.fields[note]}", markup=False),
        rich_progress.TimeElapsedColumn(),
        console=console(stderr=True),
        transient=True,
    )
    with display:
        yield Progress(display, display.add_task(title, total=None, note=""))
