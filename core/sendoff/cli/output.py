"""What commands print: tables (from the module beside this one), JSON for programs, progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TextIO
from uuid import UUID

import orjson

from sendoff.cli.tables import Column, console, facts, lines, table
from sendoff.cli.text import plain

if TYPE_CHECKING:
    import cattrs

    from sendoff.cli.options import Cli

__all__ = [
    "Column",
    "Progress",
    "console",
    "facts",
    "lines",
    "only_json",
    "print_json",
    "progress",
    "table",
    "unstructure",
]


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
    stream = _stdout_of_json.get() or sys.stdout
    stream.buffer.write(orjson.dumps(unstructure(value), option=orjson.OPT_APPEND_NEWLINE))
    stream.flush()


_stdout_of_json: ContextVar[TextIO | None] = ContextVar("sendoff_stdout_of_json", default=None)


@contextmanager
def only_json() -> Iterator[None]:
    """JSON goes to stdout during the block, and whatever plugins print goes to stderr."""
    token = _stdout_of_json.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _stdout_of_json.reset(token)


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
