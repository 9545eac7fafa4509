"""What the demo makes ready before its workers start."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from sendoff.demo.processes import DemoFailed
from sendoff.demo.settings import CHANNELS, PUSH, Places
from sendoff.demo.stage import shareable


def test_a_relative_file_is_the_same_database_to_a_worker_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shareable("sqlite:///mine.db") == f"sqlite:///{Path.cwd()}/mine.db"
    assert shareable("sqlite:////var/mine.db") == "sqlite:////var/mine.db"
    url = "postgresql://me:secret@host/db?options=-c%20x%3D1"
    assert shareable(url) == url


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(DemoFailed, match="database file"):
        shareable(url)


@pytest.mark.parametrize("name", ["plain", 'with "quotes" and \\ backslash', "naïve – ünïcode", "what? 100%40 #1"])
def test_the_settings_file_is_read_as_it_was_meant(tmp_path: Path, name: str) -> None:
    places = Places(tmp_path / name)
    places.folder.mkdir()
    url = places.sqlite_url
    assert make_url(url).database == str(places.database)
    places.write(url, plugins=["mine"], seed=7)
    read = tomllib.loads(places.config.read_text(encoding="utf-8"))
    assert read["sendoff"] == {"database_url": url, "plugins": ["mine"]}
    assert read["channels"]["email"]["directory"] == str(places.maildir)
    assert read["channels"]["sms"]["seed"] == 7
    assert tuple(read["worker"]["channels"]) == CHANNELS
    # A send that is given up must be over before its lease is.
    for channel in CHANNELS:
        timeout = float(read["channels"][channel]["limits"]["timeout"].removesuffix("s"))
        assert timeout + 0.5 < float(read["worker"]["lease"].removesuffix("s"))


def test_with_a_push_channel_its_fcm_is_the_local_one(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.write(None, plugins=[], seed=1)
    assert tomllib.loads(places.config.read_text(encoding="utf-8"))["plugins"]["orders"] == {"push": False}
    places.write(None, plugins=[], seed=1, workers=16, push_endpoint="http://127.0.0.1:1")
    read = tomllib.loads(places.config.read_text(encoding="utf-8"))
    assert read["plugins"]["orders"] == {"push": True}
    assert tuple(read["worker"]["channels"]) == (*CHANNELS, PUSH)
    push = read["channels"][PUSH]
    assert push["limits"]["rate"] == 15
    assert (push["endpoint"], push["credentials"]) == ("http://127.0.0.1:1", {"file": str(places.credentials)})


def test_a_url_that_may_hold_a_password_is_not_written(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.write(None, plugins=[], seed=1)
    assert "database_url" not in places.config.read_text(encoding="utf-8")
    assert places.settings("postgresql://me:secret@host/db").database_url == "postgresql://me:secret@host/db"
