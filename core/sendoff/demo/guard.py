"""Ends what the demo started when the demo itself is gone, whatever ended it (SIGKILL and a closed terminal included).

Run as a program of its own, which imports nothing of sendoff: it reads ``watch PID SIGNAL``, ``forget PID`` and
``remove PATH`` from a pipe. When the pipe ends, what is still watched is ended and what is to be removed goes; after a
demo that cleaned up itself there is nothing of either.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Read orders until the pipe ends, then clean up."""
    # The terminal's Ctrl-C is for the demo; this process has to outlive it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watched: dict[int, int] = {}
    folders: list[str] = []
    for line in sys.stdin:
        match line.rstrip("\n").split(" ", 2):
            case ["watch", pid, name]:
                watched[int(pid)] = signal.Signals[name]
            case ["forget", pid]:
                watched.pop(int(pid), None)
            case ["remove", *rest]:
                folders.append(" ".join(rest))
    for watched_pid, last_signal in watched.items():
        with contextlib.suppress(ProcessLookupError):
            os.kill(watched_pid, last_signal)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
