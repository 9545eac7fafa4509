"""Bad input at the command line: one clear line each, the right exit code, and no password anywhere."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tests.support.commands import PLUGIN, Ran, run

PASSWORD = "hunter22"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def is_one_line(ran: Ran) -> bool:
    return ran.out == "" and ran.err.startswith("sendoff: ") and ran.err.count("\n") == 1 and "Traceback" not in ran.err


def refused(url: str, *words: str) -> str:
    """What ``sendoff enqueue`` says to these words; nothing was written."""
    ran = run("enqueue", *words, "--database-url", url, "-p", PLUGIN)
    assert (ran.code, is_one_line(ran)) == (2, True), ran
    assert run("list", "--json", "--database-url", url, "-p", PLUGIN).json == []
    return ran.err


GOOD = ("u1", "alert", "-c", "pager")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("u1", "alert", "-c", "pgaer"), "unknown channel 'pgaer'; did you mean 'pager'?"),
        (("", "alert", "-c", "pager"), "recipient: is empty"),
        (("u1", " ", "-c", "pager"), "type: is empty"),
        (
            ("u1", "alert"),
            "channels: is not given and there is no default; name some or set default_channels (got nothing)",
        ),
        (
            ("u" * 513, "alert", "-c", "pager"),
            "recipient: is 513 characters (513 bytes); the limit is 512 (1024) (got str)",
        ),
        (("u1",), "say RECIPIENT and TYPE, or read many with --stdin or --file"),
        ((*GOOD, "--not-before", "2026-12-01T09:00:00"), "has no time zone; write 2026-12-01T09:00:00Z for UTC"),
        ((*GOOD, "--expires-at", "tomorrow"), "write it as 2026-12-01T09:00:00+01:00"),
        ((*GOOD, "--ttl", "soon"), "'soon' is not a duration; write seconds or 30s, 10m, 24h"),
        ((*GOOD, "--ttl", "1h", "--expires-at", "2h"), "ttl: is given together with expires_at"),
        ((*GOOD, "--ttl", "99999999999d"), "'99999999999d' is longer than anybody can wait"),
        ((*GOOD, "--data", "{"), "data: is not JSON"),
        ((*GOOD, "--data", '{"x": 123456789012345678901}'), "data.x: is an integer beyond 64 bits; pass it as text"),
        ((*GOOD, "--data", '{"x": ' + "9" * 5000 + "}"), "data: "),
        ((*GOOD, "--data", "[1]"), "data: must be a mapping"),
        ((*GOOD, "--data", '{"x": NaN}'), "data: has NaN, which JSON cannot hold; use null or text"),
        ((*GOOD, "--data", '{"x": "\\ud800"}'), "surrogate"),
        ((*GOOD, "--data", '{"x": "\udcff"}'), "data: has a lone surrogate at position 7; remove it"),
        ((*GOOD, "--data", '{"x": "\\u0000"}'), "data.x: has a NUL character at position 0; remove it"),
        ((*GOOD, "--title", "\udcff"), "title: has a lone surrogate at position 0"),
        ((*GOOD, "--title", "longer than twenty characters"), "title: is 29 characters; the limit is 20"),
        ((*GOOD, "--option", "tone=7"), "'tone=7' names no channel; write CHANNEL.KEY=VALUE"),
        ((*GOOD, "--option", "tone"), "'tone' is not CHANNEL.KEY=VALUE"),
        ((*GOOD, "--option", "pgaer.tone=7"), "pgaer"),
        ((*GOOD, "--address", "+49"), "'+49' is not CHANNEL=ADDRESS"),
        ((*GOOD, "--priority", "urgnet"), "did you mean 'urgent'?"),
        ((*GOOD, "--tilte", "x"), "--title"),
        ((*GOOD, "--file", "missing.jsonl"), "missing.jsonl"),
    ],
)
def test_what_could_never_be_delivered_is_refused_by_name(
    sqlite_url: str, words: tuple[str, ...], expected: str
) -> None:
    told = refused(sqlite_url, *words)

    assert expected in told, told


def test_an_unknown_command_names_the_nearest() -> None:
    ran = run("stauts")

    assert (ran.code, "'stauts'" in ran.err.splitlines()[-1]) == (2, True), ran.err


def test_an_unknown_setting_names_the_nearest(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "sendoff.toml").write_text("[worker]\nleese = 30\n", encoding="utf-8")

    ran = run("list", "--database-url", sqlite_url)

    expected = "sendoff: sendoff.toml: unknown setting 'worker.leese'; did you mean 'lease'?\n"
    assert (ran.code, ran.out, ran.err) == (2, "", expected)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[worker\n", "is not valid TOML"),
        ('[worker]\nlease = "soon"\n', "worker.lease"),
        ("[wroker]\nlease = 3\n", "did you mean 'worker'?"),
    ],
)
def test_a_settings_file_that_makes_no_sense(sqlite_url: str, tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "sendoff.toml").write_text(content, encoding="utf-8")

    ran = run("list", "--database-url", sqlite_url)

    assert (ran.code, is_one_line(ran), expected in ran.err) == (2, True, True), ran.err


def test_a_settings_file_that_is_not_there(sqlite_url: str) -> None:
    ran = run("list", "--database-url", sqlite_url, "--config", "other.toml")

    assert (ran.code, ran.err) == (2, "sendoff: the settings file other.toml does not exist\n")


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("migrate",),
        ("enqueue", *GOOD),
        ("send", *GOOD),
        ("drain",),
        ("worker",),
        ("list",),
        ("dead", "list"),
    ],
)
def test_no_database_url_tells_the_ways_to_give_one(words: tuple[str, ...]) -> None:
    ran = run(*words, "-p", PLUGIN)

    told = [
        way in ran.err for way in ("--database-url", "SENDOFF_DATABASE_URL", "sendoff.toml", "sqlite:///sendoff.db")
    ]
    assert (ran.code, is_one_line(ran), told) == (2, True, [True] * 4), ran


def test_config_and_plugins_need_no_database() -> None:
    assert [run("config").code, run("plugins", "-p", PLUGIN).code] == [0, 0]


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("list",),
        ("enqueue", *GOOD),
        ("send", *GOOD),
        ("drain",),
        ("worker", "--log-level", "critical"),
        ("fetch", "shop"),
        ("requeue", "--all"),
        ("show", "01936d5e-0000-7000-8000-000000000001"),
        ("cancel", "01936d5e-0000-7000-8000-000000000001"),
    ],
)
def test_a_database_that_is_not_migrated_names_the_command(empty_database_url: str, words: tuple[str, ...]) -> None:
    ran = run(*words, "--database-url", empty_database_url, "-p", PLUGIN)

    assert (ran.code, is_one_line(ran), "`sendoff migrate`" in ran.err) == (1, True, True), ran


def test_bulk_into_a_database_that_is_not_migrated(empty_sqlite_url: str) -> None:
    line = '{"recipient": "u1", "type": "alert", "channels": ["pager"]}\n'

    ran = run("enqueue", "--stdin", "--database-url", empty_sqlite_url, "-p", PLUGIN, stdin=line)

    assert (ran.code, is_one_line(ran), "`sendoff migrate`" in ran.err) == (1, True, True), ran


# ------------------------------------------------------------------------------------------------------- plugins


def test_a_plugin_that_is_not_there(sqlite_url: str) -> None:
    ran = run("enqueue", *GOOD, "--database-url", sqlite_url, "-p", "no_such_module")

    told = "plugin no_such_module cannot be used: ModuleNotFoundError: No module named 'no_such_module'"
    assert (ran.code, ran.out, ran.err) == (1, "", f"sendoff: {told}\n")


def test_a_plugin_that_cannot_be_imported_is_named_and_the_others_work(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "broken_plugin.py").write_text("import no_such_sdk\n", encoding="utf-8")
    (tmp_path / "sendoff.toml").write_text('[sendoff]\nplugins = ["broken_plugin"]\n', encoding="utf-8")
    common = ("--database-url", sqlite_url, "-p", PLUGIN)

    listed, doctor = run("plugins", "--json", *common), run("doctor", *common)
    works, unknown = run("enqueue", *GOOD, *common), run("enqueue", "u1", "alert", "-c", "slack", *common)

    [broken] = [plugin for plugin in listed.json if plugin["error"]]
    assert (broken["name"], "no_such_sdk" in broken["error"]) == ("broken_plugin", True)
    assert (listed.code, doctor.code, works.code, unknown.code) == (0, 1, 0, 2)
    assert ("broken_plugin" in doctor.out, doctor.err) == (True, "sendoff: 1 error found\n")
    assert "broken plugins: broken_plugin; see `sendoff plugins`" in unknown.err


def test_a_plugin_whose_commands_fail_does_not_take_the_others_along(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "bad_commands.py").write_text(
        "from sendoff.plugin import hookimpl\n@hookimpl\ndef sendoff_cli(group):\n    raise RuntimeError('oh\\nno')\n",
        encoding="utf-8",
    )
    common = ("--database-url", sqlite_url, "-p", "bad_commands", "-p", PLUGIN)

    ring, status = run(*common, "ring"), run(*common, "status")

    assert (ring.code, ring.out, status.code, status.err) == (0, "ring ring\n", 0, "")
    assert ring.err == "sendoff: plugin bad_commands could not add its commands: RuntimeError: oh no\n"


def test_a_module_of_the_current_folder_is_a_plugin(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "here_plugin.py").write_text(f"from {PLUGIN} import *\n", encoding="utf-8")

    ran = run("enqueue", *GOOD, "--database-url", sqlite_url, "-p", "here_plugin", "--json")

    assert (ran.code, ran.json["rows"][0]["outcome"]) == (0, "created")


# ----------------------------------------------------------------------------------------------------- passwords


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


URLS = {
    "plain": "postgresql://user:hunter22@127.0.0.1:{port}/db",
    "with a driver": "postgresql+psycopg://user:hunter22@127.0.0.1:{port}/db",
    "not percent-encoded": "postgresql://user:a@hunter22/b@127.0.0.1:{port}/db",
    "a port that is no number": "postgresql://user:hunter22@host:port/db",
    "another database": "mysql://user:hunter22@host/db",
    "a driver that is not there": "postgresql+nothing://user:hunter22@host/db",
    "in the query": "postgresql://127.0.0.1:{port}/db?user=u&password=hunter22",
    "no URL at all": "user:hunter22@host/db",
    "half a URL": "://user:hunter22@host/db",
}


@pytest.mark.parametrize("kind", URLS)
@pytest.mark.parametrize("words", [("status",), ("migrate",), ("doctor",), ("enqueue", *GOOD), ("--debug", "list")])
def test_no_command_shows_the_password_of_a_url(kind: str, words: tuple[str, ...], closed_port: int) -> None:
    url = URLS[kind].format(port=closed_port)

    by_option = run(*words, "--database-url", url, "-p", PLUGIN)
    by_variable = run(*words, "--json", "-p", PLUGIN, env={"SENDOFF_DATABASE_URL": url})

    assert by_option.code in {1, 2}
    assert by_variable.code == by_option.code
    shown = by_option.out + by_option.err + by_variable.out + by_variable.err
    assert PASSWORD not in shown


def test_config_shows_the_url_without_its_password() -> None:
    ran = run("config", "--json", "--database-url", f"postgresql://user:{PASSWORD}@host/db")

    found = {row["key"]: row["value"] for row in ran.json}
    assert found["sendoff.database_url"] == "postgresql://user:***@host/db"


def test_a_database_that_is_away_is_one_line(closed_port: int) -> None:
    url = f"postgresql://user:{PASSWORD}@127.0.0.1:{closed_port}/db"

    ran, told = run("list", "--database-url", url), run("list", "--database-url", url, "--json")

    assert (ran.code, is_one_line(ran)) == (1, True), ran
    assert (told.code, told.out, told.error["type"], told.error["field"]) == (1, "", "StoreUnavailable", None)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://127.0.0.1:{port}/db", "(connection refused; is the server running, are host and port right?)"),
        ("postgresql://host.invalid/db", "(its host name is unknown)"),
        ("postgresql:///db?host=/nowhere", "(no server listens on this socket)"),
        ("sqlite:///no/such/folder/x.db", "do its folder and it exist, and may this user write there?"),
        ("sqlite:///text.db", "the database file is no SQLite database"),
    ],
)
def test_a_database_that_cannot_be_opened_says_why(url: str, expected: str, closed_port: int, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, and long enough to tell\n" * 50, encoding="utf-8")

    ran = run("list", "--database-url", url.format(port=closed_port))

    assert (ran.code, is_one_line(ran), expected in ran.err) == (1, True, True), ran


def test_a_database_or_user_that_the_server_does_not_know(postgres_url: str) -> None:
    no_database = make_url(postgres_url).set(database="nowhere").render_as_string(hide_password=False)

    ran = run("list", "--database-url", no_database)

    assert (1, "sendoff: the database cannot be reached (it has no such database)\n") == (ran.code, ran.err)


# --------------------------------------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("list", "--status", "ded"), "did you mean 'dead'?"),
        (("list", "--verdict", "permanet"), "did you mean 'permanent'?"),
        (("list", "--limit", "0"), "--limit"),
        (("list", "--since", "yesterday"), "is not a date and time"),
        (("show", "17"), "'17' is not a valid UUID"),
        (("drain", "--budget", "-1"), "is not above zero"),
        (("drain", "--channels", ","), "names nothing"),
        (("drain", "--channels", "pgaer"), "unknown channel 'pgaer'; did you mean 'pager'?"),
        (("worker", "--batch", "0"), "--batch"),
        (("fetch", "shpo"), "unknown fetcher 'shpo'; did you mean 'shop'?"),
        (("list", "extra"), "extra"),
    ],
)
def test_wrong_usage_is_2_and_says_what_is_right(sqlite_url: str, words: tuple[str, ...], expected: str) -> None:
    ran = run(*words, "--database-url", sqlite_url, "-p", PLUGIN)

    assert (ran.code, is_one_line(ran), expected in ran.err) == (2, True, True), ran


def test_programs_get_usage_errors_as_json_too(sqlite_url: str) -> None:
    ran = run("list", "--limit", "x", "--json", "--database-url", sqlite_url)

    error = json.loads(ran.err)["error"]
    assert (ran.code, ran.out, error["type"], error["field"]) == (2, "", "BadParameter", "limit")


def test_unknown_variables_are_a_warning_of_the_doctor(sqlite_url: str) -> None:
    ran = run("doctor", "--database-url", sqlite_url, env={"SENDOFF_SERVICE_HOST": "10.0.0.1"})

    warnings = [line for line in ran.out.splitlines() if line.startswith("warning") and "SENDOFF_SERVICE_HOST" in line]
    assert (ran.code, len(warnings)) == (0, 1), ran.out
