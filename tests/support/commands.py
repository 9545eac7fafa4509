"""Running the command line in tests: in this process, or as the program that people start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen
from click.testing import CliRunner

from sendoff.cli import cli

ROOT = Path(__file__).parents[2]
PLUGIN = "tests.support.plugins_cli"


@frozen
class Ran:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its stdout as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """Its stderr as the JSON of one error."""
        return json.loads(self.err)["error"]


def run(*words: str, stdin: str | bytes | None = None, env: Mapping[str, str | None] | None = None) -> Ran:
    """``sendoff WORDS`` in this process: quick, without what only a process has (signals, pipes, a terminal)."""
    result = CliRunner().invoke(cli, list(words), input=stdin, env=env, prog_name="sendoff")
    return Ran(result.exit_code, result.stdout, result.stderr)


def environment(**more: str) -> dict[str, str]:
    """That of a process that finds the tests' plugin wherever it runs."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


@contextmanager
def started(*words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """``python -m sendoff WORDS`` as a process that does not outlive the block; its streams are pipes unless told
    otherwise."""
    options.setdefault("env", environment())
    for name in ("stdin", "stdout", "stderr"):
        options.setdefault(name, subprocess.PIPE)
    process: subprocess.Popen[bytes]
    with subprocess.Popen([sys.executable, "-m", "sendoff", *words], **options) as process:
        try:
            yield process
        finally:
            process.kill()


def execute(*words: str, stdin: bytes = b"", timeout: float = 60, **options: Any) -> Ran:
    """``python -m sendoff WORDS``, waited for."""
    with started(*words, **options) as process:
        out, err = process.communicate(stdin, timeout)
    return Ran(process.returncode, (out or b"").decode(), (err or b"").decode())
