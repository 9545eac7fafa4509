"""A plugin for tests of the command line: channels that record what they send and answer what the content asks for.

Load it with ``-p tests.support.plugins_cli``. The body of a notification is the answer: ``retry``, ``permanent``,
``no target``, ``outage``; all else is sent. Calls are appended to the file that SENDOFF_CHANNELS__PAGER__LOG names, so
that a test sees what another process sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import click
from attrs import frozen

from sendoff.plugin import (
    Channel,
    Context,
    Delivery,
    FetchContext,
    Fetcher,
    InvalidNotification,
    NoTarget,
    Notification,
    Outage,
    Page,
    Permanent,
    Retryable,
    Sent,
    Verdict,
    hookimpl,
)

LONGEST_TITLE = 20


@frozen
class Config:
    """Where calls are recorded."""

    log: str | None = None


class Recording(Channel):
    """Records each call, and answers what the body says."""

    def __init__(self, name: str, config: Config) -> None:
        self.name = name
        self._log = config.log

    def prepare(self, notification: Notification) -> dict[str, object]:
        if notification.title is not None and len(notification.title) > LONGEST_TITLE:
            problem = f"is {len(notification.title)} characters; the limit is {LONGEST_TITLE}"
            raise InvalidNotification("title", problem, value=notification.title)
        return super().prepare(notification)

    def send(self, delivery: Delivery) -> Verdict | None:
        if self._log is not None:
            told = {
                "channel": self.name,
                "recipient": delivery.recipient,
                "payload": dict(delivery.payload),
                "addresses": list(delivery.addresses),
                "key": delivery.idempotency_key,
            }
            with Path(self._log).open("a", encoding="utf-8") as log:
                log.write(json.dumps(told) + "\n")
        match delivery.payload.get("body"):
            case "retry":
                return Retryable("HTTP 503: busy\n\x1b[31mtry later")
            case "permanent":
                return Permanent("550 no such user")
            case "no target":
                return NoTarget("no pager registered")
            case "outage":
                return Outage("credential expired")
        return Sent(provider_ref="ref-1")


class Shop(Fetcher):
    """Two pages of orders; the last one has a bad notification in it."""

    name = "shop"
    every = timedelta(hours=1)

    def fetch(self, ctx: FetchContext) -> Iterator[Page]:
        start = ctx.cursor["id"] if ctx.cursor else 0
        for number in range(start + 1, 3):
            order = Notification(recipient=f"u{number}", type="order", channels=["pager"], dedup_key=f"order:{number}")
            bad = Notification(recipient=f"u{number}", type="order", channels=["pager"], title="x" * 99)
            yield Page([order, bad] if number == 2 else [order], cursor={"id": number})


@hookimpl
def sendoff_channels(context: Context) -> list[Channel]:
    return [
        Recording("pager", context.config("channels.pager", Config)),
        Recording("siren", context.config("channels.siren", Config)),
    ]


@hookimpl
def sendoff_fetchers() -> list[Fetcher]:
    return [Shop()]


@hookimpl
def sendoff_cli(group: click.Group) -> None:
    @group.command()
    def ring() -> int:
        """Ring."""
        click.echo("ring ring")
        return 7

    @group.command("status")
    def status() -> None:
        """Never reached: a plugin does not replace what is there."""
        click.echo("replaced")
