"""Worker processes by fork, from a process that has everything imported: real processes, ready in milliseconds.

Run as a program, it reads orders on standard input, one JSON object a line, and answers each with one on standard
output. The workers die with it: it kills those that are left when its input ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from attrs import define

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0


@define
class WorkerProcess:
    """One worker, its process id, and the file with what it logs."""

    nursery: Nursery
    pid: int
    log: Path

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def terminate(self, timeout: float = PATIENCE) -> int:
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout: float = PATIENCE) -> int:
        """The exit code, negative for a signal; TimeoutError while it runs."""
        code = self.nursery.order({"order": "wait", "pid": self.pid, "timeout": timeout})["code"]
        if code is None:
            raise TimeoutError(f"worker {self.pid} runs on; it logged:\n{self.logged()}")
        return int(code)

    def logged(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""


class Nursery:
    """Starts workers; one for a whole test session is enough."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.nursery"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def worker(
        self,
        settings: Mapping[str, Any],
        log: Path,
        *,
        channels: Sequence[str] | None = None,
        plugins: Sequence[str] = ("tests.support.recording",),
    ) -> WorkerProcess:
        """Start a worker process. ``settings`` are nested as in a file."""
        answer = self.order(
            {
                "order": "worker",
                "settings": settings,
                "channels": channels,
                "plugins": list(plugins),
                "log": str(log),
            }
        )
        return WorkerProcess(self, int(answer["pid"]), log)

    def order(self, order: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()


# ------------------------------------------------------------------------------------------------ the other process


def _work(order: Mapping[str, Any]) -> int:
    """In the child: a worker until it is told to stop."""
    from sendoff.app import Sendoff
    from sendoff.cli.logs import set_up_logging
    from sendoff.settings import Settings

    for stream in (sys.stdin.fileno(), sys.stdout.fileno()):
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, stream)
        os.close(null)
    handle = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(handle, sys.stderr.fileno())
    os.close(handle)
    set_up_logging("info", "line")
    settings = Settings.load(order["settings"], environ={})
    so = Sendoff(settings=settings, plugins=order["plugins"], entry_points=False)
    return so.worker(channels=order["channels"]).run()


def _preload() -> None:
    import psycopg  # noqa: F401 - so that no child has to
    import sqlalchemy.dialects.postgresql.psycopg
    import sqlalchemy.dialects.sqlite  # noqa: F401 - as above

    import tests.support.recording  # noqa: F401 - as above


def _wait(children: dict[int, int | None], pid: int, timeout: float) -> int | None:
    deadline = time.monotonic() + timeout
    while children[pid] is None:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            children[pid] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            break
        else:
            time.sleep(0.005)
    return children[pid]


def main() -> int:
    _preload()
    children: dict[int, int | None] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if order["order"] == "wait":
            told: dict[str, Any] = {"code": _wait(children, order["pid"], order["timeout"])}
        else:
            pid = os.fork()
            if pid == 0:
                return _work(order)
            children[pid] = None
            told = {"pid": pid}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
    for pid, code in children.items():
        if code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
