"""What people install: the wheels of every package, in an environment that has nothing else of this repository."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The pyproject.toml of every package but the core: the plugins, and the example, which is one too.
PLUGINS = [
    tomllib.loads(path.read_text())
    for folder in ("plugins", "examples")
    for path in sorted(ROOT.glob(f"{folder}/*/pyproject.toml"))
]

Run = Callable[..., str]

pytestmark = pytest.mark.xdist_group("wheels")  # one build and one installation serve all of them


@pytest.fixture(scope="module")
def run() -> Run:
    """Run a program, and show what it said when it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    without_a_home = ROOT / ".venv" / ".uv-cache"  # where scripts/setup puts it then
    if without_a_home.exists():
        environment["UV_CACHE_DIR"] = str(without_a_home)

    def call(*words: str | Path, cwd: Path = ROOT) -> str:
        result = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{words}\n{result.stdout}\n{result.stderr}"
        return result.stdout

    return call


@pytest.fixture(scope="module")
def wheels(run: Run, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Each wheel is built from its own source distribution, so what that lacks is missed here."""
    folder = tmp_path_factory.mktemp("dist")
    run(_uv(), "build", "--quiet", "--all-packages", "--out-dir", folder)
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(run: Run, wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a clean environment with the wheels, their dependencies in the locked versions."""
    folder = tmp_path_factory.mktemp("clean")
    versions = re.findall(r"(?m)^([^\s#\\]+==[^\\\n]+)", (ROOT / "requirements.lock").read_text())
    (folder / "versions.txt").write_text("\n".join(versions))
    run(_uv(), "venv", "--quiet", "--seed", "--no-project", "--python", sys.executable, folder / "venv")
    programs = folder / "venv" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", "--constraint", folder / "versions.txt", *wheels)
    return programs


def _uv() -> Path:
    return Path(sys.executable).with_name("uv")


def test_there_is_a_wheel_of_every_package(wheels: list[Path]) -> None:
    distributions = {path.name.split("-")[0] for path in wheels}
    assert distributions == {"sendoff", *(plugin["project"]["name"].replace("-", "_") for plugin in PLUGINS)}


def test_the_wheels_carry_types_and_migrations(wheels: list[Path]) -> None:
    for wheel in wheels:
        names = zipfile.ZipFile(wheel).namelist()
        package = wheel.name.split("-")[0]
        assert f"{package}/py.typed" in names
        assert not [name for name in names if "test_" in name or name.startswith("tests/")]
    core = zipfile.ZipFile(next(path for path in wheels if path.name.startswith("sendoff-"))).namelist()
    assert [name for name in core if name.startswith("sendoff_migrations/versions/") and name.endswith(".py")]


def test_the_installed_command_finds_every_plugin(run: Run, installed: Path, tmp_path: Path) -> None:
    found = run(installed / "sendoff", "plugins", "--json", cwd=tmp_path)
    # The example shop is named by the demo's settings, so that it stays out of databases that are not its own.
    names = {name for plugin in PLUGINS for name in plugin["project"].get("entry-points", {}).get("sendoff", {})}
    assert {"email_stub", "fcm", "inbox", "sms_stub"} <= names
    assert names == {plugin["name"] for plugin in json.loads(found)}
    assert not [plugin for plugin in json.loads(found) if plugin.get("error")]


def test_the_installed_command_migrates_the_core_and_the_plugins(run: Run, installed: Path, tmp_path: Path) -> None:
    run(installed / "sendoff", "migrate", "--database-url", "sqlite:///wheels.db", cwd=tmp_path)
    with closing(sqlite3.connect(tmp_path / "wheels.db")) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"sendoff_outgoing", "sendoff_event", "sendoff_core_version"} <= tables
    assert {"sendoff_inbox", "sendoff_inbox_version"} <= tables


def test_python_dash_m_is_the_same_command(run: Run, installed: Path, tmp_path: Path) -> None:
    by_module = run(installed / "python", "-m", "sendoff", "plugins", "--json", cwd=tmp_path)
    assert json.loads(by_module) == json.loads(run(installed / "sendoff", "plugins", "--json", cwd=tmp_path))
