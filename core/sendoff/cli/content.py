"""The options that describe a notification on the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from sendoff.cli.values import DURATION, SOON, Choice
from sendoff.errors import InvalidNotification

__all__ = ["content_options", "content_values"]


def content_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; :func:`content_values` reads them."""
    option = click.option
    for decorate in reversed(
        (
            option("-c", "--channel", "channels", multiple=True, metavar="NAME", help="A channel. Repeatable."),
            option("--title", help="The title."),
            option("--body", help="The text."),
            option("--data", metavar="JSON", help="An object for the client."),
            option(
                "--option",
                multiple=True,
                metavar="CHANNEL.KEY=VALUE",
                help="Content for one channel; the value is JSON or text. Repeatable.",
            ),
            option("--options", metavar="JSON", help='Content for channels: {"email": {"subject": "..."}}.'),
            option(
                "--address",
                multiple=True,
                metavar="CHANNEL=ADDRESS",
                help="Send there, look nothing up. Repeatable.",
            ),
            option("--dedup-key", metavar="KEY", help="Once per recipient, channel and key."),
            option("--collapse-key", metavar="KEY", help="A later one with this key replaces it on the device."),
            option("--priority", type=Choice(("urgent", "normal", "bulk")), help="The lane it waits in."),
            option("--not-before", type=SOON, metavar="TIME", help="2026-12-01T09:00:00+01:00, or 2h from now."),
            option("--expires-at", type=SOON, metavar="TIME", help="Not sent later; written the same way."),
            option("--ttl", type=DURATION, metavar="DURATION", help="Expires so long after it is due: 30m, 24h."),
            option("--sensitive", is_flag=True, help="Blank the stored content once it is final."),
            option("--meta", multiple=True, metavar="KEY=VALUE", help="Travels along (locale=de). Repeatable."),
        )
    ):
        function = decorate(function)
    return function


def content_values(
    *,
    channels: Sequence[str],
    title: str | None,
    body: str | None,
    data: str | None,
    option: Sequence[str],
    options: str | None,
    address: Sequence[str],
    dedup_key: str | None,
    collapse_key: str | None,
    priority: str | None,
    not_before: datetime | None,
    expires_at: datetime | None,
    ttl: timedelta | None,
    sensitive: bool,
    meta: Sequence[str],
) -> dict[str, Any]:
    """What was said, as the values of a notification; nothing for what was not said."""
    from sendoff.cli.lines import merged, parse_json

    said: dict[str, Any] = {
        "channels": list(channels) or None,
        "title": title,
        "body": body,
        "data": None if data is None else parse_json(data, "data"),
        "options": None if options is None else parse_json(options, "options"),
        "dedup_key": dedup_key,
        "collapse_key": collapse_key,
        "priority": priority,
        "not_before": not_before,
        "expires_at": expires_at,
        "ttl": ttl,
        "sensitive": sensitive or None,
    }
    for word in option:
        path, value = _pair(word, "--option", "CHANNEL.KEY=VALUE")
        if "." not in path:
            raise click.BadParameter(f"{word!r} names no channel; write CHANNEL.KEY=VALUE", param_hint="--option")
        said = merged(said, {"options": _nested(path.split("."), _json_or_text(value))})
    addresses: dict[str, list[str]] = {}
    for word in address:
        channel, value = _pair(word, "--address", "CHANNEL=ADDRESS")
        addresses.setdefault(channel, []).append(value)
    said["addresses"] = addresses or None
    said["meta"] = {
        key: _json_or_text(value) for key, value in (_pair(word, "--meta", "KEY=VALUE") for word in meta)
    } or None
    return {key: value for key, value in said.items() if value is not None}


def _pair(word: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name.strip():
        raise click.BadParameter(f"{word!r} is not {form}", param_hint=option)
    return name.strip(), value


def _json_or_text(value: str) -> Any:
    """``3``, ``true``, ``["a"]`` are JSON; whatever is not is text."""
    from sendoff.cli.lines import parse_json

    with contextlib.suppress(InvalidNotification):
        return parse_json(value, "value")
    return value


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    for part in reversed(path):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested
