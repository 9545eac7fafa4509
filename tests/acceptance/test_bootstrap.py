"""The first command of a newcomer: `make` on a machine that lacks something says so in one line."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THIS_PYTHON = shlex.quote(sys.executable)
PYTHONS = ["python3", "python3.11", "python3.12", "python3.13", "python3.14"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As much of the repository as `make setup` looks at before it has found a Python."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder that comes first on the PATH; its uv does not run, as a pyenv shim without a version does not."""
    folder = tmp_path / "programs"
    folder.mkdir()
    _program(folder / "uv", "exit 127")
    return folder


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _make(clone: Path, programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(clone.parent), "PATH": f"{programs}{os.pathsep}{os.defpath}"}
    return subprocess.run(
        ["make", *arguments], cwd=clone, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def _the_one_line(result: subprocess.CompletedProcess[str]) -> str:
    """What was said besides make's own closing line."""
    assert result.returncode != 0
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("make: ")]
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_a_python_that_is_too_old_is_named(clone: Path, programs: Path) -> None:
    for name in PYTHONS:
        _program(programs / name, 'case "$2" in *"< (3, 11)"*) exit 1 ;; *) echo 3.9 ;; esac')
    assert _the_one_line(_make(clone, programs, "demo")) == (
        "sendoff: needs Python 3.11 or later and found none (python3 is 3.9): install one, or name it, as in "
        "make PYTHON=/path/to/python3.12"
    )
    assert not (clone / ".venv" / "bin").exists()


def test_a_python_without_venv_names_the_package(clone: Path, programs: Path) -> None:
    for name in PYTHONS:
        _program(programs / name, f'case "$2" in *ensurepip*) exit 1 ;; *) exec {THIS_PYTHON} "$@" ;; esac')
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert _the_one_line(_make(clone, programs, "test")) == (
        f"sendoff: python3 ({version}) has no venv module: on Debian and Ubuntu, apt-get install python{version}-venv "
        "(or install uv), then run make again"
    )


def test_no_python_at_all(clone: Path, programs: Path) -> None:
    for name in PYTHONS:
        _program(programs / name, "exit 127")
    assert "needs Python 3.11 or later and python3 does not run" in _the_one_line(_make(clone, programs, "check"))


def test_a_python_named_by_hand_that_does_not_run(clone: Path, programs: Path) -> None:
    line = _the_one_line(_make(clone, programs, "setup", "PYTHON=/no/such/python"))
    assert "/no/such/python does not run" in line


def test_an_old_python3_does_not_hide_a_newer_one(clone: Path, programs: Path) -> None:
    _program(programs / "python3", 'case "$2" in *"< (3, 11)"*) exit 1 ;; *) echo 3.9 ;; esac')
    for name in PYTHONS[1:]:
        # Right version, has venv, and is seen to be chosen when it is told to make one.
        _program(programs / name, f'case "$1" in -m) echo chosen; exit 1 ;; *) exec {THIS_PYTHON} "$@" ;; esac')
    result = _make(clone, programs, "setup")
    assert result.stdout.strip() == "chosen"
    assert re.search(r"sendoff: python3\.\d+ -m venv failed", result.stderr)
    assert result.returncode != 0


def test_make_alone_lists_the_targets(clone: Path, programs: Path) -> None:
    for arguments in ((), ("help",)):
        result = _make(clone, programs, *arguments)
        assert result.returncode == 0, result.stderr
        listed = re.findall(r"^  ([a-z]+) +\S", result.stdout, re.MULTILINE)
        assert {"demo", "test", "check", "bench", "lock", "clean", "help"} <= set(listed)
        phony = re.findall(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
        assert sorted(listed) == sorted(phony), "every target has a line in the help"


def test_the_lock_has_versions_and_hashes_and_no_address() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert "://" not in text
    assert not re.search(
        r"^\s*(-i|-f|-e|--index|--extra-index|--find-links|--editable|--trusted-host)", text, re.MULTILINE
    )
    assert "sendoff" not in text
    entries = re.split(r"\n(?=[a-z])", re.sub(r"(?m)^#.*\n", "", text))
    for entry in entries:
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+( ; [^\\]+)? \\\n", entry), entry
        assert "--hash=sha256:" in entry, entry


@pytest.mark.parametrize("name", ["uv", "hatchling", "editables"])
def test_what_the_set_up_itself_needs_is_locked(name: str) -> None:
    assert re.search(rf"(?m)^{name}==", (ROOT / "requirements.lock").read_text())


def test_the_lock_covers_every_declared_dependency() -> None:
    """A dependency that is added to a pyproject.toml and not locked would be missing on a fresh machine."""
    locked = set(re.findall(r"(?m)^([a-z0-9-]+)(?:\[|==)", (ROOT / "requirements.lock").read_text()))
    declared: set[str] = set()
    for path in [
        ROOT / "pyproject.toml",
        *ROOT.glob("plugins/*/pyproject.toml"),
        *ROOT.glob("examples/**/pyproject.toml"),
    ]:
        project = tomllib.loads(path.read_text())
        declared.update(project["project"].get("dependencies", []))
        for extra in project["project"].get("optional-dependencies", {}).values():
            declared.update(extra)
        declared.update(project.get("dependency-groups", {}).get("dev", []))
    names = {re.split(r"[\s\[<>=;!~]", text)[0].lower().replace("_", "-") for text in declared}
    assert {name for name in names if not name.startswith("sendoff")} <= locked
