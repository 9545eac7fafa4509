"""Settings: arguments over environment over file over defaults, each value with its source.

A file has ``[sendoff]``, ``[worker]``, ``[channels.NAME]`` and ``[plugins.NAME]``. The environment spells the same
path: ``SENDOFF_DATABASE_URL``, ``SENDOFF_WORKER__LEASE``, ``SENDOFF_CHANNELS__SLACK__WEBHOOK``.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import attrs
import cattrs
from attrs import field, frozen
from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError
from cattrs.v import transform_error

from sendoff.errors import ConfigurationError, NoDatabaseUrl, UnknownSetting
from sendoff.limits import Limits, Retry
from sendoff.secret import MASK, Secret

__all__ = ["ChannelOverrides", "CoreSettings", "Settings", "WorkerSettings", "duration", "mask_url"]

T = TypeVar("T")
PREFIX = "SENDOFF_"
#: Variables with our prefix that are not settings.
NOT_SETTINGS = {"SENDOFF_CONFIG", "SENDOFF_TEST_DATABASE_URL"}
RESERVED = ("plugin", "limits", "retry", "on_no_target")
SECTIONS = ("sendoff", "worker", "channels", "plugins")

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(value: object) -> float:
    """Seconds from a number, a timedelta, or text such as ``30``, ``30s``, ``1m30s``, ``250ms``, ``24h``."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if isinstance(value, str) and value.strip():
        try:
            seconds = float(value)
        except ValueError:
            pass
        else:
            if math.isfinite(seconds):
                return seconds
        found = list(_DURATION.finditer(value))
        if found and "".join(match.group() for match in found) == value:
            return sum(float(match[1]) * _UNITS[match[2]] for match in found)
    raise ValueError(f"{value!r} is not a duration; write seconds or 30s, 10m, 24h")


def _positive(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} must be above 0 (got {value})")


@frozen
class CoreSettings:
    """``[sendoff]``. Seconds where a duration is meant."""

    database_url: str | None = None
    #: A direct URL for the one LISTEN connection, where ``database_url`` goes through PgBouncer.
    listen_url: str | None = None
    #: psycopg's prepare_threshold; None switches prepared statements off (PgBouncer before 1.21).
    prepare_threshold: int | None = 5
    #: Plugins to load by module name, besides those found through entry points.
    plugins: list[str] = field(factory=list)
    #: The channels of a notification that names none.
    default_channels: list[str] = field(factory=list)
    #: Types without a category are let through, or refused.
    unknown_types: Literal["allow", "refuse"] = "allow"
    #: How long a finished row keeps its dedup key.
    dedup_window: float = field(default=30 * 86400.0, converter=duration, validator=_positive)
    #: Connections kept open per process.
    pool_size: int = field(default=5, validator=_positive)


@frozen
class WorkerSettings:
    """``[worker]``. Seconds where a duration is meant."""

    #: The channels this worker serves; empty means all that are loaded.
    channels: list[str] = field(factory=list)
    #: How long a claimed row stays claimed without a verdict.
    lease: float = field(default=60.0, converter=duration, validator=_positive)
    #: How much of the lease is kept back for recording the verdict.
    margin: float = field(default=5.0, converter=duration, validator=_positive)
    #: How long SIGTERM waits for sends that are running.
    grace: float = field(default=25.0, converter=duration, validator=_positive)
    #: The longest sleep of an idle worker.
    poll: float = field(default=1.0, converter=duration, validator=_positive)
    #: Rows per claim and per settle.
    batch: int = field(default=500, validator=_positive)
    #: Threads that call the database.
    store_threads: int = field(default=4, validator=_positive)
    #: Run fetchers too.
    fetchers: bool = True


@frozen
class ChannelOverrides:
    """The reserved keys of ``[channels.NAME]``."""

    plugin: str | None = None
    limits: dict[str, Any] = field(factory=dict)
    retry: dict[str, Any] = field(factory=dict)
    on_no_target: Literal["sent", "dead"] | None = None

    def merge_limits(self, base: Limits, *, where: str) -> Limits:
        """``base`` with the overridden limits."""
        return _evolve(base, self.limits, f"{where}.limits")

    def merge_retry(self, base: Retry, *, where: str) -> Retry:
        """``base`` with the overridden schedule; new delays bring their own number of attempts."""
        changes = dict(self.retry)
        if "delays" in changes and "attempts" not in changes:
            changes["attempts"] = -1
        return _evolve(base, changes, f"{where}.retry")


def _evolve(base: T, changes: Mapping[str, Any], where: str) -> T:
    known = [attribute.name for attribute in attrs.fields(type(base))]  # type: ignore[arg-type]  # T is an attrs class
    converted: dict[str, Any] = {}
    for key, value in changes.items():
        if key not in known:
            raise UnknownSetting(f"{where}.{key}", known, where="settings")
        try:
            converted[key] = _limit_value(key, value)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"settings: {where}.{key}: {error}") from None
    try:
        return attrs.evolve(base, **converted)  # type: ignore[misc]  # T is an attrs class
    except ConfigurationError as error:
        raise ConfigurationError(f"settings: {where.rpartition('.')[0]}: {error}") from None


def _limit_value(key: str, value: Any) -> Any:
    if key in {"timeout", "lease", "give_up_after"}:
        return None if value in ("", None) and key == "lease" else duration(value)
    if key == "delays":
        items = value.split(",") if isinstance(value, str) else value
        return tuple(duration(item) for item in items)
    if key in {"rate", "jitter"}:
        return float(value)
    return int(value) if isinstance(value, str) else value


class Settings:
    """All settings of one process, merged, with the source of each value."""

    def __init__(self, values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        self._values = values
        self._sources = dict(sources)
        self.core: CoreSettings = self._build(CoreSettings, values.get("sendoff", {}), "sendoff")
        self.worker: WorkerSettings = self._build(WorkerSettings, values.get("worker", {}), "worker")
        for kind in ("channels", "plugins"):
            for name, section in {kind: values.get(kind, {}), **_below(kind, values.get(kind))}.items():
                if not isinstance(section, Mapping):
                    raise ConfigurationError(f"settings: [{name}] must be a table (got {type(section).__name__})")
        for name in values.get("channels", {}):
            self.overrides(name)

    @classmethod
    def load(
        cls,
        arguments: Mapping[str, Any] | None = None,
        *,
        config: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Settings:
        """Read the file, then the environment, then the arguments (a nested mapping like the file's), each on top.

        ``config`` over ``SENDOFF_CONFIG`` over ``./sendoff.toml``; only the last may be missing.
        """
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        named = config or environ.get("SENDOFF_CONFIG")
        path = Path(named) if named else Path("sendoff.toml")
        if named or path.is_file():
            _merge(values, _read_file(path), sources, str(path))
        for name, path_parts in _environment(environ).items():
            _merge(values, _nested(path_parts, environ[name]), sources, f"env {name}")
        _merge(values, arguments or {}, sources, "argument")
        return cls(values, sources)

    @property
    def database_url(self) -> str:
        """The database URL; :class:`~sendoff.errors.NoDatabaseUrl` where nobody gave one."""
        if not self.core.database_url:
            raise NoDatabaseUrl
        return self.core.database_url

    def section(self, path: str, cls: type[T]) -> T:
        """``channels.NAME`` or ``plugins.NAME`` as ``cls``, reserved keys left out."""
        kind, _, name = path.partition(".")
        if kind not in {"channels", "plugins"} or not name:
            raise ConfigurationError(f"a plugin reads channels.NAME or plugins.NAME, not {path!r}")
        values = dict(self._values.get(kind, {}).get(name, {}))
        if kind == "channels":
            values = {key: value for key, value in values.items() if key not in RESERVED}
        return self._build(cls, values, path, reserved=RESERVED if kind == "channels" else ())

    def overrides(self, channel: str) -> ChannelOverrides:
        """The reserved keys of ``[channels.NAME]``."""
        section = self._values.get("channels", {}).get(channel, {})
        return self._build(
            ChannelOverrides, {key: section[key] for key in RESERVED if key in section}, f"channels.{channel}"
        )

    def has_channel(self, name: str) -> bool:
        """Whether somebody has said anything about this channel, or its plugin was merely found."""
        return name in self._values.get("channels", {})

    def instances(self, plugin: str, default: str) -> list[str]:
        """See :meth:`sendoff.plugin.Context.instances`."""
        channels: Mapping[str, Mapping[str, Any]] = self._values.get("channels", {})
        named = [name for name, section in channels.items() if section.get("plugin") == plugin]
        if named:
            return named
        return [] if channels.get(default, {}).get("plugin") else [default]

    def unknown_variables(self, environ: Mapping[str, str] | None = None) -> list[str]:
        """Variables with our prefix that no setting reads: a warning, because platforms inject such names."""
        environ = os.environ if environ is None else environ
        known = _environment(environ)
        return sorted(
            name for name in environ if name.startswith(PREFIX) and name not in NOT_SETTINGS and name not in known
        )

    def describe(self) -> list[tuple[str, str, str]]:
        """``(key, value, source)`` of every setting, secrets and passwords masked, for ``sendoff config``."""
        rows: list[tuple[str, str, str]] = []
        for section, instance in (("sendoff", self.core), ("worker", self.worker)):
            for attribute in attrs.fields(type(instance)):
                key = f"{section}.{attribute.name}"
                rows.append((key, _shown(key, getattr(instance, attribute.name)), self._sources.get(key, "default")))
        for key, source in sorted(self._sources.items()):
            if key.startswith(("channels.", "plugins.")):
                rows.append((key, _shown(key, _dig(self._values, key)), source))
        return rows

    def _build(self, cls: type[T], values: Any, where: str, *, reserved: tuple[str, ...] = ()) -> T:
        if not isinstance(values, Mapping):
            raise ConfigurationError(f"settings: [{where}] must be a table (got {type(values).__name__})")
        known = [attribute.name for attribute in attrs.fields(cls)]  # type: ignore[arg-type]  # plugins pass attrs classes
        for key in values:
            if key not in known:
                source = self._sources.get(f"{where}.{key}", "settings")
                raise UnknownSetting(f"{where}.{key}", [*known, *reserved], where=source)
        for attribute in attrs.fields(cls):  # type: ignore[arg-type]  # as above
            if attribute.init and attribute.default is attrs.NOTHING and attribute.name not in values:
                variable = f"{PREFIX}{where.replace('.', '__')}__{attribute.name}".upper()
                raise ConfigurationError(
                    f"settings: {where}.{attribute.name} is missing; write it under [{where}], or set {variable}"
                )
        try:
            return _converter.structure(values, cls)
        except (BaseValidationError, ForbiddenExtraKeysError) as error:
            raise ConfigurationError(f"settings: {_first_problem(error, where)}") from None
        except ConfigurationError as error:
            raise ConfigurationError(f"settings: [{where}]: {error}") from None


def _first_problem(error: Exception, where: str) -> str:
    """One clear line out of cattrs' group; never the value, which may be a secret."""
    leaf = error
    while isinstance(leaf, ExceptionGroup) and leaf.exceptions:
        leaf = leaf.exceptions[0]
    for line in transform_error(error, path=where):
        path = line.rpartition(" @ ")[2] or where
        text = str(leaf) if isinstance(leaf, ConfigurationError | ValueError) else f"missing or wrong: {leaf}"
        return f"{path}: {text}"
    return f"{where}: {leaf}"


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"the settings file {path} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the settings file {path} cannot be read: {type(error).__name__}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"the settings file {path} is not valid TOML: {error}") from None
    for section in values:
        if section not in SECTIONS:
            raise UnknownSetting(section, SECTIONS, where=str(path))
    return values


def _environment(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Variables that spell a setting, with its path. Names without ``__`` must be a field of ``[sendoff]``."""
    found: dict[str, list[str]] = {}
    core = {attribute.name for attribute in attrs.fields(CoreSettings)}
    worker = {attribute.name for attribute in attrs.fields(WorkerSettings)}
    for name in environ:
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        path = name.removeprefix(PREFIX).lower().split("__")
        if len(path) == 1 and path[0] in core:
            found[name] = ["sendoff", path[0]]
        elif (len(path) == 2 and path[0] == "worker" and path[1] in worker) or (
            len(path) >= 3 and path[0] in {"channels", "plugins"} and all(path)
        ):
            found[name] = path
    return found


def _below(kind: str, sections: Any) -> dict[str, Any]:
    return {f"{kind}.{name}": section for name, section in sections.items()} if isinstance(sections, Mapping) else {}


def _nested(path: list[str], value: Any) -> dict[str, Any]:
    for part in reversed(path):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested


def _merge(into: dict[str, Any], new: Mapping[str, Any], sources: dict[str, str], source: str, at: str = "") -> None:
    # A table of one key, file or env, is a secret where values stand and a section above: [channels.sms] file = "out".
    values = at.count(".") > 1
    for key, value in new.items():
        path = f"{at}{key}"
        if isinstance(value, Mapping) and not (values and _is_secret(value)):
            below = into.get(key)
            into[key] = dict(below) if isinstance(below, Mapping) and not (values and _is_secret(below)) else {}
            _merge(into[key], value, sources, source, f"{path}.")
        else:
            into[key] = value
            sources[path] = source


def _is_secret(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in {"env", "file"}


def _dig(values: Mapping[str, Any], key: str) -> Any:
    found: Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


_SECRETIVE = re.compile(r"password|passwd|secret|token|api_?key|webhook|credential|private|auth|dsn", re.IGNORECASE)


def _shown(key: str, value: Any) -> str:
    if isinstance(value, Mapping) and _is_secret(value):
        [(source, name)] = value.items()
        return f"{source} {name}: {MASK}"
    if isinstance(value, str | list) and _SECRETIVE.search(key.rpartition(".")[2]):
        return MASK
    if isinstance(value, str) and ("://" in value or key.endswith("_url")):
        return mask_url(value)
    return "" if value is None else str(value)


_SCHEME = re.compile(r"[a-zA-Z][\w+.-]*://")
_SECRET_QUERY = re.compile(
    r"((?:^|[?&\s])(?:password|passfile|sslpassword|token|key|secret)=)[^&]*", re.IGNORECASE | re.ASCII
)


def mask_url(url: str) -> str:
    """A URL fit for logs: the password and secret query parameters masked, whatever else it looks like.

    A password that nobody percent-encoded may hold any of ``/?#@`` itself, and a scheme may be misspelt: everything
    from the first colon to the last ``@`` counts as the password. Too much may be masked, never too little.
    """
    scheme = _SCHEME.match(url)
    start = scheme.end() if scheme else 0
    before, at, rest = url[start:].rpartition("@")
    if at:
        user, colon, _ = before.partition(":")
        parameter = _SECRET_QUERY.search(before)
        before = f"{user}:***" if colon else before
        rest = rest if parameter is None else "***"
    return url[:start] + _SECRET_QUERY.sub(r"\1***", before + at + rest)


def _is_list(cls: Any) -> bool:
    origin: Any = get_origin(cls)
    return origin is list


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)

    def text(value: Any, _: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"must be text (got {type(value).__name__})")
        return value

    def boolean(value: Any, _: Any) -> bool:
        if isinstance(value, bool):
            return value
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        if isinstance(value, str) and value.lower() in words:
            return words[value.lower()]
        raise ValueError(f"must be true or false (got {value!r})")

    def integer(value: Any, _: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lstrip("-").isdigit():
            return int(value)
        raise ValueError(f"must be a whole number (got {value!r})")

    def number(value: Any, _: Any) -> float:
        return duration(value)

    def span(value: Any, _: Any) -> timedelta:
        return timedelta(seconds=duration(value))

    def names(value: Any, cls: Any) -> list[Any]:
        items = [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise ValueError(f"must be a list (got {type(value).__name__})")
        [of] = get_args(cls) or (str,)
        return [converter.structure(item, of) for item in items]

    converter.register_structure_hook(str, text)
    converter.register_structure_hook(bool, boolean)
    converter.register_structure_hook(int, integer)
    converter.register_structure_hook(float, number)
    converter.register_structure_hook(timedelta, span)
    converter.register_structure_hook(Secret, lambda value, _: Secret.parse(value))
    converter.register_structure_hook(Path, lambda value, _: Path(text(value, str)))
    converter.register_structure_hook_func(_is_list, names)
    return converter


_converter = _make_converter()
