"""Fetchers in workers: once per tick, from page to page, whoever dies or fails."""

from __future__ import annotations

import logging
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sendoff import Sendoff
from sendoff.plugin import FetchContext, Fetcher, Notification, Page
from sendoff.tables import fetcher as fetcher_table
from tests.support import fetching
from tests.support.inline import Inline, Plugin
from tests.support.nursery import Nursery
from tests.support.recording import calls
from tests.support.workers import app_for, events, rows, serving, settings_for, wait_for, wait_until

PLUGIN = "tests.support.fetching"
SIX = sorted(f"page{number}-{part}" for number in range(3) for part in range(2))


def settings_of(url: str, folder: Path, **config: Any) -> dict[str, dict[str, Any]]:
    # A short lease, for the rows that a killed worker holds.
    settings = settings_for(url, folder, channels={"inline": {"limits": {"timeout": 1}}}, lease=2, margin=0.5)
    settings["plugins"] = {"fetching": {"log": str(folder / "runs"), "gate": str(folder / "gate"), **config}}
    return settings


def fetcher_row(so: Sendoff, name: str) -> Any:
    with so.engine.connect() as connection:
        return connection.execute(sa.select(fetcher_table).where(fetcher_table.c.name == name)).one_or_none()


def test_three_workers_run_a_fetcher_once_per_tick(database_url: str, tmp_path: Path, nursery: Nursery) -> None:
    settings = settings_of(database_url, tmp_path, every=1.0)
    with app_for(settings, fetching) as so:
        workers = [nursery.worker(settings, tmp_path / f"log{number}", plugins=[PLUGIN]) for number in range(3)]
        wait_until(lambda: len(calls(tmp_path / "runs", "run")) >= 3, "three runs")
        codes = [worker.terminate() for worker in workers]

        runs = calls(tmp_path / "runs", "run")
        assert codes == [0, 0, 0]
        assert max(Counter(run["tick"] for run in runs).values()) == 1
        assert [run["start"] for run in runs] == [0] + [3] * (len(runs) - 1)
        assert sorted(one.recipient for one in rows(so)) == SIX


def test_a_worker_killed_between_pages_loses_and_doubles_nothing(
    database_url: str, tmp_path: Path, nursery: Nursery
) -> None:
    settings = settings_of(database_url, tmp_path, every=3600, stop_before=2)
    with app_for(settings, fetching) as so:
        first = nursery.worker(settings, tmp_path / "log1", plugins=[PLUGIN])
        wait_until(lambda: calls(tmp_path / "runs", "waits"), "the third page")
        first.kill()
        (tmp_path / "gate").touch()
        assert len(rows(so)) == 4
        # The lease of the run ends, sooner than by itself.
        with so.engine.begin() as connection:
            connection.execute(fetcher_table.update().values(claimed_until=fetcher_table.c.last_started_at))
        second = nursery.worker(settings, tmp_path / "log2", plugins=[PLUGIN])
        wait_for(so, {"sent": 6})

        assert second.terminate() == 0
        assert [run["start"] for run in calls(tmp_path / "runs", "run")] == [0, 2]
        assert sorted(one.recipient for one in rows(so)) == SIX


def test_a_worker_that_stops_hands_the_rest_of_a_run_over(database_url: str, tmp_path: Path, nursery: Nursery) -> None:
    settings = settings_of(database_url, tmp_path, every=3600, stop_before=1)
    with app_for(settings, fetching) as so:
        first = nursery.worker(settings, tmp_path / "log1", plugins=[PLUGIN])
        wait_until(lambda: calls(tmp_path / "runs", "waits"), "the second page")
        first.signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in first.logged(), "the signal")
        (tmp_path / "gate").touch()
        assert first.wait() == 0
        second = nursery.worker(settings, tmp_path / "log2", plugins=[PLUGIN])
        wait_for(so, {"sent": 6})

        assert second.terminate() == 0
        assert [run["start"] for run in calls(tmp_path / "runs", "run")] == [0, 2]


class Failing(Fetcher):
    """Yields a page, then fails in its own way; once, unless told otherwise."""

    every = timedelta(hours=1)

    def __init__(self, name: str, fail: Any) -> None:
        self.name = name
        self._fail = fail
        self.runs = 0

    def fetch(self, ctx: FetchContext) -> Iterator[Page]:
        self.runs += 1
        if ctx.cursor is None:
            yield Page([Notification(recipient=f"{self.name}-first", type="t", channels=["inline"])], cursor=1)
        if self.runs == 1:
            self._fail(ctx)
        yield Page([Notification(recipient=f"{self.name}-second", type="t", channels=["inline"])], cursor=2)


def raising(ctx: FetchContext) -> None:
    raise ValueError("the source is odd")


def elsewhere(ctx: FetchContext) -> None:
    sa.create_engine("postgresql+psycopg://nobody@/none?host=/nowhere").connect()


def wrong_sql(ctx: FetchContext) -> None:
    ctx.connection.execute(sa.text("SELECT * FROM no_such_table"))


def writing(ctx: FetchContext) -> None:
    ctx.connection.execute(sa.text("DELETE FROM sendoff_outgoing"))


def raw(ctx: FetchContext) -> None:
    sqlite3.connect("/nowhere/at/all")


def test_a_fetcher_that_fails_is_tried_again_and_stops_nobody(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failures = {"a": raising, "b": elsewhere, "c": wrong_sql, "d": writing, "e": raw}
    fetchers = [Failing(name, fail) for name, fail in failures.items()]
    good = Failing("z", lambda ctx: None)
    with app_for(settings_for(database_url, tmp_path), Plugin(Inline("inline"), *fetchers, good)) as so:
        with serving(so), caplog.at_level(logging.WARNING):
            wait_for(so, {"sent": 7})
            wait_until(lambda: all(fetcher_row(so, name).failures == 1 for name in failures), "all failures")
            assert (fetcher_row(so, "z").failures, fetcher_row(so, "z").last_enqueued) == (0, 2)
            # Sooner than in 30 seconds.
            with so.engine.begin() as connection:
                connection.execute(
                    fetcher_table.update()
                    .where(fetcher_table.c.failures > 0)
                    .values(next_run_at=fetcher_table.c.last_started_at)
                )
            wait_for(so, {"sent": 12})
            wait_until(lambda: all(fetcher_row(so, name).failures == 0 for name in failures), "all well")

        assert {one.runs for one in fetchers} == {2}
        assert "away (" not in caplog.text
        assert "ValueError: the source is odd" in caplog.text
        assert events(so)["created"] == 12
