"""The demo's processes: workers that are started, frozen, killed and stopped, and the guard that outlives the demo."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sendoff.errors import SendoffError

__all__ = ["DemoFailed", "Guard", "Worker", "child_environment", "interruptible"]


class DemoFailed(SendoffError):
    """The demo cannot go on; the text says why."""


class Guard:
    """The other end of :mod:`sendoff.demo.guard`."""

    def __init__(self) -> None:
        # By its path and isolated: it must start in milliseconds and never depend on the folder it is started in.
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("guard.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def watch(self, pid: int, number: signal.Signals) -> None:
        """Send ``number`` to ``pid`` when this process dies."""
        self._say(f"watch {pid} {number.name}")

    def forget(self, pid: int) -> None:
        """``pid`` has ended; its number may be given to another."""
        self._say(f"forget {pid}")

    def remove(self, folder: Path) -> None:
        """Remove ``folder`` when this process dies."""
        self._say(f"remove {folder}")

    def close(self) -> None:
        """Let the guard end what is left, if anything is."""
        assert self._process.stdin is not None, "it was started with a pipe"
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None, "it was started with a pipe"
        # Without a guard the demo still cleans up after itself in every ending but SIGKILL.
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()


class Worker:
    """One ``sendoff worker`` in a process of its own."""

    def __init__(
        self, name: str, config: Path, guard: Guard, *, database_url: str | None, plugin_paths: Sequence[str]
    ) -> None:
        self.name = name
        self.log = config.parent / f"{name}.log"
        self._guard = guard
        self._expected_to_end = False
        with self.log.open("ab") as log:
            # -P: nothing in the folder it runs in may shadow a module. A session of its own: Ctrl-C reaches the demo
            # alone, which then stops its workers in order.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sendoff", "worker", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=config.parent,
                env=child_environment(database_url, plugin_paths),
                start_new_session=True,
            )
        guard.watch(self.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        """Its process id, which ``sendoff_worker`` has too."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process.poll() is None

    def freeze(self) -> bool:
        """Stop it where it is, so that what the database says of it stays true. False when it has ended."""
        if not self.running:
            return False
        os.kill(self.pid, signal.SIGSTOP)
        # Not Popen.wait: a stop is a change of state that only WUNTRACED reports.
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return True
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return False

    def thaw(self) -> None:
        """Let it go on."""
        if self.running:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: it writes nothing more, gives nothing back, tells nobody."""
        self._expected_to_end = True
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._guard.forget(self.pid)

    def tell_to_stop(self) -> None:
        """SIGTERM; :meth:`wait_until_stopped` has the answer."""
        self._expected_to_end = True
        self.thaw()
        if self.running:
            self._process.terminate()

    def wait_until_stopped(self, seconds: float) -> int | None:
        """The exit code, or None where it did not stop in time and was killed."""
        try:
            code: int | None = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self._guard.forget(self.pid)
        return code

    def check(self) -> None:
        """:class:`DemoFailed` with the end of its log where it ended and nobody asked it to."""
        if self._expected_to_end or self.running:
            return
        raise DemoFailed(f"{self.name} ended by itself with status {self._process.returncode}: {self.last_words()}")

    def last_words(self) -> str:
        """The last lines of its log on one line."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return " | ".join(line.strip() for line in lines[-3:] if line.strip()) or "its log is empty"


def child_environment(database_url: str | None, paths: Sequence[str]) -> dict[str, str]:
    """This process's environment without sendoff's settings: the demo's come from its own file, and a database URL
    that does not belong into a file from here."""
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("SENDOFF_")}
    if database_url is not None:
        environment["SENDOFF_DATABASE_URL"] = database_url
    if paths:
        inherited = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([*paths, inherited] if inherited else paths)
    # What the demo serves on this machine is reached without a proxy, whatever is set for everything else.
    for name in ("NO_PROXY", "no_proxy"):
        environment[name] = ",".join(filter(None, [environment.get(name), "127.0.0.1"]))
    return environment


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and a closed terminal end the demo as Ctrl-C does: it cleans up."""

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    numbers = [signal.SIGTERM, signal.SIGHUP]
    try:
        before = {number: signal.signal(number, interrupt) for number in numbers}
    except ValueError:  # not the main thread: whoever runs the demo there handles signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
