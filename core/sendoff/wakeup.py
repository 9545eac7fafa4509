"""Being woken: LISTEN on PostgreSQL, and how an idle worker falls asleep."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from sendoff.store.insert import NOTIFY

__all__ = ["IDLE_LOOKS", "Listener", "idle_pause"]

logger = logging.getLogger("sendoff")

#: Seconds after which a worker that has gone idle looks again, before it settles for its poll interval.
IDLE_LOOKS = (0.02, 0.05, 0.1, 0.2, 0.4)
RECONNECT_FIRST, RECONNECT_LONGEST = 0.1, 5.0
#: How long the listening thread waits for a notification before it looks whether it should stop. Seconds.
BREATH = 0.5


def idle_pause(looks: int, poll: float) -> float:
    """Seconds to sleep after ``looks`` looks in a row that found less than they asked for."""
    return min(IDLE_LOOKS[looks], poll) if looks < len(IDLE_LOOKS) else poll


class Listener:
    """One connection that only listens, in a thread of its own: no queries, keepalives on, made anew when it breaks.

    ``wake(channel)`` is called from the thread for each notification, and ``wake(None)`` after each (re)connection,
    because notifications may have been missed before it.
    """

    def __init__(self, conninfo: str, options: dict[str, Any], wake: Callable[[str | None], None]) -> None:
        self._conninfo = conninfo
        self._options = options
        self._wake = wake
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sendoff-listen", daemon=True)

    def start(self) -> None:
        """Begin listening."""
        self._thread.start()

    def stop(self) -> None:
        """Stop within a breath."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=BREATH * 4)

    def _run(self) -> None:
        pause = RECONNECT_FIRST
        while not self._stopping.is_set():
            connected_at = time.monotonic()
            try:
                self._listen()
            except Exception as error:  # noqa: BLE001 - whatever breaks the connection, the answer is a new one
                if not self._stopping.is_set():
                    logger.info("the listening connection broke (%s); polling until it is back", type(error).__name__)
            if time.monotonic() - connected_at > RECONNECT_LONGEST:
                pause = RECONNECT_FIRST
            self._stopping.wait(pause)
            pause = min(pause * 2, RECONNECT_LONGEST)

    def _listen(self) -> None:
        import psycopg

        with psycopg.connect(self._conninfo, autocommit=True, **self._options) as connection:
            connection.execute(f"LISTEN {NOTIFY}")
            self._wake(None)
            while not self._stopping.is_set():
                for notification in connection.notifies(timeout=BREATH):
                    self._wake(notification.payload)
                    if self._stopping.is_set():
                        return
