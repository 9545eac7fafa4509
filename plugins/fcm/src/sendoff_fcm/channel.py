"""The push channel: one request for each of the recipient's devices, one verdict for the row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary

import orjson
from attrs import define
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from sendoff.plugin import (
    Channel,
    Context,
    Delivery,
    Limits,
    NoTarget,
    Notification,
    Outage,
    Permanent,
    Retryable,
    Sent,
    Verdict,
)
from sendoff_fcm import devices
from sendoff_fcm.access import (
    NO_CREDENTIAL,
    Access,
    AccessError,
    AccessTokens,
    Account,
    load_account,
    may_have_defaults,
)
from sendoff_fcm.address import address_problem, target
from sendoff_fcm.answer import read_answer
from sendoff_fcm.combine import Memo, combine
from sendoff_fcm.config import FcmConfig
from sendoff_fcm.content import prepared
from sendoff_fcm.deadrun import DeadRun
from sendoff_fcm.message import MAX_TTL, Facts, build
from sendoff_fcm.retirement import Retirement

if TYPE_CHECKING:
    import ssl

    from sendoff_fcm.wire import Wire

__all__ = ["FcmChannel"]

#: Seconds of a delivery that are kept back for what follows the answer: writing dead devices, the verdict itself.
KEPT_BACK = 1.0
#: With less left, trying is not worth the risk of an answer that nobody waits for.
SHORTEST_TRY = 1.0
AGENT = "sendoff-fcm"


@define(eq=False)
class _Loop:
    """What belongs to one event loop."""

    wire: Wire
    retirement: Retirement


class FcmChannel(Channel):
    """Sends through Firebase Cloud Messaging. The first message loads the SDK, the credential and the wire."""

    needs_address = True
    #: The recipient without a phone has the inbox copy: nothing to look into.
    on_no_target = "sent"
    limits = Limits(concurrency=150)

    def __init__(self, name: str, config: FcmConfig, context: Context) -> None:
        self.name = name
        self.config = config
        self._context = context
        self.tokens = AccessTokens(self._load, timeout=config.token_timeout, forget=self._forget)
        self._dead_run = DeadRun(config.dead_limit)
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()
        self._tls: ssl.SSLContext | None = None

    # -- at enqueue ------------------------------------------------------------------------------------------------

    def prepare(self, notification: Notification) -> dict[str, Any]:
        """Title, body, data and ``options.<name>``, checked and measured; see :func:`.content.prepared`."""
        return prepared(notification, self.name, truncate=self.config.overflow == "truncate")

    # -- in a worker -----------------------------------------------------------------------------------------------

    def addresses(self, recipients: Sequence[str], connection: Connection) -> Mapping[str, Sequence[str]]:
        """The active devices; one query for the batch."""
        return devices.active_addresses(recipients, connection, app=self.config.app)

    async def start(self) -> None:
        """Load Firebase and the credential before there is anything to hold up: importing the one and reading the key
        of the other keep the interpreter to themselves for up to 100 ms, in whatever thread. Where the channel is not
        set up, nothing is loaded until a message wants it."""
        if self.config.credentials is not None or may_have_defaults():
            await asyncio.to_thread(self.tokens.preload)

    async def stop(self) -> None:
        """Close this loop's connections, after what is still to be written about devices."""
        mine = self._loops.pop(asyncio.get_running_loop(), None)
        if mine is not None:
            await mine.retirement.close()
            await mine.wire.close()

    async def send(self, delivery: Delivery) -> Verdict:
        """Ask FCM once for each device that has not answered for good in an earlier try."""
        ends = time.monotonic() + min(self.config.timeout, delivery.remaining() - KEPT_BACK)
        memo = Memo.read(delivery.progress)
        addresses = memo.open(delivery.addresses)
        try:
            access = await self.tokens.get(_left(ends))
            mine = self._mine()
            message = build(delivery.payload, facts(delivery))
        except AccessError as error:
            return Outage(error.reason)
        except ValueError as error:
            return Permanent(f"Firebase's SDK refuses the message: {error}")
        posts = [self._post(mine.wire, access, message, address, ends) for address in addresses]
        verdicts = [await posts[0]] if len(posts) == 1 else await asyncio.gather(*posts)
        results = list(zip(addresses, verdicts, strict=True))
        results = await self._bury(mine.retirement, results, delivery)
        if any(_blames_us(verdict) for _, verdict in results):
            # Read afresh before the next try: a credential that was exchanged works without a restart.
            self.tokens.reject(access.token)
        return combine(results, self.config.success, memo)

    async def _post(self, wire: Wire, access: Access, message: Mapping[str, Any], address: str, ends: float) -> Verdict:
        from sendoff_fcm.replies import BusyError, MaybeSentError, NotTakenError, UnreachableError

        problem = address_problem(address)
        if problem is not None:
            # An application's own look-up may give anything.
            return Permanent(f"not an address: it {problem}")
        if _left(ends) < SHORTEST_TRY:
            return Retryable("no time was left for a request", counts=False)
        try:
            answer = await wire.post(
                send_path(self.config.endpoint, access.project_id),
                request_headers(access),
                request_body(message, address, dry_run=self.config.dry_run),
                _left(ends),
            )
        except (BusyError, NotTakenError) as error:
            return Retryable(str(error), counts=False)
        except UnreachableError as error:
            return Outage(f"FCM cannot be reached: {error}")
        except MaybeSentError as error:
            return Retryable(str(error), maybe_sent=True)
        return read_answer(answer.status, answer.headers, answer.body)

    async def _bury(
        self, retirement: Retirement, results: list[tuple[str, Verdict]], delivery: Delivery
    ) -> list[tuple[str, Verdict]]:
        """Deactivate dead devices; where too many in a row are dead, it is not the devices."""
        answers: list[tuple[str, str | None]] = []
        for address, verdict in results:
            if isinstance(verdict, NoTarget):
                answers.append((target(address)[1], str((verdict.details or {}).get("code", "UNREGISTERED"))))
            elif isinstance(verdict, Sent):
                answers.append((target(address)[1], None))
        step = self._dead_run.see(answers)
        await retirement.note(step.deactivate, step.restore, min(5.0, delivery.remaining()))
        if not step.tripped:
            return results
        outage = (
            f"{self.config.dead_limit} devices in a row are dead and none between accepted: is it the right project? "
            "Their devices stay active. The last answer: "
        )
        return [
            (
                address,
                Outage(outage + verdict.reason, details=verdict.details) if isinstance(verdict, NoTarget) else verdict,
            )
            for address, verdict in results
        ]

    def _mine(self) -> _Loop:
        """This loop's connections. Everything heavy was loaded with the access token, in its thread."""
        loop = asyncio.get_running_loop()
        mine = self._loops.get(loop)
        if mine is None:
            from sendoff_fcm.wire import Wire

            config = self.config
            wire = Wire(config.endpoint, connections=config.connections, http2=config.http2, context=self._tls)
            mine = self._loops[loop] = _Loop(wire, Retirement(self._context.transaction))
        return mine

    # -- credentials -----------------------------------------------------------------------------------------------

    def _load(self) -> Account:
        """In the token's thread."""
        self._import()
        return load_account(self.config)

    def _import(self) -> None:
        """All that messages and the wire need, the certificate authorities among it; never on the loop."""
        from firebase_admin import messaging  # type: ignore[import-untyped]  # noqa: F401  # untyped; loaded here only

        from sendoff_fcm.wire import tls_context

        if self._tls is None and self.config.endpoint.startswith("https:"):
            self._tls = tls_context(http2=self.config.http2)

    def _forget(self) -> None:
        if self.config.credentials is not None:
            self.config.credentials.forget()

    def check(self) -> str | None:
        """Whether credential and table can be read; ``sendoff fcm check`` also asks Google."""
        if self.config.credentials is None and not may_have_defaults():
            return NO_CREDENTIAL
        try:
            load_account(self.config)
        except AccessError as error:
            return error.reason
        finally:
            self._forget()
        try:
            with self._context.transaction() as connection:
                devices.list(None, connection, limit=1)
        except SQLAlchemyError as error:
            return f"the table sendoff_device cannot be read ({type(error).__name__}); `sendoff migrate` makes it"
        return None


def _blames_us(verdict: Verdict) -> bool:
    """Whether FCM itself, and not the way to it, says that something of ours is wrong."""
    return isinstance(verdict, Outage) and bool(verdict.details)


def _left(ends: float) -> float:
    return max(0.0, ends - time.monotonic())


def facts(delivery: Delivery) -> Facts:
    """What the row adds to its content, now.

    Apple wants the moment of expiry, and a delivery knows the time that is left, by the database's clock: the machine's
    clock turns one into the other, and is used for nothing else. Where it is wrong, the moment is wrong by as much.
    """
    ttl = delivery.ttl()
    left = None if ttl is None else min(int(ttl), MAX_TTL)
    return Facts(
        # The row's own key is used where it has none, so that a repeat replaces what it repeats.
        collapse_key=delivery.collapse_key or delivery.idempotency_key,
        notification_id=str(delivery.notification_id),
        outgoing_id=str(delivery.id),
        priority=delivery.priority,
        ttl=left,
        expires=None if left is None else int(time.time()) + left if left else 0,
    )


def send_path(endpoint: str, project_id: str) -> str:
    """Where messages of a project are sent, below the endpoint's host."""
    return f"{urlsplit(endpoint).path.rstrip('/')}/v1/projects/{quote(project_id, safe='')}/messages:send"


def request_headers(access: Access) -> dict[str, str]:
    """Of every request. Format version 2 makes FCM answer with ``error.details``."""
    return {
        "authorization": f"Bearer {access.token}",
        "content-type": "application/json; charset=UTF-8",
        "user-agent": AGENT,
        "x-goog-api-format-version": "2",
    }


def request_body(message: Mapping[str, Any], address: str, *, dry_run: bool) -> bytes:
    """The request for one device."""
    kind, token = target(address)
    body: dict[str, Any] = {"message": {**message, kind: token}}
    if dry_run:
        body["validate_only"] = True
    return orjson.dumps(body)
