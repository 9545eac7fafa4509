"""Registering devices: what an application's own endpoints call.

::

    from sendoff_fcm import devices

    devices.register("u1", token, connection, platform="android", app="shop", installation="f3c...")

Every function runs in the caller's transaction, on an SQLAlchemy Connection or Session, or on a psycopg 3 or sqlite3
connection, and never commits. Clients register when they start, which also keeps ``last_seen_at``: FCM drops tokens
that have been silent for 270 days.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson
from attrs import frozen

from sendoff.plugin import InvalidNotification
from sendoff_fcm.address import FID, Kind, address_of, address_problem, token_problem
from sendoff_fcm.answer import DEAD_CODES
from sendoff_fcm.database import Executable, moment, run

__all__ = [
    "STALE",
    "Device",
    "active_addresses",
    "deactivate",
    "erase",
    "list",
    "prune_stale",
    "register",
    "restore",
    "unregister",
]

#: FCM expires tokens of devices that have not connected for so long (documentation, "Manage registration tokens").
STALE = timedelta(days=270)
MAX_TEXT = 512
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_COLUMNS = (
    "recipient, token, kind, platform, app, installation, active, deactivated_at, deactivated_reason, created_at, "
    "last_seen_at"
)


@frozen(kw_only=True)
class Device:
    """One registered device. Moments are UTC, by the database's clock."""

    recipient: str
    token: str
    kind: Kind
    platform: str | None
    app: str | None
    installation: str | None
    active: bool
    deactivated_at: datetime | None
    deactivated_reason: str | None
    created_at: datetime
    last_seen_at: datetime


def _device(row: Sequence[Any]) -> Device:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    for name in ("deactivated_at", "created_at", "last_seen_at"):
        values[name] = moment(values[name])
    return Device(**{**values, "active": bool(values["active"])})


#: Two tokens of one installation at once would not see each other, and both stay: the second waits for the first's
#: commit. On SQLite writers wait for each other anyway.
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended('sendoff_device ' || CAST(:installation AS text), 0))"
_RETIRE = """
    UPDATE sendoff_device SET active = false, deactivated_at = {now}, deactivated_reason = 'replaced'
    WHERE token IN (
        SELECT token FROM sendoff_device
        WHERE active AND installation = :installation AND token <> :token AND kind = :kind
          AND COALESCE(app, '') = COALESCE(CAST(:app AS text), '')
        ORDER BY token
    )
"""
_REGISTER = f"""
    INSERT INTO sendoff_device (token, recipient, kind, platform, app, installation, active, created_at, last_seen_at)
    VALUES (:token, :recipient, :kind, :platform, :app, :installation, true, {{now}}, {{now}})
    ON CONFLICT (token) DO UPDATE SET
        recipient = excluded.recipient,
        kind = excluded.kind,
        platform = COALESCE(excluded.platform, sendoff_device.platform),
        app = COALESCE(excluded.app, sendoff_device.app),
        installation = COALESCE(excluded.installation, sendoff_device.installation),
        active = true,
        deactivated_at = NULL,
        deactivated_reason = NULL,
        last_seen_at = excluded.last_seen_at
    RETURNING {_COLUMNS}
"""  # noqa: S608 - the columns are a constant of this file


def register(
    recipient: str,
    token: str,
    connection: Executable,
    *,
    platform: str | None = None,
    app: str | None = None,
    installation: str | None = None,
    kind: Kind = "token",
) -> Device:
    """A recipient's device is reached by this token from now on.

    A token belongs to whoever registered it last: a phone that changes hands takes its token along. Registering again
    reactivates it and renews ``last_seen_at``; what is not given this time stays. A new token of the same
    ``installation`` (of the same ``app``) retires the old one.

    :param token: a registration token, or with ``kind="fid"`` a Firebase installation id.
    :param platform: ``android``, ``ios``, ``web``, for people.
    :param installation: the client's own lasting id of this installation.
    :raises sendoff.InvalidNotification: naming what is not usable, before anything is written.
    """
    if kind not in ("token", "fid"):
        raise InvalidNotification("kind", 'must be "token" or "fid"', value=kind)
    problem = token_problem(token) or address_problem(address_of(token, kind))
    if problem is None and token.startswith(FID):
        problem = f'begins with {FID}, which is how addresses are written; give the id alone, with kind="fid"'
    if problem is not None:
        raise InvalidNotification("token", problem, value=token)
    values = {
        "recipient": _text("recipient", recipient),
        "token": token,
        "kind": kind,
        "platform": None if platform is None else _text("platform", platform),
        "app": None if app is None else _text("app", app),
        "installation": None if installation is None else _text("installation", installation),
    }
    if installation is not None:
        if _dialect(connection) == "postgresql":
            run(connection, _ONE_AT_A_TIME, {"installation": installation})
        run(connection, _RETIRE, {name: values[name] for name in ("installation", "token", "kind", "app")})
    [row] = run(connection, _REGISTER, values)
    return _device(row)


def unregister(token: str, connection: Executable, *, recipient: str | None = None) -> bool:
    """Send nothing to this device any more (a log-out). Whether there was such an active device.

    :param recipient: only when the token is still theirs: give it where a client says which token to drop.
    """
    if not (_is_storable(token) and (recipient is None or _is_storable(recipient))):
        return False
    mine = " AND recipient = :recipient" if recipient is not None else ""
    # A token that FCM called dead before takes this reason too: nobody may restore what its owner has dropped.
    rows = run(
        connection,
        f"""
        UPDATE sendoff_device SET active = false, deactivated_at = COALESCE(deactivated_at, {{now}}),
               deactivated_reason = 'unregistered'
        WHERE token = :token{mine} AND (active OR deactivated_reason <> 'unregistered')
        RETURNING token
        """,  # noqa: S608 - the condition is one of two constants
        {"token": token, **({"recipient": recipient} if recipient is not None else {})},
    )
    return bool(rows)


def list(  # noqa: A001 - the verb; read as devices.list
    recipient: str | None, connection: Executable, *, active: bool | None = None, limit: int = 1000
) -> builtins.list[Device]:
    """A recipient's devices, oldest first; with ``None`` everybody's. ``active``: only those that are, or are not."""
    if recipient is not None and not _is_storable(recipient):
        return []
    wanted = ["recipient = :recipient"] if recipient is not None else []
    if active is not None:
        wanted.append("active" if active else "NOT active")
    where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
    rows = run(
        connection,
        f"SELECT {_COLUMNS} FROM sendoff_device {where} ORDER BY created_at, token LIMIT :limit",  # noqa: S608 - constants
        {"limit": limit, **({"recipient": recipient} if recipient is not None else {})},
    )
    return [_device(row) for row in rows]


def prune_stale(connection: Executable, older_than: timedelta = STALE) -> int:
    """Deactivate devices that have not registered for so long, with the reason ``stale``. How many."""
    seconds = older_than.total_seconds()
    if seconds < 0:
        raise ValueError(f"older_than must not be negative (got {older_than})")
    # One statement for both: on SQLite moments are numbers of microseconds.
    span = {"postgresql": "make_interval(secs => :seconds)", "sqlite": "CAST(:seconds * 1000000 AS integer)"}
    sql = """
        UPDATE sendoff_device SET active = false, deactivated_at = {now}, deactivated_reason = 'stale'
        WHERE active AND last_seen_at < {now} - SPAN
        RETURNING token
    """.replace("SPAN", span[_dialect(connection)])
    return len(run(connection, sql, {"seconds": seconds}))


def erase(recipient: str, connection: Executable) -> int:
    """Forget a recipient: the one case in which devices are deleted. How many."""
    sql = "DELETE FROM sendoff_device WHERE recipient = :recipient RETURNING token"
    return len(run(connection, sql, {"recipient": recipient}))


# ------------------------------------------------------------------------------------------ for the channel, in batches

#: Among a list that comes as one JSON parameter: one statement whatever its length. On PostgreSQL as an array, or the
#: planner takes a few recipients for many and reads the whole table.
_AMONG = {
    "postgresql": "= ANY(ARRAY(SELECT json_array_elements_text(CAST(:items AS json))))",
    "sqlite": "IN (SELECT value FROM json_each(:items))",
}


def active_addresses(
    recipients: Sequence[str], connection: Executable, *, app: str | None = None
) -> dict[str, builtins.list[str]]:
    """The addresses of these recipients' active devices, oldest first; with ``app`` only of that app. One query."""
    mine = " AND app = :app" if app is not None else ""
    rows = run(
        connection,
        f"""
        SELECT recipient, token, kind FROM sendoff_device
        WHERE active AND recipient {_AMONG[_dialect(connection)]}{mine}
        ORDER BY recipient, created_at, token
        """,  # noqa: S608 - constants of this file
        {"items": orjson.dumps([*recipients]).decode(), **({"app": app} if app is not None else {})},
    )
    found: dict[str, builtins.list[str]] = {}
    for recipient, token, kind in rows:
        found.setdefault(recipient, []).append(address_of(token, kind))
    return found


def deactivate(codes: Mapping[str, str], connection: Executable) -> int:
    """Deactivate dead tokens, with FCM's code by token as the reason. How many were active."""
    pairs = orjson.dumps([[token, code] for token, code in sorted(codes.items())]).decode()
    each = {
        "postgresql": "SELECT value->>0 AS token, value->>1 AS code FROM json_array_elements(CAST(:pairs AS json))",
        "sqlite": "SELECT json_extract(value, '$[0]') AS token, json_extract(value, '$[1]') AS code "
        "FROM json_each(:pairs)",
    }[_dialect(connection)]
    sql = f"""
        WITH dead AS ({each})
        UPDATE sendoff_device SET active = false, deactivated_at = {{now}},
               deactivated_reason = (SELECT code FROM dead WHERE dead.token = sendoff_device.token)
        WHERE active AND token IN (SELECT token FROM dead)
        RETURNING token
    """  # noqa: S608 - constants of this file
    return len(run(connection, sql, {"pairs": pairs}))


def restore(tokens: Sequence[str], connection: Executable) -> int:
    """Activate tokens again that were deactivated because FCM called them dead, and for no other reason. How many.

    Not one whose installation has registered another since: that phone would get everything twice.
    """
    codes = ", ".join(f"'{code}'" for code in DEAD_CODES)
    sql = f"""
        UPDATE sendoff_device SET active = true, deactivated_at = NULL, deactivated_reason = NULL
        WHERE NOT active AND deactivated_reason IN ({codes}) AND token {_AMONG[_dialect(connection)]}
          AND NOT EXISTS (
              SELECT 1 FROM sendoff_device newer
              WHERE newer.active AND newer.installation = sendoff_device.installation
                AND newer.kind = sendoff_device.kind AND COALESCE(newer.app, '') = COALESCE(sendoff_device.app, '')
          )
        RETURNING token
    """  # noqa: S608 - constants of this package
    return len(run(connection, sql, {"items": orjson.dumps(sorted(tokens)).decode()}))


def _dialect(connection: Executable) -> str:
    module = type(connection).__module__
    if module.startswith(("sqlite3", "psycopg")):
        return "sqlite" if module.startswith("sqlite3") else "postgresql"
    bind = connection if hasattr(connection, "dialect") else connection.get_bind()
    name: str = bind.dialect.name
    return name


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidNotification(field, "must be text with something in it", value=value)
    if len(value) > MAX_TEXT or not _is_storable(value):
        problem = f"must be at most {MAX_TEXT} characters, no NUL or lone surrogate among them"
        raise InvalidNotification(field, problem, value=value)
    return value


def _is_storable(value: object) -> bool:
    """Whether it may be in the table at all: what neither database stores, no device has."""
    return isinstance(value, str) and not _UNSTORABLE.search(value)
