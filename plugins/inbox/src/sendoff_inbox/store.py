"""Writing entries: one statement for a whole batch, on each of the two databases."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Connection, TextClause, text

from sendoff.plugin import Delivery

__all__ = ["NOTIFY", "PARTS", "hashed", "insert"]

#: A version 7 uuid counts milliseconds in 48 bits and their 4,096th parts in 12 more (RFC 9562 section 6.2, method 3).
#: Entries of a batch are one part (a quarter of a microsecond) apart, which is less than writing one takes: a later
#: batch never begins before the end of an earlier one, so a feed keeps the order in which it was written.
PARTS = 4096
#: The one NOTIFY channel, whatever the number of recipients, and the bytes of a recipient's hash in its payloads. Two
#: recipients with the same hash make each other look once too often, no more.
NOTIFY, HASH = "sendoff_inbox", 8

_FIELDS = ("id", "outgoing_id", "notification_id", "recipient", "type", "title", "body", "data", "link", "options")
_COLUMNS = ", ".join((*_FIELDS, "created_at"))

#: The first 8 bytes of an id are the time and the version, the others come from a random uuid with its variant. The
#: clock is the statement's, not the transaction's start. Rows are inserted in the order of ``place``, which is that of
#: outgoing ids, so that two workers with the same rows wait for each other instead of deadlocking.
#:
#: The transaction that writes entries tells those who listen to their recipients: once for each, and only for them,
#: because a NOTIFY takes a lock of the whole database at commit. The payload is a hash, which says that something is
#: there and nothing about it. A pg_notify runs only where the main query asks for it.
_POSTGRESQL = text(f"""
    WITH clock AS MATERIALIZED (
        SELECT CAST(floor(extract(epoch FROM statement_timestamp()) * 1000 * {PARTS}) AS bigint) AS parts
    ), inserted AS (
        INSERT INTO sendoff_inbox ({_COLUMNS})
        SELECT CAST(encode(overlay(uuid_send(gen_random_uuid()) PLACING int8send(
                   (((clock.parts + r.place) >> 12) << 16) + 28672 + ((clock.parts + r.place) & 4095)
               ) FROM 1 FOR 8), 'hex') AS uuid),
               r.outgoing_id, r.notification_id, r.recipient, r.type, r.title, r.body, r.data, r.link, r.options,
               statement_timestamp()
        FROM clock, json_to_recordset(CAST(:entries AS json)) AS r (
            place bigint, outgoing_id uuid, notification_id uuid, recipient text, type text, title text, body text,
            data json, link text, options json
        )
        ORDER BY r.place
        ON CONFLICT (outgoing_id) DO NOTHING
        RETURNING recipient
    )
    SELECT count(pg_notify('{NOTIFY}', encode(substr(sha256(convert_to(recipient, 'UTF8')), 1, {HASH}), 'hex')))
    FROM (
        SELECT DISTINCT i.recipient FROM inserted i
        JOIN sendoff_inbox_listener l ON l.recipient = i.recipient AND l.until > statement_timestamp()
    ) AS heard
""")  # noqa: S608 - the columns are a constant of this file

_EXTRACTED = ", ".join(f"json_extract(value, '$.{name}')" for name in _FIELDS)
#: ``WHERE true`` tells SQLite's parser that ON CONFLICT does not belong to the SELECT.
_SQLITE = text(f"""
    INSERT INTO sendoff_inbox ({_COLUMNS})
    SELECT {_EXTRACTED}, :now FROM json_each(:entries) WHERE true
    ON CONFLICT (outgoing_id) DO NOTHING
""")  # noqa: S608 - the columns are a constant of this file


def insert(connection: Connection, deliveries: Sequence[Delivery]) -> None:
    """One entry for each delivery whose row has none yet, in one statement, in the caller's transaction."""
    # Outgoing ids grow with time: sorted, what was enqueued first is first in a recipient's feed.
    ordered = sorted(deliveries, key=lambda delivery: delivery.id.int)
    statement, parameters = (_sqlite if connection.dialect.name == "sqlite" else _postgresql)(ordered)
    connection.execute(statement, parameters)


def hashed(recipient: str) -> str:
    """The payload of the notifications about a recipient."""
    return hashlib.sha256(recipient.encode()).digest()[:HASH].hex()


def _postgresql(deliveries: Sequence[Delivery]) -> tuple[TextClause, dict[str, Any]]:
    entries = [{**_entry(one), "place": index} for index, one in enumerate(deliveries)]
    return _POSTGRESQL, {"entries": orjson.dumps(entries).decode()}


def _sqlite(deliveries: Sequence[Delivery]) -> tuple[TextClause, dict[str, Any]]:
    now = time.time_ns() // 1000  # SQLite has no clock but its process's, and gives milliseconds of it.
    parts, noise = now * PARTS // 1000, os.urandom(8 * len(deliveries))
    entries = [
        {**_entry(one), "id": _entry_id(parts + index, noise[8 * index : 8 * index + 8])}
        for index, one in enumerate(deliveries)
    ]
    return _SQLITE, {"entries": orjson.dumps(entries).decode(), "now": now}


def _entry(delivery: Delivery) -> dict[str, Any]:
    payload = delivery.payload
    return {
        "outgoing_id": delivery.id,
        "notification_id": delivery.notification_id,
        "recipient": delivery.recipient,
        "type": delivery.type,
        "title": payload.get("title"),
        "body": payload.get("body"),
        "data": payload.get("data"),
        "link": payload.get("link"),
        "options": payload.get("options"),
    }


def _entry_id(parts: int, noise: bytes) -> UUID:
    """The same id as PostgreSQL makes, from this process's clock. ``noise`` is 8 random bytes."""
    millis, part = divmod(parts, PARTS)
    random = int.from_bytes(noise) >> 2 | 0b10 << 62
    return UUID(int=millis << 80 | 0x7 << 76 | part << 64 | random)
