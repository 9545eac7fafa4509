"""From devices.csv into the table of the push channel, as the shop's apps would register when they start."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen
from sqlalchemy import Connection

from sendoff.plugin import InvalidNotification
from sendoff_example_orders.load import lines
from sendoff_fcm import devices

__all__ = ["DevicesReport", "register_devices"]


@frozen
class DevicesReport:
    """What became of the lines. `problems` names each line that is no device, with the reason."""

    devices: int
    #: Lines that name a token again; the last one says whose it is.
    repeated: int
    problems: tuple[str, ...]


def register_devices(connection: Connection, folder: Path) -> DevicesReport:
    """Register the devices of `folder` in the caller's transaction, line by line. Again, it changes nothing."""
    seen: set[str] = set()
    repeated = 0
    problems: list[str] = []
    for number, line in lines(folder / "devices.csv"):
        token = line["token"].strip()
        try:
            devices.register(
                line["customer_id"].strip(),
                token,
                connection,
                platform=line["platform"].strip() or None,
                installation=line["installation"].strip() or None,
            )
        except InvalidNotification:
            # Without the token: whoever has it can write to that phone.
            problems.append(f"devices.csv line {number}: no usable token")
            continue
        repeated += token in seen
        seen.add(token)
    return DevicesReport(len(seen), repeated, tuple(problems))
