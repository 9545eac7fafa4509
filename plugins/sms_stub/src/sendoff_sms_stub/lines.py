"""Appending JSON lines that several processes may write at once."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from json import dumps
from pathlib import Path
from typing import Any

__all__ = ["append"]

MODE = 0o600


def append(path: Path, entry: Mapping[str, Any]) -> None:
    """Append ``entry`` as one line of ASCII JSON. :class:`OSError` where that cannot be done.

    One ``write`` to a file opened with O_APPEND: on a local file system the kernel puts each at the end, whole and
    unmixed, whoever else writes (POSIX.1-2017, ``write()``). The file is for its owner only: it holds phone numbers.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = dumps(entry, separators=(",", ":")).encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, MODE)
    try:
        written = os.write(descriptor, line)
        if written != len(line):
            # A full disk takes a part. Ending that line keeps the next one whole; readers skip what does not parse.
            os.write(descriptor, b"\n")
            raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes", str(path))
    finally:
        os.close(descriptor)
