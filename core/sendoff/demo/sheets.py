"""Reading a CSV for the accounts: nothing of it is shared with the example's loader."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

__all__ = ["sheet"]


def sheet(path: Path) -> Iterator[list[str]]:
    """The lines below the header that are not blank."""
    text = path.read_bytes().decode("utf-8").removeprefix("\N{BYTE ORDER MARK}")
    rows = csv.reader(StringIO(text, newline=""))
    next(rows)
    return (fields for fields in rows if "".join(fields).strip())
