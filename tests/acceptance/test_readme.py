"""What the README and the settings page show is what happens: their code is run as it stands there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest

from sendoff.limits import Limits, Retry
from sendoff.settings import CoreSettings, Settings, WorkerSettings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SENDOFF_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return {**kept, "PATH": path, "PYTHONWARNINGS": "default", **more}


def run(command: list[str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment(**env), capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def pages() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A pager service on loopback that records what it is sent."""
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append({"authorization": self.headers["Authorization"], **json.loads(body)})
            self.send_response(202)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/pages", received
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_application_and_the_commands_work_as_shown(tmp_path: Path) -> None:
    [application, _channel] = blocks("python")
    (tmp_path / "application.py").write_text(application, encoding="utf-8")

    enqueued = run([sys.executable, "application.py"], tmp_path)
    assert (enqueued.returncode, enqueued.stderr) == (0, "")

    [console] = blocks("console")
    script = "\n".join(line.removeprefix("$ ") for line in console.splitlines() if line.startswith("$ "))
    shown = run(["bash", "-euo", "pipefail", "-c", script], tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")

    rows = run(["sendoff", "--json", "list"], tmp_path, SENDOFF_DATABASE_URL="sqlite:///shop.db")
    found = [(row["recipient"], row["channel"], row["status"], row["dedup_key"]) for row in json.loads(rows.stdout)]
    assert [("u1", "inbox", "sent", "order:17:shipped")] == found

    again = run([sys.executable, "application.py"], tmp_path)
    rows = run(["sendoff", "--json", "list"], tmp_path, SENDOFF_DATABASE_URL="sqlite:///shop.db")
    assert (0, 1) == (again.returncode, len(json.loads(rows.stdout)))


def test_the_channel_sends_as_shown(tmp_path: Path, pages: tuple[str, list[dict[str, Any]]]) -> None:
    url, received = pages
    [_application, channel] = blocks("python")
    (tmp_path / "my_pager.py").write_text(channel, encoding="utf-8")
    env = {
        "SENDOFF_DATABASE_URL": "sqlite:///pages.db",
        "SENDOFF_CHANNELS__PAGER__KEY": "k-12345",
        "SENDOFF_CHANNELS__PAGER__URL": url,
    }

    assert 0 == run(["sendoff", "-p", "my_pager", "migrate"], tmp_path, **env).returncode
    command = ["sendoff", "-p", "my_pager", "--json", "send", "u1", "alarm", "--channel", "pager", "--title", "Fire"]
    sent = run(command, tmp_path, **env)
    assert (0, "") == (sent.returncode, sent.stderr)

    [page] = received
    assert {"authorization": "Bearer k-12345", "to": "u1", "text": "Fire"} == {
        key: page[key] for key in ("authorization", "to", "text")
    }


def test_a_channel_that_is_not_set_up_says_what_is_missing(tmp_path: Path) -> None:
    [_application, channel] = blocks("python")
    (tmp_path / "my_pager.py").write_text(channel, encoding="utf-8")

    told = run(["sendoff", "-p", "my_pager", "migrate"], tmp_path, SENDOFF_DATABASE_URL="sqlite:///pages.db")

    expected = (
        "sendoff: settings: channels.pager.key is missing; write it under [channels.pager], or set "
        "SENDOFF_CHANNELS__PAGER__KEY\n"
    )
    assert (2, expected) == (told.returncode, told.stderr)


def test_the_commands_page_shows_commands_that_work(tmp_path: Path) -> None:
    [single, bulk] = blocks("sh", COMMANDS)
    [line] = blocks("json", COMMANDS)
    (tmp_path / "notifications.jsonl").write_text(line, encoding="utf-8")
    env = {"SENDOFF_DATABASE_URL": "sqlite:///shop.db"}

    ran = run(["bash", "-euo", "pipefail", "-c", f"sendoff migrate\n{single}\n{bulk}"], tmp_path, **env)
    assert (0, "") == (ran.returncode, ran.stderr)

    rows = json.loads(run(["sendoff", "--json", "list"], tmp_path, **env).stdout)
    assert ["email", "email", "inbox", "sms"] == sorted(row["channel"] for row in rows)


def test_the_readme_shows_what_the_demo_prints() -> None:
    [shown] = [block for block in blocks("") if "balances" in block or "DEMO" in block]

    assert "everything balances" in shown


def test_the_channel_fits_in_what_the_readme_says() -> None:
    [_application, channel] = blocks("python")
    body = [line for line in channel.splitlines() if line.strip() and not line.startswith(("import", "from", ")"))]
    assert len(body) <= 26


def test_the_settings_page_shows_settings_that_load() -> None:
    import tomllib

    [shown] = blocks("toml", SETTINGS)
    settings = Settings.load(tomllib.loads(shown), environ={})
    assert ["inbox", "email"] == settings.core.default_channels
    assert ["promotions"] == settings.instances("email_stub", "email")


@pytest.mark.parametrize(
    ("prefix", "cls"), [("", CoreSettings), ("", WorkerSettings), ("limits.", Limits), ("retry.", Retry)]
)
def test_the_settings_page_names_every_setting(prefix: str, cls: type) -> None:
    named = set(re.findall(r"^\| `([\w.]+)` \|", SETTINGS, flags=re.MULTILINE))
    assert set() == {f"{prefix}{attribute.name}" for attribute in attrs.fields(cls)} - named
