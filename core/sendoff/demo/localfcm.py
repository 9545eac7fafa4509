"""The local FCM of sendoff-fcm in a process of its own, known by its command line and its control endpoint only."""

from __future__ import annotations

import http.client
import json
import select
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from sendoff.demo.processes import DemoFailed, Guard, child_environment

__all__ = ["LocalFcm", "installed"]

PLUGIN = "sendoff_fcm"
#: Seconds until it listens; it makes a key of its own first.
PATIENCE = 30.0
#: Seconds that a call of its control endpoint may take.
ANSWER = 10.0
STOP = 5.0


def installed() -> bool:
    """Whether there is a push channel, and the local FCM with it."""
    return find_spec(PLUGIN) is not None


class LocalFcm:
    """Started when it is made, of use once it listens, ended by :meth:`close`."""

    def __init__(self, folder: Path, log: Path, credentials: Path, guard: Guard) -> None:
        self._guard = guard
        self._words = folder / "fcm.log"
        with self._words.open("ab") as words:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", f"{PLUGIN}.testing"),
                    *("--log", str(log), "--service-account", str(credentials)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=words,
                cwd=folder,
                env=child_environment(None, ()),
                start_new_session=True,
            )
        guard.watch(self._process.pid, signal.SIGKILL)
        self.endpoint = ""
        self._control = ("", 0)

    def wait_until_it_listens(self) -> str:
        """Its endpoint."""
        said = self._first_line()
        self.endpoint = said["endpoint"]
        parts = urlsplit(self.endpoint)
        self._control = (parts.hostname or "", parts.port or 0)
        return self.endpoint

    def go_down(self) -> None:
        """503 to every message from now on."""
        self._tell("down", how="unavailable")

    def come_back(self) -> None:
        """As if nothing had been."""
        self._tell("up")

    def _tell(self, verb: str, **words: str) -> None:
        connection = http.client.HTTPConnection(*self._control, timeout=ANSWER)
        try:
            connection.request("POST", f"/_control/{verb}", json.dumps(words))
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise DemoFailed(f"the local FCM does not know what {verb} is: HTTP {answer.status}")
        except (OSError, http.client.HTTPException) as error:
            raise DemoFailed(f"the local FCM cannot be told to be {verb}: {type(error).__name__}") from None
        finally:
            connection.close()

    def check(self) -> None:
        """:class:`DemoFailed` where it has ended."""
        if self._process.poll() is not None:
            raise DemoFailed(f"the local FCM ended with status {self._process.returncode}: {self._last_words()}")

    def _first_line(self) -> dict[str, str]:
        out = self._process.stdout
        assert out is not None, "it was started with a pipe"
        ready, _, _ = select.select([out], [], [], PATIENCE)
        line = out.readline() if ready else b""
        try:
            said: dict[str, str] = json.loads(line)
        except ValueError:
            raise DemoFailed(f"the local FCM did not start: {self._last_words()}") from None
        return said

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._guard.forget(self._process.pid)

    def _last_words(self) -> str:
        lines = self._words.read_text(encoding="utf-8", errors="replace").splitlines()
        return " | ".join(line.strip() for line in lines[-3:] if line.strip()) or "it said nothing"
