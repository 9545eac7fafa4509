"""Enqueueing: from a notification to rows, in the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import lru_cache

import uuid_utils
from attrs import evolve, frozen

from sendoff.errors import ConfigurationError, InvalidNotification, SendoffError, UnknownChannel
from sendoff.jsonsafe import as_text, check_json
from sendoff.notification import PAYLOAD_VERSION_KEY, Enqueued, EnqueuedRow, Notification, Step
from sendoff.plugin.registry import ChannelSpec, Registry
from sendoff.store.connections import Executor
from sendoff.store.insert import Existing, NewRow, adopt, insert_rows
from sendoff.types import to_micros

__all__ = ["Prepared", "enqueue", "new_id", "prepare"]


def new_id() -> uuid.UUID:
    """A time-ordered id (UUID version 7, RFC 9562)."""
    return uuid.UUID(int=uuid_utils.uuid7().int)


@frozen(eq=False)
class Prepared:
    """A notification as the rows it will become, predecessors before their successors."""

    notification: Notification
    notification_id: uuid.UUID
    rows: tuple[NewRow, ...]


def prepare(notification: Notification, registry: Registry, default_channels: Sequence[str]) -> Prepared:
    """Let each channel turn the content into its payload, or refuse it. Pure, but for the new ids.

    Raises :class:`~sendoff.InvalidNotification` or :class:`~sendoff.errors.UnknownChannel`.
    """
    if not isinstance(notification, Notification):
        raise InvalidNotification("notification", "must be a sendoff.Notification", value=notification)
    steps = _steps(notification, registry, default_channels)
    _check_names(notification, registry)
    notification_id = new_id()
    ids = {step.channel: new_id() for step in steps}
    rows = tuple(
        _row(notification, registry.channel(step.channel), step, ids, notification_id) for step in _in_order(steps)
    )
    return Prepared(notification, notification_id, rows)


@lru_cache(maxsize=256)
def _plain_step(channel: str) -> Step:
    return Step(channel)


def _steps(notification: Notification, registry: Registry, default_channels: Sequence[str]) -> list[Step]:
    wanted = notification.channels if notification.channels is not None else tuple(default_channels)
    if not wanted:
        raise InvalidNotification(
            "channels", "is not given and there is no default; name some or set default_channels", kind="nothing"
        )
    steps = [item if isinstance(item, Step) else _plain_step(item) for item in wanted]
    names = {step.channel for step in steps}
    leads = [step.channel for step in steps if registry.channel(step.channel).channel.leads and step.after is None]
    leader = leads[0] if leads else None
    for index, step in enumerate(steps):
        if step.after is None and leader is not None and not registry.channel(step.channel).channel.leads:
            is_plain = not isinstance(wanted[index], Step)
            steps[index] = Step(step.channel, after=leader) if is_plain else step
        elif step.after is not None and step.after not in names:
            raise InvalidNotification(
                f"channels[{index}].after", f"{step.after!r} is not a channel of this notification", value=step.after
            )
    return steps


def _in_order(steps: Sequence[Step]) -> list[Step]:
    """Predecessors first; a cycle is refused."""
    if all(step.after is None for step in steps):
        return list(steps)
    placed: dict[str, Step] = {}
    left = list(steps)
    while left:
        ready = [step for step in left if step.after is None or step.after in placed]
        if not ready:
            cycle = ", ".join(sorted(step.channel for step in left))
            raise InvalidNotification("channels", f"wait for each other in a circle: {cycle}", value=steps)
        placed.update((step.channel, step) for step in ready)
        left = [step for step in left if step.channel not in placed]
    return list(placed.values())


def _check_names(notification: Notification, registry: Registry) -> None:
    """Options and addresses for a channel that does not exist are a typing error, not something to ignore."""
    for field, mapping in (("options", notification.options), ("addresses", notification.addresses)):
        for name in mapping:
            if name not in registry.channels:
                problem = str(UnknownChannel(name, registry.channels))
                raise InvalidNotification(f"{field}.{name}", problem, value=mapping[name])


def _row(
    notification: Notification, spec: ChannelSpec, step: Step, ids: dict[str, uuid.UUID], notification_id: uuid.UUID
) -> NewRow:
    waits = step.after is not None
    ttl = notification.ttl
    return NewRow(
        id=ids[step.channel],
        notification_id=notification_id,
        channel=step.channel,
        recipient=notification.recipient,
        type=notification.type,
        payload={PAYLOAD_VERSION_KEY: spec.channel.payload_version, **_payload(notification, spec)},
        addresses=list(notification.addresses[step.channel]) if step.channel in notification.addresses else None,
        meta=dict(notification.meta) or None,
        sensitive=notification.sensitive,
        priority=int(notification.priority),
        status="waiting" if waits else "pending",
        dedup_key=notification.dedup_key,
        collapse_key=notification.collapse_key,
        not_before=None if notification.not_before is None else to_micros(notification.not_before),
        expires_at=None if notification.expires_at is None else to_micros(notification.expires_at),
        ttl=None if ttl is None else ttl.total_seconds(),
        after_id=ids[step.after] if step.after is not None else None,
        after_when=step.when if waits else None,
        after_delay=step.delay.total_seconds() if waits else None,
    )


def _payload(notification: Notification, spec: ChannelSpec) -> dict[str, object]:
    try:
        payload = spec.channel.prepare(notification)
    except SendoffError:
        raise
    except Exception as error:
        raise InvalidNotification(
            f"channels.{spec.name}",
            f"prepare() failed with {type(error).__name__}: {as_text(error)}",
            kind="a channel's fault",
        ) from error
    if not isinstance(payload, dict):
        raise InvalidNotification(f"channels.{spec.name}", "prepare() must return a dict", value=payload)
    if PAYLOAD_VERSION_KEY in payload:
        raise InvalidNotification(f"channels.{spec.name}", f"prepare() used the reserved key {PAYLOAD_VERSION_KEY}")
    checked: dict[str, object] = check_json(payload, f"payload.{spec.name}")
    return checked


def enqueue(executor: Executor, prepared: Sequence[Prepared], *, wake: bool = True) -> list[Enqueued]:
    """Insert what was prepared; one statement for all rows. An existing dedup key is not an error: that channel's
    answer is ``duplicate``, and new siblings join the notification that was there before.

    Rows with a predecessor are inserted after it, so that they can wait for the row that really exists.
    """
    rounds: list[list[tuple[int, NewRow]]] = []
    for index, item in enumerate(prepared):
        depth: dict[uuid.UUID, int] = {}
        for row in item.rows:
            level = 0 if row.after_id is None else depth[row.after_id] + 1
            depth[row.id] = level
            if level == len(rounds):
                rounds.append([])
            rounds[level].append((index, row))
    existing: dict[uuid.UUID, Existing] = {}
    for members in rounds:
        rows = [_behind(row, existing) for _, row in members]
        for ordinal, found in insert_rows(executor, rows, wake=wake).items():
            existing[rows[ordinal].id] = found
    moved: dict[uuid.UUID, uuid.UUID] = {}
    return [_answer(executor, item, existing, moved) for item in prepared]


def _behind(row: NewRow, existing: dict[uuid.UUID, Existing]) -> NewRow:
    """The row waiting for its nearest existing predecessor: a duplicate means the row that was there."""
    if row.after_id is None or row.after_id not in existing:
        return row
    return evolve(row, after_id=existing[row.after_id].id)


def _answer(
    executor: Executor, item: Prepared, existing: dict[uuid.UUID, Existing], moved: dict[uuid.UUID, uuid.UUID]
) -> Enqueued:
    """``moved``: notifications of this call that joined an older one, and which."""
    duplicates = [existing[row.id] for row in item.rows if row.id in existing]
    notification_id = item.notification_id
    if duplicates:
        notification_id = min(moved.get(found.notification_id, found.notification_id) for found in duplicates)
        moved[item.notification_id] = notification_id
        for row in item.rows:
            if row.id not in existing:
                adopt(executor, row.id, notification_id)
    by_channel = {
        row.channel: EnqueuedRow(row.channel, "duplicate", existing[row.id].id, "dedup_key")
        if row.id in existing
        else EnqueuedRow(row.channel, "created", row.id)
        for row in item.rows
    }
    order = [row.channel for row in item.rows]
    wanted = item.notification.channels
    if wanted is not None:
        order = [name.channel if isinstance(name, Step) else name for name in wanted]
    return Enqueued(notification_id, tuple(by_channel[name] for name in order))


def leased(prepared: Prepared, claimed_by: str, lease: Callable[[str], float]) -> Prepared:
    """The same rows, inserted already leased to this process: what ``send_now`` tries at once."""
    rows = tuple(
        row
        if row.status == "waiting" or row.not_before is not None
        else evolve(row, lease=lease(row.channel), claimed_by=claimed_by)
        for row in prepared.rows
    )
    if not rows:
        raise ConfigurationError("nothing to send")
    return evolve(prepared, rows=rows)
