"""Tables for people. They keep to a terminal's width; in a pipe one row is one line and nothing is cut."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sendoff.cli.text import plain

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Column", "console", "facts", "lines", "table"]

#: Nothing is cut or wrapped where the reader is a program.
PIPE_WIDTH = 100_000
#: Narrower than this, running text is put on a line of its own below its row.
FLUID_WIDTH = 24
#: Columns that may be cut keep so much.
SHORTEST = 6


class Column:
    """One column: ``numeric`` ones are aligned right, ``fixed`` ones are never cut, ``fluid`` ones are running
    text, which wraps."""

    def __init__(self, title: str, *, numeric: bool = False, fixed: bool = False, fluid: bool = False) -> None:
        self.title = title
        self.numeric = numeric
        self.fixed = fixed or numeric
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
        force_terminal=terminal,
        # None is no escape sequence of any kind, bold included.
        color_system="auto" if terminal and not os.environ.get("NO_COLOR") else None,
        width=None if terminal else PIPE_WIDTH,
    )


def table(columns: Sequence[Column | str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under their titles. Running text without any content is left out, and so is its column."""
    specs = [column if isinstance(column, Column) else Column(column) for column in columns]
    cells = [[_text(value) for value in row] for row in rows]
    kept = [index for index, spec in enumerate(specs) if not spec.fluid or any(row[index] for row in cells)]
    specs, cells = [specs[index] for index in kept], [[row[index] for index in kept] for row in cells]
    out = console()
    layout = _Layout(specs, cells, out.width)
    if layout.as_records:
        titles = [spec.title for spec in specs]
        for number, row in enumerate(cells):
            if number:
                lines("")
            facts(zip(titles, row, strict=True))
        return
    _write(layout.render(out))


class _Layout:
    """How a table fits a width: wrapped, with its running text below each row, cut, or as one record a row."""

    def __init__(self, specs: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> None:
        from rich.cells import cell_len

        self.specs = specs
        self.cells = cells
        self.gap = 2
        self.below: list[int] = []
        self.as_records = False
        self.widths = [
            max([cell_len(spec.title), *(cell_len(row[index]) for row in cells)]) for index, spec in enumerate(specs)
        ]
        self._fit(width)

    def _fit(self, width: int) -> None:
        if self._total() <= width:
            return
        fluid = [index for index, spec in enumerate(self.specs) if spec.fluid]
        if fluid:
            stiff = self._total() - sum(self.widths[index] for index in fluid)
            share = (width - stiff) // len(fluid)
            if share >= FLUID_WIDTH:
                for index in fluid:
                    self.widths[index] = min(self.widths[index], share)
                return
            self.below = fluid
        if self._total() > width:
            self.gap = 1
        while self._total() > width:
            cuttable = [i for i in self._across() if not self.specs[i].fixed and self.widths[i] > SHORTEST]
            if not cuttable:
                self.as_records = True
                return
            self.widths[max(cuttable, key=lambda index: self.widths[index])] -= 1

    def _across(self) -> list[int]:
        return [index for index in range(len(self.specs)) if index not in self.below]

    def _total(self) -> int:
        across = self._across()
        return sum(self.widths[index] for index in across) + self.gap * (len(across) - 1)

    def render(self, out: Console) -> str:
        """The table as text with the console's colours."""
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        grid = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, self.gap, 0, 0))
        across = self._across()
        for index in across:
            spec = self.specs[index]
            grid.add_column(
                spec.title,
                justify="right" if spec.numeric else "left",
                width=self.widths[index],
                no_wrap=not spec.fluid,
                overflow="fold" if spec.fluid else "ellipsis",
            )
        for row in self.cells:
            grid.add_row(*(Text(row[index]) for index in across))
        with out.capture() as captured:
            out.print(grid)
        if not self.below:
            return captured.get()
        # Nothing wraps now, so that line N + 1 is row N.
        printed = captured.get().splitlines()
        text = [printed[0]]
        for line, row in zip(printed[1:], self.cells, strict=True):
            text.append(line)
            for index in self.below:
                if row[index]:
                    with out.capture() as captured:
                        out.print(
                            Padding(Text(f"{self.specs[index].title}: {row[index]}", overflow="fold"), (0, 0, 0, 2))
                        )
                    text.append(captured.get().rstrip("\n"))
        return "\n".join(text)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values below each other; pairs without a value are left out."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    grid = Table(box=None, show_header=False, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=not out.is_terminal, overflow="fold")
    for name, value in pairs:
        if value not in (None, ""):
            grid.add_row(Text(name), Text(_text(value)))
    with out.capture() as captured:
        out.print(grid)
    _write(captured.get())


def lines(*texts: str) -> None:
    """Sentences, each harmless to a terminal."""
    sys.stdout.write("".join(f"{plain(text).rstrip()}\n" for text in texts))


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return plain(str(value))


def _write(text: str) -> None:
    """Without the blanks that rich fills lines with: they wrap on a terminal and disturb a pipe."""
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in text.removesuffix("\n").split("\n")))
