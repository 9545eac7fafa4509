"""The local FCM in a process of its own: it goes down when it is told to, and ends with the demo."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from sendoff.demo.fcmoutage import FcmOutage
from sendoff.demo.ledger import Progress
from sendoff.demo.localfcm import LocalFcm
from sendoff.demo.processes import Guard


def status(endpoint: str) -> int:
    """Of a message that nobody may send: 401, or 503 while it is down."""
    where = urlsplit(endpoint)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
    connection.request("POST", "/v1/projects/sendoff-local/messages:send", "{}")
    answer = connection.getresponse()
    connection.close()
    return answer.status


def look(final: int) -> Progress:
    return Progress({"fcm": final}, 1, None, 0, None)


def test_it_goes_down_in_the_middle_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard()
    fcm = LocalFcm(tmp_path, tmp_path / "fcm.jsonl", tmp_path / "account.json", guard)
    try:
        endpoint = fcm.wait_until_it_listens()
        assert (tmp_path / "account.json").exists()
        outage = FcmOutage(fcm, 100)
        assert outage.look(look(29)) is None
        assert outage.problem == "every push was final before FCM could go down"
        assert status(endpoint) == 401
        assert outage.look(look(30)) == "FCM is down for 5 seconds: it answers 503 to everything"
        assert status(endpoint) == 503
        assert outage.look(look(31)) is None
        assert outage.problem == "every push was final before FCM was back"
        monkeypatch.setattr("sendoff.demo.fcmoutage.SECONDS", 0.0)
        assert outage.look(look(31)) == "FCM is back; 69 pushes are still to be sent"
        assert status(endpoint) == 401
        assert outage.problem is None
        fcm.check()
    finally:
        fcm.close()
        guard.close()


def test_it_does_not_outlive_a_demo_that_is_killed(tmp_path: Path) -> None:
    program = f"""
        import pathlib, sys, time
        from sendoff.demo.localfcm import LocalFcm
        from sendoff.demo.processes import Guard
        folder = pathlib.Path({str(tmp_path)!r})
        fcm = LocalFcm(folder, folder / "fcm.jsonl", folder / "account.json", Guard())
        print(fcm.wait_until_it_listens(), flush=True)
        time.sleep(300)
    """
    demo = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    assert demo.stdout.readline().startswith("http://127.0.0.1:")
    family = psutil.Process(demo.pid).children(recursive=True)
    assert any("sendoff_fcm.testing" in process.cmdline() for process in family)
    demo.send_signal(signal.SIGKILL)
    demo.wait()
    demo.stdout.close()
    deadline = time.monotonic() + 20
    while any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family):
        assert time.monotonic() < deadline, family
        time.sleep(0.02)
