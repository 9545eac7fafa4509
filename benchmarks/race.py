"""Draining one backlog with some processes: all start at one signal, and the clock stops at the last verdict."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import frozen
from sqlalchemy.engine import make_url

from benchmarks import raw, raw_sqlite
from benchmarks.forks import forks
from benchmarks.plugin import sendoff_with
from sendoff import Sendoff

__all__ = ["RaceFailed", "race"]

#: How long processes may take to come up, and how long a drain may take. Seconds.
START, PATIENCE = 60.0, 600.0
#: Seconds between two looks at how far a worker has come.
LOOK = 0.005


class RaceFailed(Exception):
    """A process died or did not come to an end: there is no figure."""


@frozen
class Board:
    """Shared memory: verdicts recorded and the moment of the last one, by process; the start and the end."""

    counts: Any
    moments: Any
    start: Any
    enough: Any


def race(runner: str, url: str, rows: int, processes: int) -> float:
    """Rows per second. ``runner`` is ``raw``, or the name of the plugin that sendoff's workers use."""
    context = forks()
    board = Board(
        counts=context.Array("q", processes),
        moments=context.Array("d", processes),
        start=context.Barrier(processes + 1),
        enough=context.Event(),
    )
    with _children(context, runner, url, board, processes) as children:
        try:
            board.start.wait(START)
        except Exception as error:  # a broken barrier has no type of its own across processes
            raise RaceFailed(f"a process of {runner} did not start") from error
        began = time.monotonic()
        while sum(board.counts) < rows:
            if any(child.exitcode for child in children) or time.monotonic() - began > PATIENCE:
                raise RaceFailed(f"{runner} ended after {sum(board.counts)} of {rows} rows")
            time.sleep(LOOK * 4)
        ended: float = max(board.moments)
        return rows / (ended - began)


@contextlib.contextmanager
def _children(context: Any, runner: str, url: str, board: Board, count: int) -> Iterator[list[Any]]:
    children = [context.Process(target=_run, args=(runner, url, board, place)) for place in range(count)]
    for child in children:
        child.start()
    try:
        yield children
        board.enough.set()
        for child in children:
            child.join(START)
    finally:
        for child in children:
            if child.is_alive():
                child.terminate()
            child.join()


def _run(runner: str, url: str, board: Board, place: int) -> None:
    """One process: come up, wait for the start, drain."""

    def done(count: int, moment: float) -> None:
        board.moments[place] = moment
        board.counts[place] += count

    if runner != "raw":
        _work(sendoff_with(runner, url), board, done)
    elif url.startswith("sqlite"):
        with contextlib.closing(raw_sqlite.connect(Path(make_url(url).database or ""))) as file:
            board.start.wait(START)
            raw_sqlite.drain(file, done)
    else:
        with raw.connect(url) as connection:
            board.start.wait(START)
            raw.drain(connection, done)


def _work(so: Sendoff, board: Board, done: Callable[[int, float], None]) -> None:
    """A worker as it comes, told to stop when the backlog is done. Its connections are open at the start, as raw's."""
    worker = so.worker()
    with ExitStack() as stack:
        for _ in range(so.settings.worker.store_threads):
            stack.enter_context(so.engine.connect())

    def watch() -> None:
        seen = 0
        while not board.enough.is_set():
            time.sleep(LOOK)
            sent = worker.settler.counts["sent"] if hasattr(worker, "settler") else 0
            if sent > seen:
                done(sent - seen, time.monotonic())
                seen = sent
        os.kill(os.getpid(), signal.SIGTERM)

    board.start.wait(START)
    threading.Thread(target=watch, daemon=True).start()
    worker.run()
    so.close()
