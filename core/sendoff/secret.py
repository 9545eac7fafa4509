"""Secrets: values that are read late, shown never."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sendoff.errors import SecretError

__all__ = ["Secret", "scrub"]

MASK = "********"
#: Shorter values would mask ordinary words of a reason.
SHORTEST_SCRUBBED = 4

_revealed: set[str] = set()
_lock = threading.Lock()


class Secret:
    """A value from ``{env = "NAME"}``, ``{file = "path"}`` or, in code only, a literal.

    It is resolved by :meth:`reveal`, not before, so that a process which only enqueues needs none. ``repr`` and
    ``str`` are masked. Every revealed value is scrubbed from reasons and logs by :func:`scrub`.
    """

    __slots__ = ("_cached", "_env", "_file", "_literal")

    def __init__(self, literal: str | None = None, *, env: str | None = None, file: str | None = None) -> None:
        if sum(source is not None for source in (literal, env, file)) != 1:
            raise SecretError('a secret needs exactly one source: {env = "NAME"} or {file = "path"}')
        self._literal = literal
        self._env = env
        self._file = file
        self._cached: str | None = None

    @classmethod
    def parse(cls, value: object) -> Secret:
        """From settings: a mapping with ``env`` or ``file``, or a plain string (an environment variable's value)."""
        if isinstance(value, Secret):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Mapping) and len(value) == 1:
            [(source, name)] = value.items()
            if source in {"env", "file"} and isinstance(name, str) and name:
                return cls(**{source: name})
        raise SecretError(f'a secret is {{env = "NAME"}} or {{file = "path"}} (got {type(value).__name__})')

    @property
    def source(self) -> str:
        """Where the value comes from, for people: ``env NAME``, ``file PATH`` or ``given``."""
        if self._env is not None:
            return f"env {self._env}"
        return f"file {self._file}" if self._file is not None else "given"

    def reveal(self) -> str:
        """The value, read once and kept until :meth:`forget`.

        Raises :class:`SecretError` when its source is missing, unreadable or empty.
        """
        if self._cached is None:
            self._cached = self._read()
            if len(self._cached) >= SHORTEST_SCRUBBED:
                with _lock:
                    _revealed.update(_spellings(self._cached))
        return self._cached

    def forget(self) -> None:
        """Read the source afresh next time: a rotated credential works after an outage without a restart."""
        self._cached = None

    def _read(self) -> str:
        if self._literal is not None:
            value = self._literal
        elif self._env is not None:
            value = os.environ.get(self._env, "")
            if not value:
                raise SecretError(f"the environment variable {self._env} is not set or empty")
        else:
            path = Path(self._file or "")
            try:
                value = path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise SecretError(f"the secret file {path} cannot be read: {type(error).__name__}") from None
        if not value:
            raise SecretError(f"the secret from {self.source} is empty")
        return value

    def __repr__(self) -> str:
        return f"Secret({self.source}: {MASK})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return (self._literal, self._env, self._file) == (other._literal, other._env, other._file)

    def __hash__(self) -> int:
        return hash((self._literal, self._env, self._file))

    def __reduce__(self) -> Any:
        raise SecretError("a secret does not leave its process: pass its source instead")


def _spellings(value: str) -> set[str]:
    """The value as it is, and as URLs spell it: in a query, in a path, and as lenient clients do."""
    return {value, quote(value, safe=""), quote(value), quote(value, safe="!$&'()*+,;=:/@")}


def scrub(text: str) -> str:
    """``text`` with every secret revealed so far masked. An HTTP client's error text contains the URL it called."""
    if not _revealed:
        return text
    with _lock:
        secrets = sorted(_revealed, key=len, reverse=True)
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MASK)
    return text
