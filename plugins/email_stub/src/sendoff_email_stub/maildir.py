"""Writing into a maildir, so that a message is either there whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["deliver", "make_maildir"]

FOLDERS = ("tmp", "new", "cur")


def make_maildir(directory: Path) -> None:
    """The three folders of a maildir; nothing happens to those that are there."""
    for folder in FOLDERS:
        (directory / folder).mkdir(parents=True, exist_ok=True)


def deliver(directory: Path, stem: str, message: bytes) -> str:
    """Write one message into ``new`` and answer its file name, ``<stem>.<token>.eml``.

    The name is another one on each call, so two deliveries of one message are two files. The file is written in
    ``tmp``, forced to the disk, renamed, and the folder's entry forced as well: a file in ``new`` is complete, also
    after the machine lost power. :class:`OSError` where that cannot be done.
    """
    make_maildir(directory)
    name = f"{stem}.{secrets.token_hex(8)}.eml"
    draft = directory / "tmp" / name
    try:
        with draft.open("xb") as file:
            file.write(message)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(directory / "new" / name)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(directory / "new")
    return name


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows opens no folders, and writes entries through.
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
