"""Finding plugins: each by itself, so that a broken one is named and the others work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from sendoff import ConfigurationError, PluginBroken, Sendoff, UnknownChannel
from sendoff.plugin import Channel, Context, Delivery, FetchContext, Fetcher, Limits, Migrations, Page, Retry, hookimpl
from sendoff.plugin import registry as registry_module
from sendoff.plugin.registry import Registry
from sendoff.settings import Settings
from sendoff.store import Store
from sendoff.worker import Worker


class Plain(Channel):
    def __init__(self, name: str) -> None:
        self.name = name

    def send(self, delivery: Delivery) -> None:
        """Accept everything."""


class Orders(Fetcher):
    name = "orders"
    every = timedelta(minutes=1)

    def fetch(self, ctx: FetchContext) -> Iterator[Page]:
        yield from ()


def no_engine() -> Engine:
    raise AssertionError("loading plugins needs no database")


def registry(*plugins: object, settings: Mapping[str, Any] | None = None, entry_points: bool = False) -> Registry:
    loaded = Settings.load(settings or {}, environ={})
    return Registry(loaded, Context(loaded, no_engine), plugins=plugins, use_entry_points=entry_points)


def provides(*channels: object, fetchers: Sequence[object] = ()) -> object:
    """A plugin with these channels and fetchers."""

    class Given:
        @hookimpl
        def sendoff_channels(self) -> list[Any]:
            return list(channels)

        @hookimpl
        def sendoff_fetchers(self) -> list[Any]:
            return list(fetchers)

    return Given()


def broken(found: Registry) -> dict[str, str]:
    return {view.name: view.error or "" for view in found.broken}


PAGER = """
from sendoff.plugin import Channel, hookimpl

class Pager(Channel):
    name = "pager"
    def send(self, delivery): ...

@hookimpl
def sendoff_channels(context):
    return [Pager()]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Writes a module that can be imported, and is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return write


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes these the installed plugins."""

    def install(**points: str) -> None:
        found = [EntryPoint(name, value, "sendoff") for name, value in points.items()]
        monkeypatch.setattr(registry_module, "_entry_points", lambda: found)

    return install


# --------------------------------------------------------------------------------------------------- how they are given


def test_by_name_by_module_and_by_object(module: Callable[[str, str], str]) -> None:
    name = module("plugin_by_name", PAGER)
    given = ModuleType("plugin_by_module")
    exec(PAGER.replace('"pager"', '"beeper"'), given.__dict__)
    found = registry(name, given, provides(Plain("sms"), fetchers=[Orders()]))
    assert sorted(found.channels) == ["beeper", "pager", "sms"]
    assert sorted(found.fetchers) == ["orders"]
    assert found.broken == []
    shown = {view.name: (view.source, view.channels, view.fetchers) for view in found.plugins}
    assert shown["plugin_by_name"] == ("module plugin_by_name", ("pager",), ())
    assert shown["plugin_by_module"] == ("given in code", ("beeper",), ())


def test_settings_name_plugins_too(module: Callable[[str, str], str]) -> None:
    name = module("plugin_by_settings", PAGER)
    assert list(registry(settings={"sendoff": {"plugins": [name]}}).channels) == ["pager"]


def test_by_entry_point(module: Callable[[str, str], str], entry_points: Callable[..., None]) -> None:
    entry_points(pager=module("plugin_by_entry_point", PAGER))
    found = registry(entry_points=True)
    assert list(found.channels) == ["pager"]
    assert found.plugins[0].source == "entry point plugin_by_entry_point"
    assert list(registry().channels) == []


def test_one_plugin_given_twice_is_one(module: Callable[[str, str], str], entry_points: Callable[..., None]) -> None:
    name = module("plugin_given_twice", PAGER)
    entry_points(pager=name)
    found = registry(name, sys.modules.get(name) or name, entry_points=True)
    assert [view.name for view in found.plugins] == ["pager"]


def test_several_objects_of_one_class_are_several_plugins() -> None:
    found = registry(*[provides(Plain(name)) for name in ("a", "b", "c", "d")])
    assert sorted(found.channels) == ["a", "b", "c", "d"]
    assert len({view.name for view in found.plugins}) == 4
    assert found.broken == []


# ------------------------------------------------------------------------------------------------------------- broken


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import no_such_sdk", "ModuleNotFoundError: No module named 'no_such_sdk'"),
        ("def broken(:", "SyntaxError: "),
        ("raise RuntimeError('at import')", "RuntimeError: at import"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("x = 1", "it implements no hook of sendoff; is @hookimpl missing?"),
        (PAGER.replace("@hookimpl", ""), "it implements no hook of sendoff"),
        (PAGER.replace("sendoff_channels", "sendoff_chanels"), "unknown hook 'sendoff_chanels'"),
        (PAGER.replace("(context)", "(contxt)"), "contxt"),
        (PAGER.replace("return [Pager()]", "raise KeyError('token')"), "sendoff_channels: KeyError: 'token'"),
        (PAGER.replace("return [Pager()]", "return None"), "sendoff_channels: TypeError: "),
        (PAGER.replace("return [Pager()]", "return [Pager]"), "it provides a ABCMeta, not a channel or fetcher"),
        (PAGER.replace("return [Pager()]", "return ['pager']"), "it provides a str, not a channel or fetcher"),
        (PAGER.replace('name = "pager"', ""), "Pager has no name"),
        (PAGER.replace('name = "pager"', 'name = " "'), "Pager has no name"),
        (PAGER.replace("def send(self, delivery): ...", ""), "sendoff_channels: TypeError: Can't instantiate"),
    ],
    ids=range(15),
)
def test_a_broken_plugin_is_named_and_the_others_work(
    module: Callable[[str, str], str], entry_points: Callable[..., None], text: str, error: str
) -> None:
    entry_points(bad=module("plugin_that_is_broken", text), good=module("plugin_that_works", PAGER))
    found = registry(provides(Plain("sms")), entry_points=True)
    assert sorted(found.channels) == ["pager", "sms"]
    assert list(broken(found)) == ["bad"]
    assert error in broken(found)["bad"]
    assert "\n" not in broken(found)["bad"]
    assert next(view for view in found.plugins if view.name == "bad").channels == ()


def test_what_a_broken_plugin_provided_before_is_withdrawn() -> None:
    class Half:
        @hookimpl
        def sendoff_channels(self) -> list[Channel]:
            return [Plain("sms")]

        @hookimpl
        def sendoff_fetchers(self) -> list[Fetcher]:
            raise OSError("no mailbox")

        @hookimpl
        def sendoff_migrations(self) -> Migrations:
            raise AssertionError("not asked any more")

    found = registry(Half())
    assert ({}, {}, []) == (found.channels, found.fetchers, found.migrations())
    assert list(broken(found).values()) == ["sendoff_fetchers: OSError: no mailbox"]


def test_a_module_that_does_not_exist_is_named() -> None:
    assert broken(registry("no_such_plugin")) == {
        "no_such_plugin": "ModuleNotFoundError: No module named 'no_such_plugin'"
    }


def test_wrong_settings_are_the_callers_error_not_the_plugins() -> None:
    class Strict:
        @hookimpl
        def sendoff_channels(self, context: Context) -> list[Channel]:
            raise ConfigurationError("settings: channels.pager.url: missing")

    with pytest.raises(ConfigurationError, match=r"channels\.pager\.url"):
        registry(Strict())


# ------------------------------------------------------------------------------------------------- two of one name


def test_two_plugins_with_one_channel_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"two plugins provide the channel 'sms': .* and .*; say which"):
        registry(provides(Plain("sms")), provides(Plain("sms")))


def test_two_fetchers_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two fetchers are called 'orders'"):
        registry(provides(fetchers=[Orders()]), provides(fetchers=[Orders()]))


def test_a_fetcher_without_a_rhythm_is_broken() -> None:
    class Never(Orders):
        every = None  # type: ignore[assignment]  # what the author forgot

    found = registry(provides(Plain("sms"), fetchers=[Never()]))
    assert "says neither every nor cron" in next(iter(broken(found).values()))


# ----------------------------------------------------------------------------------------------------------- asking


def test_an_unknown_channel_names_the_nearest() -> None:
    found = registry(provides(Plain("inbox"), Plain("email")))
    with pytest.raises(UnknownChannel, match="unknown channel 'inbx'; did you mean 'inbox'") as caught:
        found.channel("inbx")
    assert ("inbx", "inbox") == (caught.value.channel, caught.value.nearest)
    with pytest.raises(UnknownChannel, match="unknown channel 'zzz'; known: email, inbox"):
        found.channel("zzz")
    with pytest.raises(UnknownChannel, match="none is known"):
        registry().channel("zzz")


def test_an_unknown_fetcher_names_the_nearest() -> None:
    found = registry(provides(fetchers=[Orders()]))
    assert found.fetcher("orders").name == "orders"
    with pytest.raises(ConfigurationError, match="unknown fetcher 'order'; did you mean 'orders'"):
        found.fetcher("order")
    with pytest.raises(ConfigurationError, match="known: none"):
        registry().fetcher("order")


def test_settings_override_what_a_channel_declares() -> None:
    class Slow(Plain):
        limits = Limits(timeout=50, batch=3)
        retry = Retry(delays=(1, 2))
        on_no_target = "sent"

    channels = {"slow": {"limits": {"timeout": "5s"}, "retry": {"attempts": 9}, "on_no_target": "dead"}}
    found = registry(provides(Slow("slow"), Slow("plain")), settings={"channels": channels})
    slow, plain = found.channel("slow"), found.channel("plain")
    assert (5, 3, 9, "dead") == (slow.limits.timeout, slow.limits.batch, slow.retry.attempts, slow.policy.on_no_target)
    assert (50, 3, "sent") == (plain.limits.timeout, plain.retry.attempts, plain.policy.on_no_target)
    assert (60.0, 60.0) == (slow.lease(60.0), plain.lease(60.0))


def test_addresses_of_several_plugins_add_up() -> None:
    def knows(answer: Any) -> object:
        class Book:
            @hookimpl
            def sendoff_addresses(self, channel: str, recipients: Sequence[str]) -> Any:
                return answer

        return Book()

    found = registry(knows({"u1": ["a", "b"]}), knows({"u1": ("b", "c"), "u2": ["d"]}), knows(None), knows({}))
    with sa.create_engine("sqlite://").connect() as connection:
        known = dict(found.addresses("sms", ["u1", "u2"], connection))
    assert known == {"u1": ["a", "b", "c"], "u2": ["d"]}


def test_loading_plugins_touches_no_database() -> None:
    class Uses:
        @hookimpl
        def sendoff_channels(self, context: Context) -> list[Channel]:
            assert context.instances("sms") == ["sms"]
            return [Plain(name) for name in context.instances("sms")]

    assert list(registry(Uses()).channels) == ["sms"]


# ------------------------------------------------------------------------------------------------- what a worker serves


def test_a_worker_serves_what_it_is_told_or_all() -> None:
    found = registry(provides(Plain("sms"), Plain("email")))
    assert ["sms", "email"] == [spec.name for spec in found.serve([])]
    assert ["email"] == [spec.name for spec in found.serve(["email", "email"])]
    with pytest.raises(UnknownChannel):
        found.serve(["emial"])


@pytest.mark.parametrize("told", ["pager", "staff"])
def test_a_worker_refuses_a_channel_whose_plugin_is_broken(
    module: Callable[[str, str], str], entry_points: Callable[..., None], told: str
) -> None:
    entry_points(pager=module("plugin_of_a_worker", "import no_such_sdk"))
    settings = {"channels": {"staff": {"plugin": "pager"}}} if told == "staff" else {}
    with pytest.raises(PluginBroken, match=rf"channel '{told}': plugin pager is broken: ModuleNotFoundError"):
        registry(provides(Plain("sms")), settings=settings, entry_points=True).serve([told])


def test_a_worker_without_any_channel_does_not_start(sqlite_url: str) -> None:
    with Sendoff(sqlite_url, entry_points=False) as so, pytest.raises(ConfigurationError, match="no channel to serve"):
        Worker(Store(so.engine), so.registry, so.settings.worker)


def test_a_channel_that_outlives_its_lease_does_not_start(sqlite_url: str) -> None:
    class Slow(Plain):
        limits = Limits(timeout=55)

    too_long = r"timeout 55 s \+ margin 5 s must be less than the lease of 60 s"
    with Sendoff(sqlite_url, plugins=[provides(Slow("slow"))], entry_points=False) as so:  # noqa: SIM117 - two steps
        with pytest.raises(ConfigurationError, match=too_long):
            so.worker()
