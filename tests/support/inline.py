"""Channels and plugins written down in a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection

from sendoff.plugin import Channel, Delivery, Fetcher, Limits, Verdict, hookimpl

Answer = Callable[[Delivery], Verdict | None]


class Inline(Channel):
    """Calls ``answer`` in a thread, and keeps what it was given."""

    def __init__(
        self,
        name: str,
        answer: Answer = lambda delivery: None,
        *,
        leads: bool = False,
        look_up: Callable[[Sequence[str]], Mapping[str, Sequence[str]]] | None = None,
        start: Callable[[], None] = lambda: None,
        limits: Limits | None = None,
    ) -> None:
        self.name = name
        self.leads = leads
        if limits is not None:
            self.limits = limits
        self.needs_address = look_up is not None
        self.sent: list[Delivery] = []
        self.sent_at: list[float] = []
        self._answer = answer
        self._look_up = look_up
        self._start = start

    def addresses(self, recipients: Sequence[str], connection: Connection) -> Mapping[str, Sequence[str]] | None:
        return None if self._look_up is None else self._look_up(recipients)

    async def start(self) -> None:
        self._start()

    def send(self, delivery: Delivery) -> Verdict | None:
        self.sent.append(delivery)
        self.sent_at.append(time.monotonic())
        return self._answer(delivery)

    @property
    def recipients(self) -> list[str]:
        return [delivery.recipient for delivery in self.sent]


class Plugin:
    """A plugin of these channels and fetchers."""

    def __init__(self, *parts: Channel | Fetcher) -> None:
        self._parts = parts

    @hookimpl
    def sendoff_channels(self) -> list[Channel]:
        return [part for part in self._parts if isinstance(part, Channel)]

    @hookimpl
    def sendoff_fetchers(self) -> list[Fetcher]:
        return [part for part in self._parts if isinstance(part, Fetcher)]
