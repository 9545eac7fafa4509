"""What a plugin is given to build its channels and fetchers from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Engine

from sendoff.settings import Settings

__all__ = ["Context"]

T = TypeVar("T")


class Context:
    """Typed settings for a plugin, and the database for those that keep tables of their own."""

    def __init__(self, settings: Settings, engine: Callable[[], Engine]) -> None:
        self._settings = settings
        self._engine = engine

    def config(self, section: str, cls: type[T]) -> T:
        """``[channels.NAME]`` or ``[plugins.NAME]`` as the plugin's own attrs class.

        The reserved keys of a channel are left out. Raises :class:`~sendoff.ConfigurationError` naming the key.
        """
        return self._settings.section(section, cls)

    def instances(self, plugin: str, default: str | None = None) -> list[str]:
        """The names of the channels to make for ``plugin``.

        Every ``[channels.NAME]`` with ``plugin = "<plugin>"``; without any such section one instance called
        ``default`` (the plugin's own name when not given), unless that section names another plugin.
        """
        return self._settings.instances(plugin, default or plugin)

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine of sendoff's database, made on first use. Call it from ``send``, not from a hook."""
        return self._engine()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction of the plugin's own: committed at the end of the block, rolled back when it raises."""
        with self._engine().begin() as connection:
            yield connection
