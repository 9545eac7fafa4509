"""The second source: what the channels really have, read from files with the standard library, or with plain SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from email import policy
from email.parser import BytesHeaderParser
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import Connection

from sendoff.demo.facts import Device, Writing
from sendoff.types import Uuid

__all__ = ["newest_entry", "read_devices", "read_inbox", "read_lines", "read_maildir"]

#: Named here and not taken from the plugin, which is one of those who are checked.
INBOX = sa.table("sendoff_inbox")
DEVICES = sa.text("SELECT token, recipient, active, deactivated_reason FROM sendoff_device")
ID: sa.ColumnClause[UUID] = sa.column("id", Uuid)


def read_maildir(directory: Path, channel: str) -> Iterator[Writing]:
    """Every message in ``new`` and ``cur``. What lies in ``tmp`` was never delivered."""
    parser = BytesHeaderParser(policy=policy.default)
    for folder in ("new", "cur"):
        for path in sorted((directory / folder).glob("*")):
            message = parser.parsebytes(path.read_bytes())
            yield Writing(
                order=_header(message["X-Order"]),
                channel=channel,
                to=_header(message["To"]),
                row=_header(message["X-Sendoff-Outgoing-Id"]),
                key=_header(message["X-Sendoff-Idempotency-Key"]),
                place=f"{folder}/{path.name}",
            )


def _header(value: object) -> str:
    return "" if value is None else str(value)


def read_lines(file: Path, channel: str) -> Iterator[Writing]:
    """Every JSON line that is whole. The order is in the text, which is all that a phone would show."""
    if not file.exists():
        return
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        yield Writing(
            order=_order_in(entry["text"]),
            channel=channel,
            to=entry["to"],
            row=entry["outgoing_id"],
            key=entry["idempotency_key"],
            place=f"{file.name} line {number}",
        )


def _order_in(text: str) -> str:
    """The first word that looks like an order's number."""
    for word in text.replace(":", " ").split():
        if word.startswith("SO-"):
            return word.rstrip(".,;:")
    return ""


def newest_entry(connection: Connection) -> UUID | None:
    """The id of the inbox's newest entry: what is older was there before the demo. Ids of version 7 sort by time."""
    newest: UUID | None = connection.scalar(sa.select(ID).select_from(INBOX).order_by(ID.desc()).limit(1))
    return newest


def read_inbox(connection: Connection, channel: str, *, after: UUID | None) -> Iterator[Writing]:
    """Every entry of the table that is newer than ``after``."""
    query = sa.select(sa.text("outgoing_id, recipient, data")).select_from(INBOX).order_by(ID)
    for outgoing_id, recipient, data in connection.execute(query if after is None else query.where(after < ID)):
        content = json.loads(data) if isinstance(data, str) else data or {}
        row = str(outgoing_id)
        yield Writing(
            order=str(content.get("order", "")),
            channel=channel,
            to=recipient,
            row=row,
            key=row,
            place=f"entry of row {row}",
        )


def read_devices(connection: Connection) -> Iterator[Device]:
    """The table of devices."""
    for token, recipient, active, reason in connection.execute(DEVICES):
        yield Device(token, recipient, None if active else reason or "no reason given")
