"""Keeps one PostgreSQL server for the process that started this one, and takes it down with that process.

Run as a program, with its orders on standard input, one a line (`start`, `stop fast`, `kill`), and its answers on
standard output as JSON. End of input is the last order: the server stops and its data directory goes. That comes when
the owner closes the pipe and just as well when it is killed, so no server outlives the tests that asked for it.

PostgreSQL refuses to run as root, so root starts it as an ordinary user.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
PATIENCE = 60.0


class KeeperError(Exception):
    """The server did not do what it was told; the text is for the owner."""


class Server:
    """A data directory below `folder` and, while it runs, the postmaster that serves it."""

    def __init__(self, binaries: Path, settings: dict[str, str]) -> None:
        # /tmp, because the path of a unix socket has room for about 100 bytes and macOS's TMPDIR takes half of them.
        self.folder = Path(tempfile.mkdtemp(prefix="sendoff-pg-", dir="/tmp"))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.settings = {**settings, "unix_socket_directories": str(self.folder)}
        self.process: subprocess.Popen[bytes] | None = None
        self.user: pwd.struct_passwd | None = None
        self.binaries = binaries

    def prepare(self) -> None:
        """Make the data directory."""
        if os.geteuid() == 0:
            self.user = _unprivileged_user()
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self.binaries = self._reachable(self.binaries)
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")

    def start(self) -> int:
        if self.process is not None and self.process.poll() is None:
            raise KeeperError("the server runs already")
        options = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        deadline = time.monotonic() + PATIENCE
        while True:
            with self.log.open("ab") as log:
                self.process = self._popen([self._program("postgres"), "-D", str(self.data), *options], log)
            if self._wait_until_ready(self.process, deadline):
                return self.process.pid
            # After a kill, the dying backends hold the shared memory for a moment.
            if "shared memory block" not in self._log_tail() or time.monotonic() > deadline:
                raise KeeperError(f"PostgreSQL did not start:\n{self._log_tail()}")
            time.sleep(0.1)

    def stop(self, mode: str) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(STOP_SIGNALS[mode])
        try:
            self.process.wait(PATIENCE / 2)
        except subprocess.TimeoutExpired:
            self.kill()
            raise KeeperError(f"PostgreSQL did not stop in mode {mode} and was killed:\n{self._log_tail()}") from None

    def kill(self) -> None:
        """SIGKILL to the postmaster and all its children, as a machine that loses power."""
        if self.process is None:
            return
        try:
            family = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        self.process.kill()
        self.process.wait()
        for child in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        deadline = time.monotonic() + PATIENCE / 2
        while any(map(is_alive, family)) and time.monotonic() < deadline:
            time.sleep(0.005)

    def remove(self) -> None:
        try:
            self.stop("immediate")
        finally:
            self._release_shared_memory()
            shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------------------------------------------- internals

    def _reachable(self, binaries: Path) -> Path:
        """The folder of programs, or a copy of the installation when the ordinary user cannot get to it.

        It cannot when the repository, and so .venv, lies in root's home.
        """
        try:
            self._popen([str(binaries / "postgres"), "--version"], subprocess.DEVNULL).wait()
        except PermissionError:
            installation = binaries.parent
            copy = self.folder / "copy" / installation.parent.name / installation.name
            shutil.copytree(installation, copy, symlinks=True)
            libraries = installation.parent.with_name(f"{installation.parent.name}.libs")  # as wheels bring them
            if libraries.exists():
                shutil.copytree(libraries, self.folder / "copy" / libraries.name, symlinks=True)
            return copy / binaries.name
        return binaries

    def _program(self, name: str) -> str:
        return str(self.binaries / name)

    def _popen(self, words: list[str], output: object) -> subprocess.Popen[bytes]:
        identity: dict[str, object] = {}
        if self.user is not None:
            identity = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            **identity,
        )

    def _run(self, program: str, *arguments: str) -> None:
        with self.log.open("ab") as log:
            status = self._popen([self._program(program), *arguments], log).wait()
        if status != 0:
            raise KeeperError(f"{program} failed with status {status}:\n{self._log_tail()}")

    def _wait_until_ready(self, process: subprocess.Popen[bytes], deadline: float) -> bool:
        """What pg_ctl does: the postmaster writes its state as the eighth line of its pid file."""
        pid_file = self.data / "postmaster.pid"
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return False
            try:
                lines = pid_file.read_text().splitlines()
            except FileNotFoundError:
                lines = []
            if len(lines) > 7 and lines[0] == str(process.pid) and lines[7].strip() == "ready":
                return True
            time.sleep(0.01)
        self.kill()
        return False

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def _release_shared_memory(self) -> None:
        """A killed postmaster leaves a System V segment behind; macOS has room for 32 of them."""
        try:
            segment = (self.data / "postmaster.pid").read_text().splitlines()[6].split()[-1]
        except (OSError, IndexError):
            return
        subprocess.run(["ipcrm", "-m", segment], check=False, capture_output=True)


def is_alive(process: psutil.Process) -> bool:
    """Not a zombie: whether an orphan is ever waited for is up to the machine's first process."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _unprivileged_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise KeeperError("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody")


def _obey(server: Server, order: str) -> dict[str, object]:
    match order.split():
        case ["start"]:
            return {"pid": server.start()}
        case ["stop", mode]:
            server.stop(mode)
        case ["kill"]:
            server.kill()
        case _:
            raise KeeperError(f"unknown order {order!r}")
    return {}


def _answer(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


@contextlib.contextmanager
def _errors_as_answers() -> Iterator[None]:
    try:
        yield
    except (KeeperError, OSError) as error:
        _answer(error=str(error))


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = Server(Path(sys.argv[1]), json.loads(sys.argv[2]))
    try:
        with _errors_as_answers():
            server.prepare()
            _answer(folder=str(server.folder))
        for order in sys.stdin:
            with _errors_as_answers():
                _answer(**_obey(server, order))
    finally:
        server.remove()


if __name__ == "__main__":
    main()
