"""Writing which tokens are dead: in batches, in a thread, so that a run of dead tokens is no run of transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from attrs import define, field
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from sendoff_fcm import devices

__all__ = ["Retirement"]

logger = logging.getLogger("sendoff.fcm")

Transaction = Callable[[], AbstractContextManager[Connection]]


@define(eq=False)
class _Batch:
    """What is to be written next, the latest word on each token: FCM's code, or None to activate it again."""

    words: dict[str, str | None] = field(factory=dict)
    written: asyncio.Future[None] = field(factory=lambda: asyncio.get_running_loop().create_future())


class Retirement:
    """The writer of one event loop. At most one transaction at a time; what comes meanwhile is the next one."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._next: _Batch | None = None
        self._task: asyncio.Task[None] | None = None

    async def note(self, deactivate: Sequence[tuple[str, str]], restore: Sequence[str], within: float) -> None:
        """Write it, and wait until it is, at most ``within`` seconds: the verdict that follows is then not ahead of
        the devices. A database that is away costs no verdict; the token will be found dead again."""
        if not deactivate and not restore:
            return
        if self._next is None:
            self._next = _Batch()
        batch = self._next
        batch.words.update(dict.fromkeys(restore))
        batch.words.update(deactivate)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_all())
        await asyncio.wait([batch.written], timeout=within)

    async def _write_all(self) -> None:
        while self._next is not None:
            batch, self._next = self._next, None
            try:
                await asyncio.to_thread(self._write, batch.words)
            except SQLAlchemyError as error:
                # Its text carries tokens; the name says whether the database is away or the table is missing.
                logger.warning("dead devices could not be written: %s", type(error).__name__)
            except Exception:
                logger.exception("dead devices could not be written")
            finally:
                if not batch.written.done():
                    batch.written.set_result(None)

    def _write(self, words: Mapping[str, str | None]) -> None:
        dead = {token: code for token, code in words.items() if code is not None}
        alive = [token for token, code in words.items() if code is None]
        with self._transaction() as connection:
            if alive:
                restored = devices.restore(alive, connection)
                logger.error(
                    "%d devices in a row were dead, so it is not the devices: %d restored", len(alive), restored
                )
            if dead:
                gone = devices.deactivate(dead, connection)
                logger.info("%d devices deactivated", gone)

    async def close(self) -> None:
        """Wait for what is still to be written."""
        if self._task is not None:
            await asyncio.wait([self._task])
