"""How commands end: exit codes, one line, and no password in it."""

from __future__ import annotations

import json
from collections.abc import Callable

import click
import pytest

from sendoff.cli.failure import Ended, exit_code, fail, one_line
from sendoff.cli.options import Cli
from sendoff.errors import (
    ConfigurationError,
    InvalidNotification,
    NoDatabaseUrl,
    NotFound,
    NotMigrated,
    PluginBroken,
    SecretError,
    SendoffError,
    StoreUnavailable,
    UnknownChannel,
    UnknownSetting,
)
from sendoff.secret import Secret


def raising(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (fail("no"), 1),
        (NotFound("row", 7), 1),
        (NotMigrated("run `sendoff migrate`"), 1),
        (StoreUnavailable("away"), 1),
        (PluginBroken("broken", plugin="x"), 1),
        (SecretError("the environment variable X is not set"), 1),
        (SendoffError("something"), 1),
        (RuntimeError("a bug"), 1),
        (ConfigurationError("lease too short"), 2),
        (NoDatabaseUrl(), 2),
        (UnknownSetting("worker.leese", ["lease"], where="sendoff.toml"), 2),
        (UnknownChannel("imbox", ["inbox"]), 2),
        (InvalidNotification("recipient", "is empty", value=""), 2),
        (click.UsageError("no such option"), 2),
        (click.Abort(), 130),
        (KeyboardInterrupt(), 130),
        (Ended(), 141),
        (BrokenPipeError(), 141),
    ],
)
def test_every_ending_has_its_exit_code(error: BaseException, code: int) -> None:
    assert exit_code(raising(error), Cli()) == code


def test_a_command_that_returns_has_done_what_it_was_told() -> None:
    assert exit_code(lambda: None, Cli()) == 0
    assert exit_code(lambda: 3, Cli()) == 3


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(raising(NotFound("row", "a\nb")), Cli())

    streams = capsys.readouterr()
    assert (streams.out, streams.err) == ("", "sendoff: no row a b\n")


def test_a_traceback_comes_with_debug_only(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(raising(NotFound("row", 7)), Cli(debug=True))

    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == ("Traceback (most recent call last):", "sendoff: no row 7")


def test_a_bug_shows_the_first_line_of_its_text_alone(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(raising(RuntimeError("first\n[parameters: {'body': 'private'}]")), Cli())

    assert capsys.readouterr().err == "sendoff: unexpected RuntimeError: first; --debug shows where\n"


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (InvalidNotification("data.x", "is NaN"), "data.x"),
        (UnknownSetting("worker.leese", ["lease"], where="f"), "worker.leese"),
        (UnknownChannel("imbox", ["inbox"]), "channels"),
        (NotFound("row", 7), None),
    ],
)
def test_programs_get_the_error_as_json(
    error: SendoffError, field: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code(raising(error), Cli(as_json=True))

    streams = capsys.readouterr()
    told = json.loads(streams.err)
    expected = {"error": {"type": type(error).__name__, "message": str(error), "field": field}}
    assert (streams.out, told) == ("", expected)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter22@host/db",
        "postgresql://u:hunter22@host:notaport/db",
        "postgresql://u:p%40hunter22@host/db",
        "postgresql://u:a@hunter22@host/db",
        "postgresql://u:a hunter22@host/db",
        "postgresql://u:hunter22/x@host/db",
        "postgresql://u:hunter22?x@host/db",
        "postgresql://u:#hunter22@host/db",
        "postgresql://host/db?user=u&password=hunter22",
    ],
)
def test_no_form_of_a_url_shows_its_password(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(raising(RuntimeError(f"cannot open {url!r}")), Cli(database_url=url, debug=True))
    exit_code(raising(ConfigurationError(f"cannot open {url}")), Cli(as_json=True, database_url=url))

    streams = capsys.readouterr()
    assert "hunter22" not in streams.out + streams.err


def test_a_secret_that_was_revealed_is_not_shown() -> None:
    Secret("correct-horse-battery").reveal()

    assert one_line("token correct-horse-battery refused") == "token ******** refused"


def test_a_message_is_not_a_dump() -> None:
    assert len(one_line("x" * 10_000)) == 500
