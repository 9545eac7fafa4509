"""``status`` and ``doctor``: what waits, who works, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import evolve
from sqlalchemy import Connection

from sendoff.errors import SendoffError
from sendoff.plugin.registry import Registry
from sendoff.report import ChannelStatus, CheckItem, FetcherStatus, Status
from sendoff.secret import scrub
from sendoff.settings import mask_url
from sendoff.store import Store, reports
from sendoff.worker import check_deadlines

if TYPE_CHECKING:
    from sendoff.app import Sendoff

__all__ = ["check", "status"]

#: Fields of a channel's counts that are states of rows.
STATES = ("due", "scheduled", "retrying", "leased", "waiting", "sent", "delivered", "dead", "cancelled", "expired")


def status(store: Store, registry: Registry) -> Status:
    """What waits, what is under way and who works, in one read."""

    def read(connection: Connection) -> Status:
        now = reports.database_now(connection)
        workers = tuple(reports.workers(connection))
        counts = reports.channel_counts(connection)
        names = sorted({*registry.channels, *counts})
        channels = []
        for name in names:
            row = counts.get(name, {})
            reason, left = row.get("paused") or (None, None)
            serving = sum(name in worker.channels for worker in workers)
            channels.append(
                ChannelStatus(
                    name=name,
                    loaded=name in registry.channels,
                    oldest_due=row.get("oldest_due"),
                    paused=reason,
                    paused_until=None if left is None else now + timedelta(seconds=left),
                    workers=serving,
                    warning=_warning(name, registry, row, serving),
                    **{state: int(row.get(state, 0)) for state in STATES},
                )
            )
        return Status(
            now=now,
            channels=tuple(channels),
            workers=workers,
            fetchers=_fetchers(registry, reports.fetchers(connection)),
            broken_plugins=tuple(registry.broken),
        )

    return store.read(read)


def _warning(name: str, registry: Registry, row: dict[str, int], serving: int) -> str | None:
    waiting = sum(int(row.get(state, 0)) for state in ("due", "scheduled", "retrying", "leased", "waiting"))
    rows = "1 row waits" if waiting == 1 else f"{waiting:,} rows wait"
    if name not in registry.channels and waiting:
        return f"{rows} and no plugin provides this channel here"
    if waiting and not serving:
        return f"{rows} and no worker serves this channel"
    return None


def _fetchers(registry: Registry, rows: Mapping[str, FetcherStatus]) -> tuple[FetcherStatus, ...]:
    names = sorted({*rows, *registry.fetchers})
    return tuple(
        evolve(rows[name], loaded=name in registry.fetchers) if name in rows else FetcherStatus(name=name, loaded=True)
        for name in names
    )


def check(so: Sendoff) -> list[CheckItem]:
    """Everything that ``sendoff doctor`` looks at; it never raises for what it finds."""
    found = [_check_url(so)]
    if found[0].level == "error":
        return found
    try:
        found += _check_plugins(so.registry)
        found.append(_check_schema(so))
        found += _check_channels(so)
    except SendoffError as error:
        found.append(CheckItem(name="settings", level="error", message=scrub(str(error))))
        return found
    if not any(item.level == "error" and item.name in {"database", "schema"} for item in found):
        found += _check_queue(so)
    variables = so.settings.unknown_variables()
    if variables:
        found.append(
            CheckItem(
                name="environment",
                level="warning",
                message=f"no setting reads {', '.join(variables)}",
                hint="a platform may have put them there; a misspelt setting looks the same",
            )
        )
    return found


def _check_url(so: Sendoff) -> CheckItem:
    try:
        url = so.settings.database_url
        now = so.store.read(reports.database_now)
    except SendoffError as error:
        return CheckItem(name="database", level="error", message=str(error), hint="check the URL with `sendoff config`")
    return CheckItem(name="database", level="ok", message=f"{mask_url(url)} answers; its clock says {now:%F %T} UTC")


def _check_plugins(registry: Registry) -> list[CheckItem]:
    broken = [
        CheckItem(
            name=f"plugin {view.name}",
            level="error",
            message=scrub(view.error or ""),
            hint=f"fix or uninstall it ({view.source})",
        )
        for view in registry.broken
    ]
    if registry.channels:
        names = ", ".join(sorted(registry.channels))
        return [*broken, CheckItem(name="plugins", level="ok", message=f"channels: {names}")]
    hint = "pip install one, or name it under [sendoff] plugins"
    return [*broken, CheckItem(name="plugins", level="error", message="no channel is provided", hint=hint)]


def _check_schema(so: Sendoff) -> CheckItem:
    try:
        so.require_schema()
    except SendoffError as error:
        return CheckItem(name="schema", level="error", message=str(error), hint="run `sendoff migrate`")
    return CheckItem(name="schema", level="ok", message="the tables are as this version needs them")


def _check_channels(so: Sendoff) -> list[CheckItem]:
    items = []
    for spec in so.registry.channels.values():
        name = f"channel {spec.name}"
        try:
            check_deadlines([spec], so.settings.worker)
            problem = spec.channel.check()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's check may raise anything
            problem = f"{type(error).__name__}: {error}" if not isinstance(error, SendoffError) else str(error)
        if problem is None:
            items.append(CheckItem(name=name, level="ok", message="ready"))
        elif so.settings.has_channel(spec.name):
            items.append(CheckItem(name=name, level="error", message=scrub(problem)))
        else:
            # Its plugin is installed and that is all: nobody may want it.
            hint = f"set it up under [channels.{spec.name}], or uninstall its plugin"
            items.append(CheckItem(name=name, level="warning", message=scrub(problem), hint=hint))
    return items


def _check_queue(so: Sendoff) -> list[CheckItem]:
    try:
        now = status(so.store, so.registry)
    except SendoffError as error:
        return [CheckItem(name="queue", level="error", message=str(error))]
    items = []
    for channel in now.channels:
        if channel.warning is not None:
            hint = "start `sendoff worker`" if channel.loaded else "install its plugin, or requeue elsewhere"
            items.append(CheckItem(name=f"queue {channel.name}", level="warning", message=channel.warning, hint=hint))
        if channel.paused is not None:
            items.append(CheckItem(name=f"queue {channel.name}", level="warning", message=channel.paused))
    items += [
        CheckItem(name=f"fetcher {one.name}", level="warning", message=f"its last run failed: {one.last_error}")
        for one in now.fetchers
        if one.last_error
    ]
    return items or [CheckItem(name="queue", level="ok", message="nothing is stuck")]
