"""Everything at once, again and again: stops, outages, lost connections, suspect rows. A worker stops within its
grace period in any weather, every call has its verdict, and no row is left behind."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from pathlib import Path

import sqlalchemy as sa

from sendoff import Sendoff
from sendoff.tables import channel as channel_table
from sendoff.tables import outgoing
from tests.support.recording import calls_by_key
from tests.support.workers import Serving, app_for, enqueue, notifications, rows, settings_for, statuses, wait_until

ROUNDS = 12
GRACE = 8.0
CHANNELS = ("async", "sync", "batch", "asyncbatch")
ACTS = (
    ["sent"],
    ["raise", "sent"],
    ["outage", "sent"],
    ["sleep:0.05"],
    ["uncounted", "retry", "sent"],
    ["exit", "sent"],
)


def lose_connections(so: Sendoff) -> None:
    """What a restart of the database does to everybody who is connected."""
    with so.engine.begin() as connection:
        connection.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )


def make_suspects(so: Sendoff) -> None:
    """Some rows have lost leases already."""
    with so.engine.begin() as connection:
        some = sa.select(outgoing.c.id).where(outgoing.c.status == "pending", outgoing.c.claimed_until.is_(None))
        connection.execute(outgoing.update().where(outgoing.c.id.in_(some.limit(3))).values(lost_leases=3))


def end_pauses(so: Sendoff) -> None:
    with so.engine.begin() as connection:
        connection.execute(channel_table.update().values(breaker_until=None))


def test_a_worker_stops_in_any_weather(database_url: str, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    retry = {"delays": [0.01], "attempts": 100}
    limits = {"timeout": 5, "batch": 4}
    settings = settings_for(
        database_url,
        tmp_path,
        channels={name: {"retry": retry, "limits": {**limits, "concurrency": 4}} for name in CHANNELS},
        grace=GRACE,
        batch=12,
    )
    with ExitStack() as stack:
        # The workers have application objects of their own.
        mine = stack.enter_context(app_for(settings))
        for number in range(ROUNDS):
            groups = [
                notifications(chance.randrange(8), name, chance.choice(ACTS), prefix=f"{number}{name}{part}")
                for name in CHANNELS
                for part in range(2)
            ]
            enqueue(mine, *groups)
            make_suspects(mine)
            so = stack.enter_context(app_for(settings))
            running = Serving(so.worker())
            time.sleep(chance.uniform(0, 0.4))
            if mine.store.is_postgresql and chance.random() < 0.5:
                # One that cannot even say that it is there does not start.
                wait_until(lambda: mine.status().workers, "the worker's start")
                lose_connections(mine)
                time.sleep(chance.choice([0, 0, 0.2]))
            if chance.random() < 0.5:
                end_pauses(mine)
            began = time.monotonic()
            code = running.stop(GRACE + 10)
            took = time.monotonic() - began

            assert (code, took < GRACE) == (0, True), (seed, number, code, took)
            assert [one.id for one in rows(mine) if one.claimed_until is not None] == [], (seed, number)
        last = Serving(stack.enter_context(app_for(settings)).worker())

        def done() -> bool:
            end_pauses(mine)
            return set(statuses(mine)) == {"sent"}

        wait_until(done, f"the end of all rows (seed {seed})", 60)
        assert last.stop() == 0
        made = calls_by_key(tmp_path / "calls")
        assert {str(one.id): one.try_count for one in rows(mine)} == dict(made), seed
