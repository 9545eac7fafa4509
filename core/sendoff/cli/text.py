"""Words for people: durations, moments and text that a terminal shows as it is."""

from __future__ import annotations

import re
from datetime import UTC, datetime

__all__ = ["ago", "clock", "count", "plain", "relative", "span"]

#: Control characters, among them the escapes that drive a terminal, and the marks that reorder a line.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NEWLINES = re.compile(r"[ \t]*(?:\r\n|[\n\r\t\v\f\u2028\u2029])[ \t]*")


def plain(text: str) -> str:
    """``text`` on one line, harmless to a terminal: what a row's reason says must not drive it."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", _NEWLINES.sub(" ", text))


def span(seconds: float, *, parts: int = 2) -> str:
    """A duration in its two largest units: ``42 s``, ``3 min``, ``2 h 5 min``, ``4 d 1 h``; or in one."""
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "0 s"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    for index, (name, size) in enumerate(units):
        if whole >= size:
            largest = f"{whole // size} {name}"
            # Hours beside months tell nobody anything.
            if parts == 1 or index + 1 == len(units) or whole >= 100 * size:
                return largest
            below, below_size = units[index + 1]
            rest = whole % size // below_size
            return f"{largest} {rest} {below}" if rest else largest
    return "0 s"


def relative(moment: datetime, now: datetime, *, parts: int = 2) -> str:
    """``3 min ago``, ``in 2 h``, ``now``."""
    seconds = (moment - now).total_seconds()
    if abs(seconds) < 1:
        return "now"
    told = span(abs(seconds), parts=parts)
    return f"in {told}" if seconds > 0 else f"{told} ago"


def ago(moment: datetime | None, now: datetime) -> str:
    """:func:`relative` in one unit, as a table has room for; nothing for no moment."""
    return "" if moment is None else relative(moment, now, parts=1)


def clock(moment: datetime) -> str:
    """A moment to the second, in UTC, spelled out."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
