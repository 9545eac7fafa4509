"""A plugin of channels that do not let go: each hangs for ever in another place, and says so in the file first."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from attrs import frozen
from sqlalchemy import Connection

from sendoff.plugin import (
    Channel,
    Context,
    Delivery,
    FetchContext,
    Fetcher,
    Page,
    Settlement,
    Verdict,
    hookimpl,
)
from tests.support.recording import append

EVER = 3600.0
#: Where each channel hangs. The names are the channels'.
PLACES = ("cancelled", "thread", "blocking", "looking up", "starting", "stopping", "sending", "fetching", "observing")


@frozen
class Config:
    """``[plugins.stubborn]``: where to hang."""

    log: str
    place: str


async def ignoring_cancellation() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(EVER)


class Stubborn(Channel):
    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self._log = log

    def hangs(self, place: str) -> bool:
        if self.name == place:
            append(self._log, {"what": "hangs", "place": place})
        return self.name == place

    def addresses(self, recipients: Sequence[str], connection: Connection) -> Mapping[str, Sequence[str]] | None:
        if self.hangs("looking up"):
            time.sleep(EVER)
        return None

    async def start(self) -> None:
        if self.hangs("starting"):
            await ignoring_cancellation()

    async def send(self, delivery: Delivery) -> Verdict | None:
        if self.hangs("cancelled"):
            await ignoring_cancellation()
        if self.hangs("thread"):
            await asyncio.to_thread(time.sleep, EVER)
        if self.hangs("blocking"):
            time.sleep(EVER)  # noqa: ASYNC251 - what a careless channel does
        if self.name == "stopping":
            append(self._log, {"what": "hangs", "place": "stopping"})  # soon
        return None

    async def stop(self) -> None:
        if self.name == "stopping":
            await ignoring_cancellation()


class StubbornInThread(Stubborn):
    def send(self, delivery: Delivery) -> Verdict | None:  # type: ignore[override]  # both are allowed of a channel
        if self.hangs("sending"):
            time.sleep(EVER)
        return None


class StubbornFetcher(Fetcher):
    name = "stubborn"
    every = timedelta(hours=1)

    def __init__(self, config: Config) -> None:
        self._config = config

    def fetch(self, ctx: FetchContext) -> Iterator[Page]:
        append(Path(self._config.log), {"what": "hangs", "place": "fetching"})
        time.sleep(EVER)
        yield from ()


#: What the observer knows: hooks are told no settings.
_observing: list[Config] = []


@hookimpl
def sendoff_channels(context: Context) -> list[Channel]:
    config = context.config("plugins.stubborn", Config)
    _observing[:] = [config]
    kind = StubbornInThread if config.place == "sending" else Stubborn
    return [kind(config.place, Path(config.log))]


@hookimpl
def sendoff_fetchers(context: Context) -> list[Fetcher]:
    config = context.config("plugins.stubborn", Config)
    return [StubbornFetcher(config)] if config.place == "fetching" else []


@hookimpl
def sendoff_settled(settlements: Sequence[Settlement]) -> None:
    for config in _observing:
        if config.place == "observing":
            append(Path(config.log), {"what": "hangs", "place": "observing"})
            time.sleep(EVER)
