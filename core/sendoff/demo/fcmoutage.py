"""FCM goes down in the middle of the demo, and comes back."""

from __future__ import annotations

import time

from attrs import define, field

from sendoff.demo.facts import Request, Row
from sendoff.demo.ledger import Progress
from sendoff.demo.localfcm import LocalFcm
from sendoff.demo.report import Outage
from sendoff.demo.settings import PUSH

__all__ = ["SECONDS", "FcmOutage", "outage_report"]

SECONDS = 5.0
#: FCM goes down when this share of the pushes is final.
DOWN_AT = 0.3
UNAVAILABLE = 503


@define
class FcmOutage:
    """Told of each look at the database; answers what is to be said, if anything happened."""

    fcm: LocalFcm
    promised: int
    _began: float | None = field(default=None, init=False)
    lasted: float | None = field(default=None, init=False)

    def look(self, look: Progress) -> str | None:
        """What has happened at this look."""
        waiting = self.promised - look.final.get(PUSH, 0)
        if self._began is None:
            if not 0 < waiting <= (1 - DOWN_AT) * self.promised:
                return None
            self.fcm.go_down()
            self._began = time.monotonic()
            return f"FCM is down for {SECONDS:.0f} seconds: it answers 503 to everything"
        if self.lasted is None and time.monotonic() - self._began >= SECONDS:
            self.fcm.come_back()
            self.lasted = time.monotonic() - self._began
            return f"FCM is back; {waiting:,} pushes are still to be sent"
        return None

    @property
    def problem(self) -> str | None:
        """What is to be said in the end where it did not go as planned."""
        if self.lasted is not None:
            return None
        return f"every push was final before FCM {'could go down' if self._began is None else 'was back'}"


def outage_report(lasted: float, rows: list[Row], requests: list[Request]) -> Outage:
    """What it came to, by FCM's log and the outgoing table."""
    unanswered = [request for request in requests if request.status == UNAVAILABLE]
    refused = {request.row for request in unanswered}
    return Outage(
        seconds=round(lasted, 1),
        requests=len(unanswered),
        rows=len(refused),
        paid=sum(row.id in refused and row.counted > 0 for row in rows),
    )
