"""What the demo starts goes with it, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from sendoff.demo.processes import Guard, child_environment, interruptible


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(300)"])


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def test_the_guard_ends_what_is_watched_and_leaves_what_is_forgotten(tmp_path: Path) -> None:
    watched, forgotten = sleeper(), sleeper()
    folder = tmp_path / "a folder with blanks"
    (folder / "in it").mkdir(parents=True)
    guard = Guard()
    try:
        for process in (watched, forgotten):
            guard.watch(process.pid, signal.SIGKILL)
        guard.forget(forgotten.pid)
        guard.remove(folder)
        guard.close()
        assert watched.wait(10) == -signal.SIGKILL
        assert forgotten.poll() is None
        assert not folder.exists()
    finally:
        for process in (watched, forgotten):
            process.kill()
            process.wait()


def test_what_a_killed_demo_started_does_not_outlive_it(tmp_path: Path) -> None:
    program = f"""
        import os, pathlib, signal, subprocess, sys, time
        from sendoff.demo.processes import Guard
        guard = Guard()
        child = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(300)"])
        guard.watch(child.pid, signal.SIGKILL)
        guard.remove(pathlib.Path({str(tmp_path / "left")!r}))
        print(child.pid, flush=True)
        time.sleep(300)
    """
    (tmp_path / "left").mkdir()
    demo = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    child = int(demo.stdout.readline())
    demo.kill()
    demo.wait()
    demo.stdout.close()
    wait_until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
    wait_until(lambda: not (tmp_path / "left").exists())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_a_closed_terminal_are_as_ctrl_c(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def demo() -> None:
        with interruptible():
            signal.raise_signal(number)
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        demo()
    assert signal.getsignal(number) is before


def test_no_setting_of_the_users_reaches_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENDOFF_DATABASE_URL", "postgresql://production/db")
    monkeypatch.setenv("SENDOFF_CHANNELS__EMAIL__DIRECTORY", "/elsewhere")
    monkeypatch.setenv("PYTHONPATH", "mine")
    environment = child_environment("sqlite:///demo.db", ["here"])
    assert {name: value for name, value in environment.items() if name.startswith("SENDOFF")} == {
        "SENDOFF_DATABASE_URL": "sqlite:///demo.db"
    }
    assert environment["PYTHONPATH"] == os.pathsep.join(["here", "mine"])
    monkeypatch.setenv("NO_PROXY", "intranet")
    monkeypatch.delenv("no_proxy", raising=False)
    environment = child_environment(None, [])
    assert (environment["NO_PROXY"], environment["no_proxy"]) == ("intranet,127.0.0.1", "127.0.0.1")
    assert "SENDOFF_DATABASE_URL" not in child_environment(None, [])
