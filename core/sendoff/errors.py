"""The error tree. Every error that sendoff raises on purpose is one of these.

::

    SendoffError                      catch this to catch them all
    ├── ConfigurationError            settings, environment, command line
    │   ├── UnknownSetting            .key .nearest
    │   ├── NoDatabaseUrl
    │   └── SecretError               a secret that cannot be read
    ├── PluginError                   .plugin
    │   ├── PluginBroken              an entry point that cannot be loaded or registered
    │   └── UnknownChannel            .channel .nearest
    ├── InvalidNotification           .field .kind .problem: what the caller can correct
    ├── NotFound                      .kind .key
    ├── NotPossible                   a request that the row's state does not allow
    └── StoreError                    .sqlstate .constraint: never the driver's text
        ├── StoreUnavailable          the database is away or busy: try again
        ├── NotMigrated               the schema is missing or older than this version needs
        └── MigrationTimeout          another process holds the migration lock

Messages never carry payloads, passwords or driver text: a message may end up in any log.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ConfigurationError",
    "InvalidNotification",
    "MigrationTimeout",
    "NoDatabaseUrl",
    "NotFound",
    "NotMigrated",
    "NotPossible",
    "PluginBroken",
    "PluginError",
    "SecretError",
    "SendoffError",
    "StoreError",
    "StoreUnavailable",
    "UnknownChannel",
    "UnknownSetting",
]


class SendoffError(Exception):
    """The root of every error that sendoff raises on purpose."""


class ConfigurationError(SendoffError):
    """Settings, environment or command line do not make sense together."""


class UnknownSetting(ConfigurationError):
    """A settings file has a key that nothing reads."""

    def __init__(self, key: str, known: Iterable[str], *, where: str) -> None:
        self.key = key
        self.nearest = nearest(key.rpartition(".")[2], known)
        super().__init__(f"{where}: unknown setting {key!r}{_hint(self.nearest, known)}")


class NoDatabaseUrl(ConfigurationError):
    """Nobody said which database to use."""

    def __init__(self) -> None:
        super().__init__(
            "no database URL: pass --database-url (or Sendoff(url)), set SENDOFF_DATABASE_URL, or write "
            "database_url under [sendoff] in sendoff.toml, such as postgresql://user@host/name or sqlite:///sendoff.db"
        )


class SecretError(ConfigurationError):
    """A secret names a variable that is not set or a file that cannot be read."""


class PluginError(SendoffError):
    """Something about a plugin."""

    def __init__(self, message: str, *, plugin: str) -> None:
        self.plugin = plugin
        super().__init__(message)


class PluginBroken(PluginError):
    """A plugin that cannot be loaded or registered; the others work on."""


class UnknownChannel(PluginError):
    """No loaded plugin provides a channel of this name."""

    def __init__(self, channel: str, known: Iterable[str]) -> None:
        self.channel = channel
        known = sorted(known)
        self.nearest = nearest(channel, known)
        super().__init__(f"unknown channel {channel!r}{_hint(self.nearest, known)}", plugin=channel)


class InvalidNotification(SendoffError, ValueError):
    """A notification that could never be delivered as it is; nothing was written for it.

    ``field`` is the path of the offending value (``data.order.total``), ``kind`` the value's kind
    (``float``), ``problem`` what is wrong with it and what would be right.
    """

    def __init__(self, field: str, problem: str, *, value: object = None, kind: str | None = None) -> None:
        self.field = field
        self.problem = problem
        self.kind = kind if kind is not None else type(value).__name__
        super().__init__(f"{field}: {problem} (got {self.kind})")


class NotFound(SendoffError, LookupError):
    """There is no such row."""

    def __init__(self, kind: str, key: object) -> None:
        self.kind = kind
        self.key = key
        super().__init__(f"no {kind} {key}")


class NotPossible(SendoffError):
    """The row exists, and its state does not allow what was asked."""


class StoreError(SendoffError):
    """The database refused a statement. Carries SQLSTATE and constraint; never text that may hold a payload."""

    def __init__(self, message: str, *, sqlstate: str | None = None, constraint: str | None = None) -> None:
        self.sqlstate = sqlstate
        self.constraint = constraint
        super().__init__(message)


class StoreUnavailable(StoreError):
    """The database is away, read-only, or too busy to answer: the same call may work later."""


class NotMigrated(StoreError):
    """The tables are missing or older than this version needs."""


class MigrationTimeout(StoreError):
    """Another process has held the migration lock for longer than we were told to wait."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` most likely meant, or None."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def _hint(guess: str | None, known: Iterable[str]) -> str:
    if guess is not None:
        return f"; did you mean {guess!r}?"
    names = ", ".join(sorted(known))
    return f"; known: {names}" if names else "; none is known"
