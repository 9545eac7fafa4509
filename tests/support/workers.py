"""Running workers in tests, and looking at what they did."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sendoff import Notification, Rejected, Sendoff
from sendoff.settings import Settings
from sendoff.tables import event, outgoing
from sendoff.worker import Worker
from tests.support import recording

PATIENCE = 30.0


def wait_until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Poll until ``condition()`` holds; the failure says what was waited for."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {patience:g} s"
        time.sleep(0.01)


def settings_for(
    url: str, folder: Path, *, channels: Mapping[str, Any] | None = None, **worker: Any
) -> dict[str, dict[str, Any]]:
    """Settings as in a file. Calls are recorded in ``folder/calls``; hanging ones end when ``folder/gate`` is there."""
    return {
        "sendoff": {"database_url": url},
        "worker": worker,
        "channels": dict(channels or {}),
        "plugins": {"recording": {"log": str(folder / "calls"), "gate": str(folder / "gate")}},
    }


@contextmanager
def app_for(settings: Mapping[str, Any], *plugins: object) -> Iterator[Sendoff]:
    """An application object with these settings, and the recording plugin unless others are given."""
    so = Sendoff(settings=Settings.load(settings, environ={}), plugins=plugins or (recording,), entry_points=False)
    try:
        yield so
    finally:
        so.close()
        # Threads that hang in a call would be there for the next test too.
        gate = settings["plugins"].get("recording", {}).get("gate")
        if gate is not None:
            Path(gate).touch()


class Serving:
    """A worker on a loop and in a thread of its own, in this process."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.code: int | None = None
        self.error: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="test-worker", daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def _run(self) -> None:
        try:
            self.code = asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.error = error
        finally:
            self._ready.set()

    async def _serve(self) -> int:
        asyncio.get_running_loop().call_soon(self._ready.set)
        return await self.worker.serve()

    def ask_to_stop(self) -> None:
        if self._thread.is_alive():
            self.worker.loop.call_soon_threadsafe(self.worker.stop)

    def stop(self, patience: float = PATIENCE) -> int:
        """Stop it; the exit code."""
        self.ask_to_stop()
        self._thread.join(patience)
        assert not self._thread.is_alive(), f"the worker did not stop within {patience:g} s"
        if self.error is not None:
            raise self.error
        assert self.code is not None
        return self.code


@contextmanager
def serving(so: Sendoff, channels: Sequence[str] | None = None) -> Iterator[Serving]:
    """A worker that runs during the block."""
    running = Serving(so.worker(channels=channels))
    try:
        yield running
    except BaseException:
        running.ask_to_stop()
        raise
    running.stop()


def notifications(
    count: int, channel: str, acts: Sequence[str] = (), *, prefix: str = "u", **more: Any
) -> list[Notification]:
    """``count`` of them to recipients ``u0``, ``u1``, ..., each told to act like this."""
    data = {"acts": list(acts)} if acts else {}
    return [
        Notification(recipient=f"{prefix}{number}", type="test", channels=[channel], data=data, **more)
        for number in range(count)
    ]


def enqueue(so: Sendoff, *groups: Iterable[Notification]) -> None:
    """Commit these notifications, which are all good."""
    answers = so.enqueue_many([one for group in groups for one in group], None)
    assert [answer for answer in answers if isinstance(answer, Rejected)] == []


def rows(so: Sendoff, **match: Any) -> list[sa.Row[Any]]:
    """The outgoing rows in the order of their ids."""
    found = sa.select(outgoing).where(*(outgoing.c[name] == value for name, value in match.items()))
    with so.engine.connect() as connection:
        return list(connection.execute(found.order_by(outgoing.c.id)))


def row(so: Sendoff, recipient: str) -> sa.Row[Any]:
    """The only row of a recipient."""
    [found] = rows(so, recipient=recipient)
    return found


def statuses(so: Sendoff) -> dict[str, int]:
    """How many rows have each status."""
    count = sa.select(outgoing.c.status, sa.func.count()).group_by(outgoing.c.status)
    with so.engine.connect() as connection:
        return {str(status): int(number) for status, number in connection.execute(count)}


def events(so: Sendoff, **match: Any) -> Counter[str]:
    """How many events there are of each kind."""
    count = sa.select(event.c.kind, sa.func.count()).group_by(event.c.kind)
    count = count.where(*(event.c[name] == value for name, value in match.items()))
    with so.engine.connect() as connection:
        return Counter({str(kind): int(number) for kind, number in connection.execute(count)})


def change(so: Sendoff, **values: Any) -> None:
    """Set columns of every outgoing row, by hand."""
    with so.engine.begin() as connection:
        connection.execute(outgoing.update().values(**values))


def wait_for(so: Sendoff, expected: Mapping[str, int], patience: float = PATIENCE) -> None:
    """Until the rows have exactly these statuses."""
    deadline = time.monotonic() + patience
    while (found := statuses(so)) != expected:
        assert time.monotonic() < deadline, f"after {patience:g} s {found}, not {dict(expected)}"
        time.sleep(0.02)
