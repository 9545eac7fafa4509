"""How a command ends: its exit code, and one clear line for what went wrong."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import click
import orjson

from sendoff.cli.options import Cli
from sendoff.errors import (
    ConfigurationError,
    InvalidNotification,
    SecretError,
    SendoffError,
    UnknownChannel,
    UnknownSetting,
)

__all__ = ["DONE", "FAILED", "INTERRUPTED", "PIPE_CLOSED", "USAGE", "Ended", "Failed", "exit_code", "fail", "one_line"]

DONE, FAILED, USAGE = 0, 1, 2
#: What shells report for a process that SIGINT or SIGPIPE ended.
INTERRUPTED, PIPE_CLOSED = 130, 141
#: A message is one line that a person reads, not a dump.
LONGEST = 500


class Ended(Exception):
    """Whoever read our output has gone away (``| head``): stop, and say nothing."""


class Failed(click.ClickException):
    """The command says what failed; ``code`` is its exit code."""

    def __init__(self, message: str, *, code: int = FAILED, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.field = field


def fail(message: str) -> Failed:
    """A stated failure to raise: exit code 1."""
    return Failed(message)


def exit_code(run: Callable[[], Any], state: Cli) -> int:
    """Run a command; the exit code it deserves, its error told on stderr."""
    try:
        code = run()
        sys.stdout.flush()
    except (Ended, BrokenPipeError):
        _forget_stdout()
        return PIPE_CLOSED
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            # A group alone: its text is the help, many lines of it. Click has the class since 8.2.
            error.show()
            return USAGE
        _tell(state, error, error.format_message(), _hint(error))
        return error.code if isinstance(error, Failed) else error.exit_code
    except SendoffError as error:
        _tell(state, error, str(error), _broken(error, state))
        return _code(error)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EIO, errno.EDQUOT} or error.filename is not None:
            _tell(state, error, _unexpected(error))
            return FAILED
        _forget_stdout()
        _tell(state, error, f"the output cannot be written: {error.strerror}")
        return FAILED
    except Exception as error:  # noqa: BLE001 - the last wall: a bug, too, ends in one line and an exit code
        _tell(state, error, _unexpected(error))
        return FAILED
    return code if isinstance(code, int) else DONE


def _code(error: SendoffError) -> int:
    """2 for what was said wrongly on the command line, in the environment or in the file; 1 for what went wrong."""
    if isinstance(error, SecretError):
        return FAILED
    return USAGE if isinstance(error, ConfigurationError | InvalidNotification | UnknownChannel) else FAILED


def _field(error: BaseException) -> str | None:
    if isinstance(error, InvalidNotification | Failed):
        return error.field
    if isinstance(error, UnknownSetting):
        return error.key
    if isinstance(error, UnknownChannel):
        return "channels"
    param = getattr(error, "param", None)
    return param.name if isinstance(param, click.Parameter) else None


def _hint(error: click.ClickException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f" (see `{error.ctx.command_path} --help`)"
    return ""


def _broken(error: SendoffError, state: Cli) -> str:
    """An unknown channel may be one whose plugin did not load."""
    if isinstance(error, UnknownChannel) and state.broken_plugins():
        return f" (broken plugins: {', '.join(state.broken_plugins())}; see `sendoff plugins`)"
    return ""


def _unexpected(error: Exception) -> str:
    """An error nobody planned for. SQLAlchemy writes parameters into the later lines of a text: the first is shown."""
    first = str(error).partition("\n")[0]
    told = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return f"unexpected {told}; --debug shows where"


def _tell(state: Cli, error: BaseException, message: str, hint: str = "") -> None:
    message = one_line(message, state)
    with contextlib.suppress(BrokenPipeError):
        if state.debug:
            trace = "".join(traceback.format_exception(error))
            print(masked(trace, state), file=sys.stderr, end="")
        if state.as_json:
            told = {"type": _type(error), "message": message, "field": _field(error)}
            print(orjson.dumps({"error": told}).decode(), file=sys.stderr)
        else:
            print(f"sendoff: {message}{hint}", file=sys.stderr)


def _type(error: BaseException) -> str:
    return type(error).__name__


def one_line(message: str, state: Cli | None = None) -> str:
    """``message`` fit for one line of a terminal or a log: no password, no control character, no dump."""
    from sendoff.cli.text import plain

    text = plain(masked(message, state))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


def masked(text: str, state: Cli | None = None) -> str:
    """``text`` without the passwords of URLs and without any secret that was revealed."""
    from sendoff.secret import scrub
    from sendoff.settings import mask_url

    for url in (state.database_url if state else None, os.environ.get("SENDOFF_DATABASE_URL")):
        if url and url in text:
            text = text.replace(url, mask_url(url))
    return "".join(mask_url(word) if "://" in word else word for word in _words(scrub(text)))


def _words(text: str) -> list[str]:
    import re

    return re.split(r"(\s+)", text)


def _forget_stdout() -> None:
    """Python flushes stdout once more at its end, and would complain that nobody is there."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
