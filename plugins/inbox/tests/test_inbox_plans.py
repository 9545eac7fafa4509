"""A feed costs what its page costs, and a count what it counts, whatever the database believes about the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from sendoff.store.engine import make_engine
from sendoff_inbox import inbox

#: One recipient has 100,000 entries, half of them read, among those of others.
MINE, OTHERS = 100_000, 100_000
FILL = """
    INSERT INTO sendoff_inbox (id, outgoing_id, notification_id, recipient, type, title, created_at, read_at)
    SELECT CAST(lpad(to_hex(n), 32, '0') AS uuid), gen_random_uuid(), gen_random_uuid(),
      {recipient}, 't', repeat('x', 100), now(), CASE WHEN mod(n, 2) = 0 THEN now() END
    FROM generate_series({first}, {last}) n
"""
MIDDLE = UUID(int=MINE // 2)


#: What the statistics say about that table.
STATISTICS = ["fresh", "from an empty table", "from when it was alone"]


def crowd(db: sa.Connection, statistics: str) -> None:
    def run(sql: str) -> None:
        db.exec_driver_sql(sql)

    run("ALTER TABLE sendoff_inbox SET (autovacuum_enabled = off)")
    if statistics == "from an empty table":
        run("ANALYZE sendoff_inbox")
    run(FILL.format(recipient="'u1'", first=1, last=MINE))
    if statistics == "from when it was alone":
        run("ANALYZE sendoff_inbox")
    run(FILL.format(recipient="'o' || mod(n, 1000)", first=MINE + 1, last=MINE + OTHERS))
    if statistics == "fresh":
        run("ANALYZE sendoff_inbox")


#: What is called, the index it has to take, and the rows it may read from the table at most.
CALLS: dict[str, tuple[Callable[[sa.Connection], Any], str, Any, int]] = {
    "unread_count": (lambda db: inbox.unread_count("u1", db), "unread", MINE // 2, MINE // 2),
    "unseen_count": (lambda db: inbox.unseen_count("u1", db), "unread", MINE // 2, MINE // 2),
    "unread_count of nobody": (lambda db: inbox.unread_count("nobody", db), "unread", 0, 0),
    "list": (lambda db: len(inbox.list("u1", db)), "feed", 50, 50),
    "list before": (lambda db: len(inbox.list("u1", db, before=MIDDLE)), "feed", 50, 50),
    "list unread": (lambda db: len(inbox.list("u1", db, before=MIDDLE, unread=True)), "unread|feed", 50, 100),
    "list archived": (lambda db: len(inbox.list("u1", db, archived=True)), "archive", 0, 0),
    "mark_read up to": (lambda db: inbox.mark_read("u1", db, up_to=UUID(int=200)), "unread|pkey", 100, 100),
    "mark_read ids": (lambda db: inbox.mark_read("u1", db, [UUID(int=1), MIDDLE]), "pkey", 1, 10),
}


@pytest.mark.parametrize("statistics", STATISTICS)
def test_the_index_is_taken(postgres_url: str, statistics: str) -> None:
    engine = make_engine(postgres_url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        crowd(db, statistics)
    for name, (call, index, answer, most) in CALLS.items():
        statements: list[tuple[str, Any]] = []
        with engine.connect() as db:
            with _recorded(engine, statements):
                assert (name, answer) == (name, call(db))
            db.rollback()
            [(sql, parameters)] = statements
            explained = db.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", parameters).scalar_one()
        scans = list(_scans(explained[0]["Plan"]))
        taken = {scan["Index Name"].removeprefix("sendoff_inbox_") for scan in scans if "Index Name" in scan}
        assert taken <= set(index.split("|")), (name, scans)
        assert not [scan for scan in scans if scan["Node Type"] == "Seq Scan"], (name, scans)
        read = [
            (scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)) * scan["Actual Loops"]
            for scan in scans
            if scan["Node Type"] != "Bitmap Index Scan"
        ]
        assert max(read) <= most, (name, scans)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        _without_a_plan_of_its_own(db)
    engine.dispose()


def _without_a_plan_of_its_own(db: sa.Connection) -> None:
    """psycopg prepares what it has run five times; PostgreSQL may then plan once for all recipients."""
    db.exec_driver_sql("SET plan_cache_mode = force_generic_plan")
    before = _sequential_scans(db)
    for name in ("unread_count", "list before"):
        call, _, answer, _ = CALLS[name]
        assert [answer] * 8 == [call(db) for _ in range(8)]
    assert before == _sequential_scans(db)


def _sequential_scans(db: sa.Connection) -> int:
    # What other connections have done is told late; they have been idle since.
    db.exec_driver_sql("SELECT pg_stat_clear_snapshot()")
    return int(db.exec_driver_sql("SELECT pg_stat_get_numscans('sendoff_inbox'::regclass)").scalar_one())


@contextmanager
def _recorded(engine: sa.Engine, statements: list[tuple[str, Any]]) -> Iterator[None]:
    def note(_c: object, _cursor: object, sql: str, parameters: Any, *_: object) -> None:
        statements.append((sql, parameters))

    sa.event.listen(engine, "before_cursor_execute", note)
    yield
    sa.event.remove(engine, "before_cursor_execute", note)


def _scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    # What an update does to its table after it has found the rows is no scan.
    reads = plan.get("Relation Name") == "sendoff_inbox" and plan["Node Type"] != "ModifyTable"
    if reads or plan["Node Type"] == "Bitmap Index Scan":
        yield plan
    for below in plan.get("Plans", []):
        yield from _scans(below)


def test_on_sqlite_too(sqlite_url: str) -> None:
    engine = make_engine(sqlite_url)
    statements: list[tuple[str, Any]] = []
    with engine.begin() as db:
        with _recorded(engine, statements):
            inbox.unread_count("u1", db)
            inbox.list("u1", db, before=MIDDLE)
            inbox.list("u1", db, archived=True)
        plans = [
            " ".join(row[3] for row in db.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", parameters))
            for sql, parameters in statements
        ]
    engine.dispose()
    for plan, index in zip(plans, ("unread", "feed", "archive"), strict=True):
        assert f"USING INDEX sendoff_inbox_{index} (" in plan
        assert "TEMP B-TREE" not in plan
