"""The command line as a process: signals, pipes, terminals, and how quickly help is there."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import PLUGIN, environment, execute, run, started

ANSI = "\x1b["
LINE = '{"recipient": "u%d", "type": "alert", "channels": ["pager"], "body": "ok"}\n'


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def wait_until(condition: Callable[[], bool], what: str, patience: float = 30) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.05)


# -------------------------------------------------------------------------------------------------------- start-up


def test_help_loads_neither_database_nor_plugins() -> None:
    code = (
        "import sys\n"
        "from sendoff.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "print([name for name in ('sqlalchemy', 'alembic', 'psycopg', 'rich', 'sendoff.app') if name in sys.modules])\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.splitlines()[-1] == "[]"


def test_help_tells_of_each_command_what_the_command_tells_itself() -> None:
    import click

    from sendoff.cli.root import COMMANDS, cli

    context = click.Context(cli)
    told = {name: COMMANDS[name][2] for name in cli.list_commands(context) if name != "demo"}
    own: dict[str, str] = {}
    for name in told:
        command = cli.get_command(context, name)
        assert command is not None
        own[name] = " ".join((command.help or "").partition("\n\n")[0].split())

    assert told == own


@pytest.mark.parametrize("words", [(), ("dead",)])
def test_a_group_alone_shows_its_help(words: tuple[str, ...]) -> None:
    ran = run(*words)

    assert (ran.code, "Commands:" in ran.out + ran.err) == (2, True)


def test_every_command_takes_the_common_options() -> None:
    import click

    from sendoff.cli.root import cli

    wanted = {"--database-url", "--config", "--plugin", "--json", "--debug"}
    missing: dict[str, set[str]] = {}

    def visit(command: click.Command, name: str) -> None:
        options = {option for param in command.params for option in param.opts}
        if not wanted <= options:
            missing[name] = wanted - options
        if isinstance(command, click.Group):
            context = click.Context(command)
            for below in command.list_commands(context):
                found = command.get_command(context, below)
                assert found is not None
                visit(found, f"{name} {below}")

    visit(cli, "sendoff")

    assert missing == {}


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert run("--version").out == f"sendoff {version('sendoff')}\n"


# --------------------------------------------------------------------------------------------------- exit and pipes


def test_the_module_is_the_program(sqlite_url: str) -> None:
    good = execute("list", "--json", "--database-url", sqlite_url)
    bad = execute("list", "--limit", "none", "--database-url", sqlite_url)

    assert (good.code, good.out, good.err) == (0, "[]\n", "")
    assert (bad.code, bad.out, bad.err.count("\n")) == (2, "", 1)


def test_the_installed_command_is_the_same_program() -> None:
    command = Path(sys.executable).with_name("sendoff")

    ran = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)

    assert ran.stdout == execute("--version").out


def test_a_reader_that_goes_away_is_no_error(sqlite_url: str) -> None:
    lines = "".join(LINE % number for number in range(3000))
    run("enqueue", "--stdin", "--database-url", sqlite_url, "-p", PLUGIN, stdin=lines)
    with started("list", "--limit", "3000", "--database-url", sqlite_url) as process:
        assert process.stdout is not None
        assert process.stderr is not None

        first = process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()

    assert (first.split()[0], said, process.returncode) == (b"id", b"", 141)


def test_a_reader_that_was_never_there_is_no_error_either(sqlite_url: str) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        ran = execute("list", "--database-url", sqlite_url, stdout=write)
    finally:
        os.close(write)

    assert (ran.code, ran.err) == (141, "")


def test_ctrl_c_ends_without_a_traceback(sqlite_url: str) -> None:
    with started("enqueue", "--stdin", "--database-url", sqlite_url, "-p", PLUGIN) as process:
        assert process.stdin is not None
        # One batch shows that the command is at work; then it waits for more.
        process.stdin.write("".join(LINE % number for number in range(500)).encode())
        process.stdin.flush()
        wait_until(lambda: len(run("list", "--json", "--database-url", sqlite_url).json) > 0, "the first batch")

        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def test_a_terminal_that_knows_no_unicode_gets_escapes(sqlite_url: str) -> None:
    run("enqueue", "Zoë🎉", "alert", "-c", "pager", "--database-url", sqlite_url, "-p", PLUGIN)
    env = environment(PYTHONIOENCODING="ascii")

    table = execute("list", "--database-url", sqlite_url, env=env)
    data = execute("list", "--json", "--database-url", sqlite_url, env=env)

    assert (table.code, "Zo\\xeb\\U0001f389" in table.out, table.err) == (0, True, "")
    assert json.loads(data.out)[0]["recipient"] == "Zoë🎉"


# -------------------------------------------------------------------------------------------------------- terminal


def on_terminal(*words: str, columns: int = 100, answer: str = "", **env: str) -> tuple[int, str]:
    """Exit code and everything shown when all streams are a terminal of this width."""
    master, slave = pty.openpty()
    env = environment(COLUMNS=str(columns), TERM="xterm-256color", **env)
    streams = {"stdin": slave, "stdout": slave, "stderr": slave}
    with started(*words, **streams, env=env, start_new_session=True) as process:
        os.close(slave)
        if answer:
            os.write(master, answer.encode())
        shown = _read_to_the_end(master)
        os.close(master)
        return process.wait(30), shown.decode().replace("\r\n", "\n")


def _read_to_the_end(master: int) -> bytes:
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([master], [], [], 1)[0]:
            continue
        try:
            part = os.read(master, 65536)
        except OSError:  # what Linux says when the other side is closed
            break
        if not part:
            break
        shown += part
    return shown


def test_a_table_keeps_to_the_terminal(sqlite_url: str) -> None:
    words = ("--database-url", sqlite_url, "-p", PLUGIN)
    run("send", "u1", "alert", "-c", "pager", "--body", "permanent", *words)

    code, shown = on_terminal("list", *words, columns=100)
    piped = run("list", *words).out

    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert (code, ANSI in shown, ANSI in piped, len(piped.splitlines())) == (0, True, False, 2)
    assert max(len(line) for line in plain.splitlines()) <= 100
    assert re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-7", plain) is not None


def test_no_color_means_no_escape_sequence(sqlite_url: str) -> None:
    code, shown = on_terminal("status", "--database-url", sqlite_url, "-p", PLUGIN, NO_COLOR="1")

    assert (code, ANSI in shown, "pager" in shown) == (0, False, True)


def test_bulk_shows_progress_on_a_terminal_only(sqlite_url: str, tmp_path: Path) -> None:
    source = tmp_path / "lines.jsonl"
    source.write_text("".join(LINE % number for number in range(1000)), encoding="utf-8")
    words = ("enqueue", "--file", str(source), "--database-url", sqlite_url, "-p", PLUGIN)

    code, shown = on_terminal(*words)
    piped = execute(*words)

    assert (code, "enqueueing" in shown) == (0, True)
    assert (piped.code, piped.err, piped.out.splitlines()[1].split()) == (0, "", ["1,000", "1,000", "0", "0", "0"])


@pytest.mark.parametrize(
    ("answer", "code", "words"), [("y\n", 0, "1 row requeued"), ("n\n", 1, "nothing was requeued")]
)
def test_requeue_by_filter_asks_on_a_terminal(sqlite_url: str, answer: str, code: int, words: str) -> None:
    common = ("--database-url", sqlite_url, "-p", PLUGIN)
    run("send", "u1", "alert", "-c", "pager", "--body", "permanent", *common)

    ended, shown = on_terminal("requeue", "--channel", "pager", *common, answer=answer)

    assert (ended, "Requeue 1 row?" in shown, words in shown) == (code, True, True), shown


def test_requeue_does_not_ask_when_told_not_to(sqlite_url: str) -> None:
    common = ("--database-url", sqlite_url, "-p", PLUGIN)
    run("send", "u1", "alert", "-c", "pager", "--body", "permanent", *common)

    code, shown = on_terminal("requeue", "--all", "--yes", *common)

    assert (code, "?" in shown, "1 row requeued" in shown) == (0, False, True)


# ---------------------------------------------------------------------------------------------------------- worker


def read_json_log(err: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in err.decode().splitlines()]


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_delivers_until_it_is_told_to_stop(sqlite_url: str, tmp_path: Path, stop: signal.Signals) -> None:
    log = tmp_path / "calls.jsonl"
    common = ("--database-url", sqlite_url, "-p", PLUGIN)
    env = environment(SENDOFF_CHANNELS__PAGER__LOG=str(log))
    words = ("worker", "--channels", "pager", "--no-fetchers", "--log-format", "json")
    with started(*words, *common, env=env) as process:
        run("enqueue", "u1", "alert", "-c", "pager", *common)
        wait_until(lambda: log.exists() and log.read_text(encoding="utf-8") != "", "the send")
        serving = {channel["name"]: channel["workers"] for channel in run("status", "--json", *common).json["channels"]}

        process.send_signal(stop)
        out, err = process.communicate(timeout=30)

    assert (process.returncode, out, serving["pager"], serving["siren"]) == (0, b"", 1, 0)
    assert {"at", "level", "logger", "message"} <= set(read_json_log(err)[0])
    assert [row["status"] for row in run("list", "--json", *common).json] == ["sent"]


def test_a_worker_logs_lines_for_people(sqlite_url: str) -> None:
    with started("worker", "--channels", "pager", "--database-url", sqlite_url, "-p", PLUGIN) as process:
        assert process.stderr is not None
        first = process.stderr.readline().decode()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO +sendoff\S*: .+\n", first) is not None, first


def test_a_worker_refuses_a_channel_whose_plugin_is_broken(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "slack.py").write_text("import no_such_sdk\n", encoding="utf-8")
    (tmp_path / "sendoff.toml").write_text('[sendoff]\nplugins = ["slack"]\n', encoding="utf-8")

    ran = execute("worker", "--channels", "slack", "--database-url", sqlite_url)

    assert (ran.code, ran.out, ran.err.count("\n"), "no_such_sdk" in ran.err) == (1, "", 1, True), ran.err


def test_what_a_plugin_prints_stays_out_of_the_json(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "talks.py").write_text(
        "from sendoff.plugin import Channel, hookimpl\n"
        "print('imported')\n"
        "class Talks(Channel):\n"
        "    name = 'talks'\n"
        "    def send(self, delivery):\n"
        "        print('sending')\n"
        "@hookimpl\n"
        "def sendoff_channels():\n"
        "    print('asked')\n"
        "    return [Talks()]\n",
        encoding="utf-8",
    )

    ran = execute("send", "u1", "t", "-c", "talks", "--json", "-p", "talks", "--database-url", sqlite_url, cwd=tmp_path)

    assert (0, ["sent"]) == (ran.code, [row["status"] for row in ran.json])
    assert ["imported", "asked", "sending"] == ran.err.splitlines()


@pytest.mark.parametrize(
    ("closed", "code"),
    [(">&-", 0), ("2>&-", 0), ("<&-", 0), (">&- 2>&- <&-", 0), ("--json >&-", 0), ("--bogus 2>&-", 2)],
)
def test_streams_that_are_closed_are_nobodys_trouble(sqlite_url: str, closed: str, code: int) -> None:
    command = f"exec {shlex.quote(sys.executable)} -m sendoff list --database-url {shlex.quote(sqlite_url)} {closed}"

    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert (code, "") == (ran.returncode, ran.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full disk at hand")
@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("--help",)])
def test_output_that_cannot_be_written_is_one_line(sqlite_url: str, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = execute(*words, env=environment(SENDOFF_DATABASE_URL=sqlite_url), stdout=full)

    assert (1, True) == (ran.code, "the output cannot be written: No space left on device" in ran.err), ran.err
    assert 1 == ran.err.count("\n")
