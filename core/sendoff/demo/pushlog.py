"""The fourth source: the log of the local FCM, a JSON line for each request that it read, whatever it answered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from sendoff.demo.facts import Request, Writing

__all__ = ["accepted", "read_log"]


def read_log(file: Path) -> Iterator[Request]:
    """Every line that is whole. The order is in the message's data, which is all that an app would see."""
    if not file.exists():
        return
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        message = entry["message"] or {}
        data = message.get("data") or {}
        yield Request(
            token=entry["token"],
            status=entry["status"],
            accepted=entry["accepted"],
            order=data.get("order", ""),
            row=data.get("outgoing_id", ""),
            key=(message.get("android") or {}).get("collapse_key", ""),
            place=f"{file.name} line {number}",
        )


def accepted(requests: Iterable[Request], channel: str) -> Iterator[Writing]:
    """The messages that phones have, as far as FCM can know."""
    for request in requests:
        if request.accepted:
            yield Writing(request.order, channel, request.token, request.row, request.key, request.place)
