"""``sendoff status``."""

from __future__ import annotations

from datetime import datetime

import click

from sendoff.cli.options import Cli, common
from sendoff.cli.text import ago, clock, span
from sendoff.report import ChannelStatus, Status

__all__ = ["status"]

#: Shown for every channel; the others only where there is something to count.
ALWAYS = ("due", "scheduled", "retrying", "leased", "waiting", "sent", "dead")
SOMETIMES = ("delivered", "cancelled", "expired")


@click.command()
@common
def status(cli: Cli) -> None:
    """Show every channel's queue, the workers and what needs a person."""
    found = cli.app().status()
    cli.show(found, lambda: _people(found))


def _people(found: Status) -> None:
    from sendoff.cli.tables import Column, lines, table

    names = [*ALWAYS, *(name for name in SOMETIMES if any(getattr(each, name) for each in found.channels))]
    if found.channels:
        table(
            [
                Column("channel", fixed=True),
                *(Column(name, numeric=True) for name in names),
                Column("oldest due", numeric=True),
                Column("workers", numeric=True),
                Column("paused", fluid=True),
            ],
            [
                (
                    channel.name,
                    *(getattr(channel, name) for name in names),
                    "" if channel.oldest_due is None else span(channel.oldest_due),
                    channel.workers,
                    _paused(channel, found.now),
                )
                for channel in found.channels
            ],
        )
    else:
        lines("no channels: no plugin provides one (see `sendoff plugins`)")
    if found.workers:
        lines("")
        table(
            [Column("worker", fixed=True), "host", "pid", "version", Column("channels", fluid=True), "started", "seen"],
            [
                (
                    worker.id,
                    worker.host,
                    str(worker.pid),
                    worker.version,
                    ", ".join(worker.channels),
                    ago(worker.started_at, found.now),
                    f"{span(worker.seen)} ago",
                )
                for worker in found.workers
            ],
        )
    if found.fetchers:
        lines("")
        table(
            [
                Column("fetcher", fixed=True),
                "last run",
                "next run",
                Column("enqueued", numeric=True),
                Column("rejected", numeric=True),
                Column("note", fluid=True),
            ],
            [
                (
                    fetcher.name,
                    "running" if fetcher.running else ago(fetcher.last_finished_at, found.now),
                    ago(fetcher.next_run_at, found.now),
                    fetcher.last_enqueued,
                    fetcher.last_rejected,
                    fetcher.last_error or ("" if fetcher.loaded else "its plugin is not loaded"),
                )
                for fetcher in found.fetchers
            ],
        )
    warnings = _warnings(found)
    if warnings:
        lines("", *(f"warning: {warning}" for warning in warnings))


def _paused(channel: ChannelStatus, now: datetime) -> str:
    if not channel.paused:
        return ""
    if channel.paused_until is None:
        return channel.paused
    return f"{channel.paused} (until {clock(channel.paused_until)}, {ago(channel.paused_until, now)})"


def _warnings(found: Status) -> list[str]:
    warnings = [_named(channel.name, channel.warning) for channel in found.channels if channel.warning]
    warnings.extend(f"plugin {plugin.name} is broken: {plugin.error}" for plugin in found.broken_plugins)
    return warnings


def _named(channel: str, warning: str) -> str:
    return warning if channel in warning else f"{channel}: {warning}"
