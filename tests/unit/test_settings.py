"""Settings: where each value comes from, and what is wrong with a bad one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import assume, given
from hypothesis import strategies as st

from sendoff import ConfigurationError, NoDatabaseUrl, Secret, SecretError, UnknownSetting
from sendoff.limits import Limits, Retry
from sendoff.secret import MASK
from sendoff.settings import Settings, duration, mask_url


@frozen
class Pager:
    """What a plugin reads of its section."""

    url: str
    token: Secret | None = None
    retries: int = 3
    share: float = 0.5
    every: timedelta = timedelta(minutes=1)
    loud: bool = False
    tags: list[str] = field(factory=list)
    out: Path | None = None


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(
    text: str | None = None, environ: Mapping[str, str] | None = None, arguments: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from a file in the current folder, these variables and these arguments."""
    if text is not None:
        Path("sendoff.toml").write_text(text, encoding="utf-8")
    return Settings.load(arguments, environ=environ or {})


def described(settings: Settings) -> dict[str, tuple[str, str]]:
    return {key: (value, source) for key, value, source in settings.describe()}


# -------------------------------------------------------------------------------------------------------- precedence


def test_arguments_over_environment_over_file_over_defaults(here: Path) -> None:
    settings = load(
        '[sendoff]\ndatabase_url = "sqlite:///file.db"\npool_size = 7\n[worker]\nlease = "90s"\nbatch = 9\n',
        {"SENDOFF_DATABASE_URL": "sqlite:///env.db", "SENDOFF_WORKER__LEASE": "80"},
        {"sendoff": {"database_url": "sqlite:///argument.db"}},
    )
    assert ("sqlite:///argument.db", 7, 80.0, 9, 25.0) == (
        settings.database_url,
        settings.core.pool_size,
        settings.worker.lease,
        settings.worker.batch,
        settings.worker.grace,
    )
    found = described(settings)
    assert found["sendoff.database_url"] == ("sqlite:///argument.db", "argument")
    assert found["sendoff.pool_size"] == ("7", "sendoff.toml")
    assert found["worker.lease"] == ("80.0", "env SENDOFF_WORKER__LEASE")
    assert found["worker.batch"] == ("9", "sendoff.toml")
    assert found["worker.grace"] == ("25.0", "default")


def test_a_variable_reaches_any_depth(here: Path) -> None:
    settings = load(
        '[channels.slack]\nurl = "http://file"\n',
        {
            "SENDOFF_CHANNELS__SLACK__URL": "http://env",
            "SENDOFF_CHANNELS__SLACK__LIMITS__TIMEOUT": "7",
            "SENDOFF_PLUGINS__METRICS__PORT": "9",
            "SENDOFF_DEFAULT_CHANNELS": "inbox, fcm,",
        },
    )
    assert settings.section("channels.slack", Pager).url == "http://env"
    assert settings.overrides("slack").limits == {"timeout": "7"}
    assert settings.core.default_channels == ["inbox", "fcm"]
    assert described(settings)["channels.slack.url"] == ("http://env", "env SENDOFF_CHANNELS__SLACK__URL")


def test_the_file_may_be_named_by_the_environment_and_by_the_caller(here: Path) -> None:
    for name in ("a", "b"):
        (here / f"{name}.toml").write_text(f'[sendoff]\ndatabase_url = "sqlite:///{name}.db"\n')
    environ = {"SENDOFF_CONFIG": str(here / "a.toml")}
    assert Settings.load(environ=environ).database_url == "sqlite:///a.db"
    assert Settings.load(config=here / "b.toml", environ=environ).database_url == "sqlite:///b.db"


def test_without_any_file_there_are_defaults(here: Path) -> None:
    assert ([], 60.0, "allow") == (
        load().core.plugins,
        load().worker.lease,
        load().core.unknown_types,
    )


def test_no_database_url_names_the_ways_to_give_one(here: Path) -> None:
    for settings in (load(), load(environ={"SENDOFF_DATABASE_URL": ""})):
        with pytest.raises(NoDatabaseUrl) as caught:
            _ = settings.database_url
        for way in ("--database-url", "SENDOFF_DATABASE_URL", "sendoff.toml", "sqlite:///sendoff.db"):
            assert way in str(caught.value)


# ----------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ('[sendoff]\ndatabase_ulr = "x"\n', "sendoff.database_ulr", "database_url"),
        ("[worker]\nleese = 5\n", "worker.leese", "lease"),
        ("[workers]\nlease = 5\n", "workers", "worker"),
        ('database_url = "x"\n', "database_url", None),
        ("[zebra]\n", "zebra", None),
    ],
)
def test_an_unknown_key_of_a_file_is_refused_with_the_nearest(
    here: Path, text: str, key: str, nearest: str | None
) -> None:
    with pytest.raises(UnknownSetting, match=rf"^sendoff\.toml: unknown setting '{key}'") as caught:
        load(text)
    assert (key, nearest) == (caught.value.key, caught.value.nearest)
    assert (f"did you mean '{nearest}'?" if nearest else "known: ") in str(caught.value)


def test_an_unknown_key_of_a_channel_is_refused_when_it_is_read(here: Path) -> None:
    settings = load('[channels.pager]\nurll = "x"\n')
    with pytest.raises(UnknownSetting, match=r"'channels\.pager\.urll'; did you mean 'url'\?"):
        settings.section("channels.pager", Pager)
    settings = load('[channels.pager]\nurl = "x"\nlimit = 5\n')
    with pytest.raises(UnknownSetting, match=r"did you mean 'limits'\?"):
        settings.section("channels.pager", Pager)


def test_an_unknown_variable_is_only_listed(here: Path) -> None:
    environ = {
        "SENDOFF_SERVICE_HOST": "10.0.0.1",
        "SENDOFF_PORT_80_TCP_PROTO": "tcp",
        "SENDOFF_WORKER__LEESE": "5",
        "SENDOFF_CHANNELS__SLACK": "x",
        "SENDOFF_CONFIG": "",
        "SENDOFF_TEST_DATABASE_URL": "x",
        "SENDOFF_DATABASE_URL": "sqlite://",
        "OTHER": "x",
    }
    assert load(environ=environ).unknown_variables(environ) == [
        "SENDOFF_CHANNELS__SLACK",
        "SENDOFF_PORT_80_TCP_PROTO",
        "SENDOFF_SERVICE_HOST",
        "SENDOFF_WORKER__LEESE",
    ]


@pytest.mark.parametrize("text", ["[sendoff", "a = ", "[sendoff]\npool_size = 1\npool_size = 2\n"])
def test_a_file_that_is_no_toml_is_named_with_the_place(here: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sendoff\.toml is not valid TOML: .*(line|end of document)"):
        load(text)


def test_a_file_that_is_missing_is_named(here: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"settings file nowhere\.toml does not exist"):
        Settings.load(config="nowhere.toml", environ={})
    with pytest.raises(ConfigurationError, match=r"settings file nowhere\.toml does not exist"):
        Settings.load(environ={"SENDOFF_CONFIG": "nowhere.toml"})


def test_a_file_that_cannot_be_read_is_named(here: Path) -> None:
    (here / "folder.toml").mkdir()
    with pytest.raises(ConfigurationError, match=r"folder\.toml cannot be read"):
        Settings.load(config="folder.toml", environ={})
    (here / "latin.toml").write_bytes('[sendoff]\nx = "é"\n'.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"latin\.toml cannot be read: UnicodeDecodeError"):
        Settings.load(config="latin.toml", environ={})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sendoff = 5\n", r"\[sendoff\] must be a table"),
        ("worker = []\n", r"\[worker\] must be a table"),
        ("channels = 5\n", r"\[channels\] must be a table"),
        ('plugins = ["my_plugin"]\n', r"\[plugins\] must be a table"),
        ("[channels]\npager = 5\n", r"\[channels\.pager\] must be a table"),
        ("[plugins]\nmetrics = 5\n", r"\[plugins\.metrics\] must be a table"),
        ('[worker]\nlease = "soon"\n', r"worker\.lease: 'soon' is not a duration; write seconds or 30s, 10m, 24h"),
        ("[worker]\nlease = 0\n", r"lease must be above 0"),
        ("[worker]\nlease = inf\n", r"worker\.lease: .*not a duration"),
        ("[worker]\nlease = nan\n", r"worker\.lease: .*not a duration"),
        ("[worker]\nlease = true\n", r"worker\.lease: .*not a duration"),
        ("[worker]\nbatch = 1.5\n", r"worker\.batch: must be a whole number"),
        ("[worker]\nbatch = -1\n", r"batch must be above 0"),
        ('[worker]\nfetchers = "maybe"\n', r"worker\.fetchers: must be true or false"),
        ("[worker]\nchannels = 5\n", r"worker\.channels: must be a list"),
        ("[sendoff]\ndatabase_url = 5\n", r"sendoff\.database_url: must be text"),
        ('[sendoff]\nunknown_types = "maybe"\n', r"sendoff\.unknown_types"),
        ('[channels.pager]\non_no_target = "lost"\n', r"channels\.pager\.on_no_target"),
        ("[channels.pager]\nlimits = 5\n", r"channels\.pager\.limits"),
    ],
)
def test_a_bad_value_is_one_clear_line_that_names_the_key(here: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        load(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (
            {},
            r"channels\.pager\.url is missing; write it under \[channels\.pager\], or set SENDOFF_CHANNELS__PAGER__URL",
        ),
        ({"url": 5}, r"channels\.pager\.url: must be text"),
        ({"url": "x", "retries": "many"}, r"channels\.pager\.retries: must be a whole number"),
        ({"url": "x", "every": "often"}, r"channels\.pager\.every: 'often' is not a duration"),
        ({"url": "x", "token": {"env": ""}}, r"channels\.pager.*a secret is"),
        ({"url": "x", "token": 5}, r"channels\.pager.*a secret is"),
    ],
)
def test_a_plugins_bad_value_is_one_clear_line(here: Path, section: dict[str, Any], problem: str) -> None:
    settings = load(arguments={"channels": {"pager": section}})
    with pytest.raises(ConfigurationError, match=problem) as caught:
        settings.section("channels.pager", Pager)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["pager", "channels", "channels.", "worker.x", ""])
def test_a_plugin_reads_its_own_sections_only(here: Path, path: str) -> None:
    with pytest.raises(ConfigurationError, match=r"channels\.NAME or plugins\.NAME"):
        load().section(path, Pager)


# ------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5.0),
        (1.5, 1.5),
        (timedelta(minutes=2), 120.0),
        ("30", 30.0),
        ("30s", 30.0),
        ("1m30s", 90.0),
        ("250ms", 0.25),
        ("24h", 86400.0),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        (" 1h 30m ", 5400.0),
        ("-5", -5.0),
    ],
)
def test_a_duration_may_be_written_as_people_do(value: object, expected: float) -> None:
    assert duration(value) == pytest.approx(expected)


@pytest.mark.parametrize("value", ["", " ", "s", "5x", "5 s m", "1h-5m", True, None, [], "inf", "nan", "1e999"])
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="is not a duration; write seconds or 30s, 10m, 24h"):
        duration(value)


def test_texts_of_the_environment_become_values(here: Path) -> None:
    environ = {
        "SENDOFF_CHANNELS__PAGER__URL": "http://x",
        "SENDOFF_CHANNELS__PAGER__TOKEN": "t0ken",
        "SENDOFF_CHANNELS__PAGER__RETRIES": "5",
        "SENDOFF_CHANNELS__PAGER__SHARE": "0.25",
        "SENDOFF_CHANNELS__PAGER__EVERY": "90s",
        "SENDOFF_CHANNELS__PAGER__LOUD": "Yes",
        "SENDOFF_CHANNELS__PAGER__TAGS": "a, b",
        "SENDOFF_CHANNELS__PAGER__OUT": "x/y",
    }
    expected = Pager("http://x", Secret("t0ken"), 5, 0.25, timedelta(seconds=90), True, ["a", "b"], Path("x/y"))
    assert expected == load(environ=environ).section("channels.pager", Pager)


def test_secrets_are_named_and_read_late(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAGER_TOKEN", raising=False)
    config = load('[channels.pager]\nurl = "x"\ntoken = {env = "PAGER_TOKEN"}\n').section("channels.pager", Pager)
    assert config.token == Secret(env="PAGER_TOKEN")
    with pytest.raises(SecretError, match="PAGER_TOKEN"):
        config.token.reveal()


# ----------------------------------------------------------------------------------------------- channels and instances


def test_reserved_keys_are_not_the_plugins(here: Path) -> None:
    text = (
        '[channels.pager]\nplugin = "pager"\nurl = "x"\non_no_target = "sent"\n'
        '[channels.pager.limits]\ntimeout = "5s"\nconcurrency = 3\nrate = "2.5"\n'
        '[channels.pager.retry]\ndelays = ["1s", "1m"]\n'
    )
    settings = load(text)
    assert settings.section("channels.pager", Pager) == Pager("x")
    overrides = settings.overrides("pager")
    assert overrides.on_no_target == "sent"
    assert overrides.merge_limits(Limits(batch=7), where="channels.pager") == Limits(
        timeout=5, concurrency=3, rate=2.5, batch=7
    )
    assert overrides.merge_retry(Retry(attempts=9), where="channels.pager") == Retry(delays=(1, 60), attempts=3)


def test_overrides_from_the_environment(here: Path) -> None:
    settings = load(
        environ={
            "SENDOFF_CHANNELS__PAGER__RETRY__DELAYS": "1s, 2s,3",
            "SENDOFF_CHANNELS__PAGER__LIMITS__LEASE": "",
            "SENDOFF_CHANNELS__PAGER__LIMITS__BATCH": "12",
        }
    )
    overrides = settings.overrides("pager")
    assert overrides.merge_retry(Retry(), where="x").delays == (1, 2, 3)
    assert overrides.merge_limits(Limits(lease=9), where="x") == Limits(batch=12)


@pytest.mark.parametrize(
    ("kind", "values", "problem"),
    [
        ("limits", {"timout": 5}, r"channels\.pager\.limits\.timout'; did you mean 'timeout'\?"),
        ("limits", {"timeout": "soon"}, r"channels\.pager\.limits\.timeout: 'soon' is not a duration"),
        ("limits", {"timeout": 0}, r"channels\.pager: limits\.timeout must be above 0"),
        ("limits", {"concurrency": "many"}, r"channels\.pager\.limits\.concurrency"),
        ("limits", {"rate": "fast"}, r"channels\.pager\.limits\.rate"),
        ("retry", {"delays": 5}, r"channels\.pager\.retry\.delays"),
        ("retry", {"delays": ["x"]}, r"channels\.pager\.retry\.delays: 'x' is not a duration"),
        ("retry", {"attempts": 0}, r"channels\.pager: retry\.attempts must be at least 1"),
        ("retry", {"dealys": [1]}, r"did you mean 'delays'\?"),
    ],
)
def test_a_bad_override_is_one_clear_line(here: Path, kind: str, values: dict[str, Any], problem: str) -> None:
    overrides = load(arguments={"channels": {"pager": {kind: values}}}).overrides("pager")
    merge: Any = {"limits": overrides.merge_limits, "retry": overrides.merge_retry}[kind]
    with pytest.raises(ConfigurationError, match=problem) as caught:
        merge({"limits": Limits(), "retry": Retry()}[kind], where="channels.pager")
    assert "\n" not in str(caught.value)


def test_two_instances_of_one_plugin_are_two_channels(here: Path) -> None:
    settings = load('[channels.staff]\nplugin = "fcm"\n[channels.shop]\nplugin = "fcm"\n[channels.sms]\nkey = "x"\n')
    assert settings.instances("fcm", "fcm") == ["staff", "shop"]
    assert settings.instances("sms", "sms") == ["sms"]
    assert settings.instances("email", "email") == ["email"]


def test_a_channel_that_belongs_to_another_plugin_is_not_the_default(here: Path) -> None:
    settings = load('[channels.push]\nplugin = "fcm"\n')
    assert settings.instances("push", "push") == []
    assert settings.instances("fcm", "fcm") == ["push"]


@pytest.mark.parametrize("name", ["file", "env"])
def test_a_channel_may_be_called_like_the_source_of_a_secret(here: Path, name: str) -> None:
    settings = load(f'[channels.{name}]\nurl = "x"\n', {f"SENDOFF_CHANNELS__{name.upper()}__RETRIES": "9"})
    assert settings.section(f"channels.{name}", Pager) == Pager("x", retries=9)


@pytest.mark.parametrize("key", ["file", "env"])
def test_a_channels_only_key_may_be_called_like_the_source_of_a_secret(here: Path, key: str) -> None:
    settings = load(f'[channels.sms]\n{key} = "out"\n', {"SENDOFF_CHANNELS__SMS__LIMITS__TIMEOUT": "9"})
    assert described(settings)[f"channels.sms.{key}"] == ("out", "sendoff.toml")
    assert settings.overrides("sms").limits == {"timeout": "9"}


# -------------------------------------------------------------------------------------------------------- nothing shown


def test_what_is_described_shows_no_secret(here: Path) -> None:
    text = (
        '[sendoff]\ndatabase_url = "postgresql://app:s3cr3t@db/shop"\nlisten_url = "postgresql://app:s3cr3t@db/shop"\n'
        '[channels.pager]\nurl = "https://u:s3cr3t@x/y"\ntoken = "s3cr3t"\nwebhook = "https://hooks.example/s3cr3t"\n'
        'api_key = "s3cr3t"\ntokens = ["s3cr3t"]\npassword = {file = "/run/pw"}\nsecret = {env = "PAGER"}\n'
        'token_ttl = 5\n[channels.pager.auth]\nuser_password = "s3cr3t"\n'
        '[plugins.x]\ndsn = "s3cr3t"\ncredentials = "s3cr3t"\n'
    )
    found = described(load(text))
    assert [key for key, (value, _) in found.items() if "s3cr3t" in value] == []
    assert found["sendoff.database_url"][0] == "postgresql://app:***@db/shop"
    assert found["channels.pager.password"][0] == f"file /run/pw: {MASK}"
    assert found["channels.pager.secret"][0] == f"env PAGER: {MASK}"
    assert found["channels.pager.token_ttl"][0] == "5"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://app:secret@db/shop", "postgresql://app:***@db/shop"),
        ("postgresql://app:se@cret@db/shop", "postgresql://app:***@db/shop"),
        ("postgresql://app:se/cr@e:t?#@db/shop", "postgresql://app:***@db/shop"),
        ("postgresql://:secret@db/shop", "postgresql://:***@db/shop"),
        ("postgresql://app@db/shop", "postgresql://app@db/shop"),
        ("postgresql://db:5432/shop", "postgresql://db:5432/shop"),
        ("postgresql://db/shop?user=app&password=se#cret", "postgresql://db/shop?user=app&password=***"),
        ("postgresql://db/shop?PASSWORD=secret&x=1", "postgresql://db/shop?PASSWORD=***&x=1"),
        ("postgresql://db/shop?sslpassword=secret", "postgresql://db/shop?sslpassword=***"),
        ("sqlite:///sendoff.db", "sqlite:///sendoff.db"),
        ("sqlite://", "sqlite://"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, expected: str) -> None:
    assert expected == mask_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql//app:sec ret@db/shop",
        "postgres:/app:sec ret@db/shop",
        "app:sec ret@db/shop",
        "host=db user=app password=sec ret",
        "postgresql://a@pp:sec ret/x@db/shop",
        "postgresql://a/pp:sec ret@db/shop",
        "postgresql://app:sec\n ret@db/shop",
    ],
)
def test_what_is_hardly_a_url_shows_no_password_either(url: str) -> None:
    assert not re.search(r"sec\s+ret|sec$|ret", mask_url(url).replace("secret", ""))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.sampled_from(["app", "", "a.b"]))
def test_no_password_is_ever_shown(password: str, user: str) -> None:
    assume(not set(password) & set("0123456789"))
    marked = f"0{password}0"
    for url in (f"postgresql://{user}:{marked}@db/shop", f"postgresql://db/shop?password={marked.replace('&', '')}"):
        assert "0" not in mask_url(url)


def test_the_real_environment_is_the_default(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SENDOFF_DATABASE_URL", "sqlite:///real.db")
    assert Settings.load().database_url == "sqlite:///real.db"
