"""``python -m sendoff_fcm.testing``: a local FCM in a process of its own, until it is told to stop (SIGINT, SIGTERM).

Prints one line of JSON when it listens: ``endpoint``, ``token_uri``, ``project``, ``service_account`` (the file).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import signal
import sys
from pathlib import Path

from sendoff_fcm.testing.local import PROJECT, LocalFCM
from sendoff_fcm.testing.records import KEEP


def main(arguments: list[str] | None = None) -> int:
    """0; 1 where a port is taken."""
    parser = argparse.ArgumentParser("python -m sendoff_fcm.testing", description="A local FCM on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0, help="for messages:send (default: any that is free)")
    parser.add_argument("--token-port", type=int, default=0, help="for the token endpoint (default: any that is free)")
    parser.add_argument("--project", default=PROJECT, help=f"the project that exists (default: {PROJECT})")
    parser.add_argument("--log", type=Path, help="a file that gets a JSON line for each request")
    parser.add_argument("--keep", type=int, default=KEEP, help=f"requests kept in memory (default: {KEEP})")
    parser.add_argument("--service-account", type=Path, help="where to write the JSON of a service account")
    told = parser.parse_args(arguments)
    # Before the thread starts, so that it is this thread that waits for them.
    stopping = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    fcm = LocalFCM(port=told.port, token_port=told.token_port, project=told.project, log=told.log, keep=told.keep)
    # Tens of thousands of records are kept: to look through them for cycles every 700 objects would be most of the
    # work.
    gc.set_threshold(100_000, 50, 100)
    try:
        fcm.start()
    except OSError as wrong:
        sys.stderr.write(f"cannot listen: {wrong}\n")
        return 1
    with contextlib.closing(fcm):
        if told.service_account is not None:
            fcm.write_service_account(told.service_account)
        where = {"endpoint": fcm.endpoint, "token_uri": fcm.token_uri, "project": fcm.project}
        if told.service_account is not None:
            where["service_account"] = str(told.service_account)
        sys.stdout.write(json.dumps(where) + "\n")
        sys.stdout.flush()
        signal.sigwait(stopping)
    return 0


if __name__ == "__main__":
    sys.exit(main())
