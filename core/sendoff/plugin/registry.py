"""Finding plugins, through entry points, module names or objects, and what they provide.

Built-in and third-party plugins come through the same door. Each is loaded by itself: one that cannot be imported,
or whose hook is misspelt, is named with its error, and the others work.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Literal

import pluggy
from attrs import field, frozen
from sqlalchemy import Connection

from sendoff.errors import ConfigurationError, PluginBroken, SendoffError, UnknownChannel, nearest
from sendoff.limits import Limits, Retry
from sendoff.plugin import hookspecs
from sendoff.plugin.channel import Channel, as_addresses
from sendoff.plugin.context import Context
from sendoff.plugin.fetcher import Fetcher
from sendoff.plugin.hookspecs import PROJECT, Migrations
from sendoff.policy import Policy
from sendoff.report import PluginView
from sendoff.settings import Settings

__all__ = ["ENTRY_POINT_GROUP", "ChannelSpec", "Registry"]

ENTRY_POINT_GROUP = "sendoff"


@frozen(eq=False)
class ChannelSpec:
    """A channel with the settings that override what it declares."""

    channel: Channel
    plugin: str
    limits: Limits
    policy: Policy

    @property
    def name(self) -> str:
        """The channel's name."""
        return self.channel.name

    def lease(self, default: float) -> float:
        """Seconds that this channel's rows stay claimed."""
        return self.limits.lease if self.limits.lease is not None else default

    @property
    def retry(self) -> Retry:
        """The schedule in force."""
        return self.policy.retry


@frozen(eq=False)
class _Loaded:
    name: str
    source: str
    version: str | None
    plugin: object
    channels: list[str] = field(factory=list)
    fetchers: list[str] = field(factory=list)


class Registry:
    """The plugins of one ``Sendoff``: loaded once, on first use."""

    def __init__(
        self, settings: Settings, context: Context, *, plugins: Sequence[object] = (), use_entry_points: bool = True
    ) -> None:
        self._settings = settings
        self._context = context
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._loaded: dict[str, _Loaded] = {}
        self.broken: list[PluginView] = []
        #: Every channel by its name.
        self.channels: dict[str, ChannelSpec] = {}
        #: Every fetcher by its name.
        self.fetchers: dict[str, Fetcher] = {}
        if use_entry_points:
            for point in _entry_points():
                self._load(point.name, f"entry point {point.value}", point.load, _version(point))
        for plugin in (*settings.core.plugins, *plugins):
            self._load_given(plugin)
        self._collect()

    @property
    def plugins(self) -> list[PluginView]:
        """Every plugin, broken ones with their error, by name."""
        views = [
            PluginView(
                name=loaded.name,
                source=loaded.source,
                version=loaded.version,
                channels=tuple(loaded.channels),
                fetchers=tuple(loaded.fetchers),
            )
            for loaded in self._loaded.values()
        ]
        return sorted([*views, *self.broken], key=lambda view: view.name)

    def channel(self, name: str) -> ChannelSpec:
        """The channel called ``name``; :class:`~sendoff.errors.UnknownChannel` names the nearest."""
        try:
            return self.channels[name]
        except KeyError:
            raise UnknownChannel(name, self.channels) from None

    def fetcher(self, name: str) -> Fetcher:
        """The fetcher called ``name``; the error names the nearest."""
        try:
            return self.fetchers[name]
        except KeyError:
            guess = nearest(name, self.fetchers)
            known = ", ".join(sorted(self.fetchers)) or "none"
            hint = f"; did you mean {guess!r}?" if guess else f"; known: {known}"
            raise ConfigurationError(f"unknown fetcher {name!r}{hint}") from None

    def serve(self, names: Sequence[str]) -> list[ChannelSpec]:
        """The channels a worker is told to serve, all of them when it is told none. A channel whose plugin is broken
        is refused with the plugin's error."""
        if not names:
            return list(self.channels.values())
        for name in names:
            if name not in self.channels:
                for view in self.broken:
                    if name in {view.name, *self._settings.instances(view.name, view.name)}:
                        raise PluginBroken(f"channel {name!r}: plugin {view.name} is broken: {view.error}", plugin=name)
        return [self.channel(name) for name in dict.fromkeys(names)]

    def migrations(self) -> list[Migrations]:
        """The migrations of every plugin that keeps tables."""
        found = [answer for _, answer in self.call("sendoff_migrations") if isinstance(answer, Migrations)]
        return sorted(found, key=lambda one: one.name)

    def addresses(self, channel: str, recipients: Sequence[str], connection: Connection) -> dict[str, list[str]]:
        """What the ``sendoff_addresses`` hooks know of these recipients, their answers added up."""
        known: dict[str, list[str]] = {}
        arguments = {"channel": channel, "recipients": recipients, "connection": connection}
        for _, answer in self.call("sendoff_addresses", **arguments):
            for recipient, addresses in as_addresses(answer or {}).items():
                mine = known.setdefault(recipient, [])
                mine += [address for address in addresses if address not in mine]
        return known

    def observers(self) -> bool:
        """Whether any plugin watches settlements."""
        return bool(self._manager.hook.sendoff_settled.get_hookimpls())

    def call(self, hook: str, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Each plugin's own answer to a hook, by itself, so that one that raises is known by name."""
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            wanted = [arguments[name] for name in implementation.argnames]
            yield implementation.plugin_name, implementation.function(*wanted)

    def _load_given(self, plugin: object) -> None:
        if isinstance(plugin, str):
            self._load(plugin, f"module {plugin}", lambda: _import(plugin), None)
        else:
            name = plugin.__name__ if isinstance(plugin, ModuleType | type) else type(plugin).__qualname__
            self._load(name, "given in code", lambda: plugin, None)

    def _load(self, name: str, source: str, load: Any, version: str | None) -> None:
        try:
            plugin = load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's import may do anything; it is reported
            self._break(name, source, version, f"{type(error).__name__}: {error}")
            return
        if self._manager.is_registered(plugin):
            return
        unique, number = name, 1
        while unique in self._loaded:
            number += 1
            unique = f"{name} ({number})"
        try:
            self._manager.register(plugin, unique)
            self._manager.check_pending()
            if not any(True for _ in self._manager.get_hookcallers(plugin) or ()):
                raise PluginBroken("it implements no hook of sendoff; is @hookimpl missing?", plugin=name)
        except (pluggy.PluginValidationError, ValueError, PluginBroken) as error:
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            self._break(name, source, version, str(error))
            return
        self._loaded[unique] = _Loaded(unique, source, version, plugin)

    def _break(self, name: str, source: str, version: str | None, error: str) -> None:
        self.broken.append(PluginView(name=name, source=source, version=version, error=" ".join(error.split())))

    def _collect(self) -> None:
        """Ask each plugin for its channels and fetchers. Wrong settings are the caller's error; anything else that a
        hook raises breaks that plugin alone."""
        for kind in ("sendoff_channels", "sendoff_fetchers"):
            for implementation in list(getattr(self._manager.hook, kind).get_hookimpls()):
                loaded = self._loaded.get(implementation.plugin_name)
                if loaded is None:
                    continue
                arguments = {"context": self._context}
                try:
                    answer = implementation.function(*[arguments[name] for name in implementation.argnames])
                    for item in answer:
                        self._add(loaded, item)
                except SendoffError as error:
                    if isinstance(error, PluginBroken):
                        self._discard(loaded, str(error))
                    else:
                        raise
                except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything; it is reported by name
                    self._discard(loaded, f"{kind}: {type(error).__name__}: {error}")

    def _add(self, loaded: _Loaded, item: object) -> None:
        if isinstance(item, Channel):
            self._add_channel(loaded, item)
        elif isinstance(item, Fetcher):
            name = _name_of(item, loaded)
            if name in self.fetchers:
                raise ConfigurationError(f"two fetchers are called {name!r}; the second is of plugin {loaded.name}")
            if item.every is None and item.cron is None:
                raise PluginBroken(f"fetcher {name!r} says neither every nor cron", plugin=loaded.name)
            self.fetchers[name] = item
            loaded.fetchers.append(name)
        else:
            raise PluginBroken(f"it provides a {type(item).__name__}, not a channel or fetcher", plugin=loaded.name)

    def _add_channel(self, loaded: _Loaded, channel: Channel) -> None:
        name = _name_of(channel, loaded)
        if name in self.channels:
            raise ConfigurationError(
                f"two plugins provide the channel {name!r}: {self.channels[name].plugin} and {loaded.name}; "
                f'say which under [channels.{name}] with plugin = "...", or uninstall one'
            )
        overrides = self._settings.overrides(name)
        where = f"channels.{name}"
        on_no_target: Literal["sent", "dead"] = overrides.on_no_target or channel.on_no_target
        policy = Policy(overrides.merge_retry(channel.retry, where=where), on_no_target)
        limits = overrides.merge_limits(channel.limits, where=where)
        self.channels[name] = ChannelSpec(channel, loaded.name, limits, policy)
        loaded.channels.append(name)

    def _discard(self, loaded: _Loaded, error: str) -> None:
        for name in loaded.channels:
            del self.channels[name]
        for name in loaded.fetchers:
            del self.fetchers[name]
        del self._loaded[loaded.name]
        self._manager.unregister(loaded.plugin)
        self._break(loaded.name, loaded.source, loaded.version, error)


def _name_of(item: Channel | Fetcher, loaded: _Loaded) -> str:
    name = getattr(item, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise PluginBroken(f"{type(item).__name__} has no name", plugin=loaded.name)
    return name


def _entry_points() -> list[EntryPoint]:
    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)


def _version(point: EntryPoint) -> str | None:
    return point.dist.version if point.dist is not None else None


def _import(name: str) -> object:
    """A plugin by module name; modules of the current folder are importable."""
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)
