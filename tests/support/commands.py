"""Running the command line in tests: in this process, or as the program that people start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
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


def start(*words: str, **options: Any) -> subprocess.Popen[bytes]:
    """``python -m sendoff WORDS`` as a process; its streams are pipes unless told otherwise."""
    options.setdefault("env", environment())
    for name in ("stdin", "stdout", "stderr"):
        options.setdefault(name, subprocess.PIPE)
    process: subprocess.Popen[bytes] = subprocess.Popen([sys.executable, "-m", "sendoff", *words], **options)
    return process


def execute(*words: str, stdin: bytes = b"", timeout: float = 60, **options: Any) -> Ran:
    """``python -m sendoff WORDS``, waited for."""
    process = start(*words, **options)
    try:
        out, err = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Ran(process.returncode, (out or b"").decode(), (err or b"").decode())
