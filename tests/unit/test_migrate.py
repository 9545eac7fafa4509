"""What a set of migrations has to be before anything runs. On real databases: tests/integration/test_migrate*.py."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

import sendoff_migrations
from sendoff.errors import ConfigurationError, PluginBroken
from sendoff.migrate import CORE, check_schema, migrate, sql
from sendoff.plugin import Migrations
from sendoff_migrations.run import known
from tests.support.revisions import CREATE, opened, write_plugin


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def history(folder: Path) -> ScriptDirectory:
    config = Config()
    config.set_main_option("path_separator", "newline")
    config.set_main_option("script_location", str(Path(str(sendoff_migrations.__file__)).parent))
    config.set_main_option("version_locations", str(folder))
    return ScriptDirectory.from_config(config)


def test_the_core_is_one_line_of_revisions_and_their_number_is_the_files() -> None:
    (core,) = known([CORE])
    revisions = list(history(core.folders[0]).walk_revisions())
    assert [revision.revision for revision in reversed(revisions)] == [f"{n:04}" for n in range(1, core.number + 1)]
    assert core.version_table == "sendoff_core_version"


def test_what_is_no_revision_is_not_counted(site: Path) -> None:
    pager = write_plugin(site, "pager", CREATE.format("pager"), "pass")
    (folder,) = known([pager])[0].folders
    for name in (".#0003_being_edited.py", "README", "0001_step.pyc"):
        (folder / name).touch()
    assert known([pager])[0].number == len(list(history(folder).walk_revisions())) == 2


def test_a_package_without_init_will_do(site: Path) -> None:
    pager = write_plugin(site, "pager", CREATE.format("pager"))
    for file in site.rglob("__init__.py"):
        file.unlink()
    assert known([pager])[0].number == 1


def test_a_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Percent signs, colons, spaces and commas all mean something in an alembic.ini."""
    site = tmp_path / "100%s: a, b;c"
    monkeypatch.syspath_prepend(site)
    pager = write_plugin(site, "pager", CREATE.format("pager"))
    with opened("sqlite://") as engine:
        assert [each.name for each in migrate(engine, [pager])] == ["core", "pager"]


@pytest.mark.parametrize(
    ("package", "problem"),
    [
        (
            "sendoff_nowhere.migrations",
            r"cannot be imported \(ModuleNotFoundError: No module named 'sendoff_nowhere'\)",
        ),
        ("sendoff.nowhere", "does not exist"),
        ("sendoff.errors", "is a module, not a package"),
        ("sendoff.errors.nowhere", "cannot be imported"),
        ("sendoff_migrations:versions", "does not exist"),
        ("", "cannot be imported"),
        (".migrations", "cannot be imported"),
    ],
)
def test_a_wrong_package_is_named(package: str, problem: str) -> None:
    with pytest.raises(PluginBroken, match=problem) as caught:
        migrate(None, [Migrations(name="pager", package=package)])
    assert caught.value.plugin == "pager"
    assert repr(package) in str(caught.value)


def test_a_package_that_breaks_when_imported_is_named(site: Path) -> None:
    pager = write_plugin(site, "pager", CREATE.format("pager"))
    (site / pager.package.split(".")[0] / "__init__.py").write_text("raise RuntimeError('no licence')")
    importlib.invalidate_caches()
    with pytest.raises(PluginBroken, match=r"RuntimeError: no licence"):
        migrate(None, [pager])


def test_a_package_without_revisions_is_not_silently_nothing(site: Path) -> None:
    with pytest.raises(PluginBroken, match="holds no revision"):
        migrate(None, [write_plugin(site, "pager")])


@pytest.mark.parametrize("name", ["", "Pager", "a-b", "a b", "a'; --", "9", "é", "a" * 48])
def test_a_name_has_to_fit_into_a_tables_name(name: str) -> None:
    with pytest.raises(PluginBroken, match="lower-case letters"):
        migrate(None, [Migrations(name=name, package=CORE.package)])


def test_two_sets_of_one_name_are_refused(site: Path) -> None:
    pager, core = write_plugin(site, "pager", "pass"), Migrations(name="core", package=CORE.package)
    for sets in ([pager, pager], [core]):
        with pytest.raises(PluginBroken, match="two plugins have migrations named"):
            migrate(None, sets)


def test_the_checks_and_scripts_refuse_the_same(site: Path) -> None:
    lost = [Migrations(name="pager", package="sendoff.nowhere")]
    with opened("sqlite://") as engine, engine.connect() as connection, pytest.raises(PluginBroken):
        check_schema(connection, lost)
    with pytest.raises(PluginBroken):
        sql("sqlite", lost)


def test_a_revision_that_cannot_be_loaded_is_the_plugins_mistake(site: Path) -> None:
    pager = write_plugin(site, "pager", "pass", extra={1: "import sendoff_nowhere"})
    with opened("sqlite://") as engine, pytest.raises(PluginBroken, match=r"'pager' cannot .*sendoff_nowhere"):
        migrate(engine, [pager])


@pytest.mark.parametrize("dialect", ["mysql", "oracle://host/name", "no such thing://"])
def test_a_script_is_for_postgresql_or_sqlite(dialect: str) -> None:
    with pytest.raises(ConfigurationError):
        sql(dialect)


def test_migrating_needs_a_database() -> None:
    with pytest.raises(TypeError, match="an engine or a connection"):
        migrate(None)
