"""The base classes of channels. A channel says how it sends, and how it classifies what goes wrong."""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from sqlalchemy import Connection

from sendoff.jsonsafe import as_text
from sendoff.limits import Limits, Retry
from sendoff.notification import Delivery, Notification
from sendoff.verdict import Outage, Retryable, Sent, Verdict

__all__ = ["BatchChannel", "Channel", "classify_error"]


class Channel(abc.ABC):
    """One way to reach people. Subclass it, give it a ``name``, and write :meth:`send`.

    An instance belongs to one ``Sendoff`` and may be used by many sends at once. Nothing but :meth:`start`,
    :meth:`send` and :meth:`check` may need a secret, a network or a heavy import.
    """

    #: The name that notifications use, unique among loaded channels.
    name: str
    #: Limits per worker; ``[channels.NAME.limits]`` overrides them.
    limits: Limits = Limits()
    #: The retry schedule; ``[channels.NAME.retry]`` overrides it.
    retry: Retry = Retry()
    #: What a ``NoTarget`` makes of the row.
    on_no_target: Literal["sent", "dead"] = "dead"
    #: The notification's other channels wait for this one unless they say otherwise.
    leads: bool = False
    #: Retryable verdicts in a row, over at least 3 recipients, that open the breaker; None where every recipient
    #: has an endpoint of their own.
    trip_after: int | None = 20
    #: Without an address the row becomes ``NoTarget`` without a call.
    needs_address: bool = False
    #: Version of what ``prepare`` writes. Raise it when older code could not send the newer payload: a worker that
    #: meets a newer version than it knows releases the row for one that does.
    payload_version: ClassVar[int] = 1

    def prepare(self, notification: Notification) -> dict[str, Any]:
        """The JSON payload this channel will send, made at enqueue in the caller's process.

        Pure: no I/O, no clock, no secret; the same notification gives the same payload. Raise
        :class:`~sendoff.InvalidNotification` for what could never be sent.
        """
        content: dict[str, Any] = {"title": notification.title, "body": notification.body}
        payload = {key: value for key, value in content.items() if value is not None}
        if notification.data:
            payload["data"] = dict(notification.data)
        if self.name in notification.options:
            payload["options"] = dict(notification.options[self.name])
        return payload

    @abc.abstractmethod
    def send(self, delivery: Delivery) -> Verdict | None | Awaitable[Verdict | None]:
        """Send one delivery. ``async def`` runs on the worker's loop, ``def`` in a thread of the channel's own.

        None is ``Sent()``. Whatever is raised goes to :meth:`classify`.
        """

    def classify(self, error: Exception) -> Verdict:
        """The verdict on what :meth:`send` raised. Must be total: every exception gets one."""
        return classify_error(error)

    def addresses(self, recipients: Sequence[str], connection: Connection) -> Mapping[str, Sequence[str]] | None:
        """Where these recipients are reached: one query for the batch. None asks the ``sendoff_addresses`` hook."""
        return None

    async def start(self) -> None:
        """Called once on the worker's loop before the first send: open clients, reveal secrets."""

    async def stop(self) -> None:
        """Called once on the worker's loop after the last send."""

    def check(self) -> str | None:
        """For ``sendoff doctor``: None when the channel could send now, else what is wrong in one sentence."""
        return None


class BatchChannel(Channel):
    """A channel that sends many at once, in one call and often in one transaction or request."""

    @abc.abstractmethod
    def send_many(
        self, deliveries: Sequence[Delivery]
    ) -> Sequence[Verdict | None] | Awaitable[Sequence[Verdict | None]]:
        """Send them all; answer one verdict each, in order."""

    def send(self, delivery: Delivery) -> Verdict | None | Awaitable[Verdict | None]:
        """One delivery, as a batch of one."""
        answer = self.send_many([delivery])
        return _first(answer) if isinstance(answer, Awaitable) else answer[0]


async def _first(answer: Awaitable[Sequence[Verdict | None]]) -> Verdict | None:
    return (await answer)[0]


#: Class names of the connection-level failures that mean "not one byte of the request was processed".
_REFUSED = {"ConnectError", "ConnectTimeout", "ConnectionRefusedError", "gaierror", "NewConnectionError", "PoolTimeout"}
#: Failures after which the provider may have accepted the message all the same.
_MAYBE_SENT = {
    "ReadTimeout",
    "WriteTimeout",
    "ReadError",
    "WriteError",
    "RemoteProtocolError",
    "TimeoutError",
    "Timeout",
    "ConnectionResetError",
    "BrokenPipeError",
    "ConnectionAbortedError",
    "ConnectionError",
    "ChunkedEncodingError",
    "ProtocolError",
}
#: Failures of our own set-up, the same for every message.
_OURS = {"SSLCertVerificationError", "SecretError"}


def classify_error(error: BaseException) -> Verdict:
    """The default reading of an exception, by the class names of httpx, requests and the standard library.

    An exception wraps others (``__cause__``, ``__context__``, requests' ``args``): the innermost one that is known
    decides, because a refused connection inside a generic ``ConnectionError`` was never sent. Unknown errors are
    ``Retryable``, never lost.
    """
    chain = _chain(error)
    name, text = type(error).__name__, as_text(error)
    reason = name if text in {"", name} else f"{name}: {text}"
    names = [base.__name__ for link in chain for base in type(link).__mro__]
    if any(name in _OURS for name in names):
        return Outage(reason)
    if any(name in _REFUSED for name in names):
        return Retryable(reason, counts=False)
    return Retryable(reason, maybe_sent=any(name in _MAYBE_SENT for name in names))


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    todo: list[object] = [error]
    while todo:
        link = todo.pop()
        if not isinstance(link, BaseException) or any(link is seen for seen in found):
            continue
        found.append(link)
        todo.extend([link.__cause__, None if link.__suppress_context__ else link.__context__])
        todo.extend(link.args)
        todo.append(getattr(link, "reason", None))
    return found


_SENT = Sent()


def as_verdict(answer: object, *, what: str = "send()") -> Verdict:
    """What a channel returned as exactly one verdict: nonsense is ``Retryable``, because it may have been sent."""
    if answer is None:
        return _SENT
    if isinstance(answer, Verdict):
        return answer
    return Retryable(f"{what} returned {type(answer).__name__} instead of a verdict", maybe_sent=True)


def as_addresses(answer: object) -> dict[str, list[str]]:
    """What a look-up answered, by recipient. One text where a list belongs would be an address for each letter."""
    if not isinstance(answer, Mapping):
        raise TypeError(f"it must answer a mapping of recipients to lists (got {type(answer).__name__})")
    found: dict[str, list[str]] = {}
    for recipient, addresses in answer.items():
        if isinstance(addresses, str | bytes) or not isinstance(addresses, Iterable):
            raise TypeError(f"it must answer a list for each recipient (got {type(addresses).__name__})")
        found[recipient] = list(addresses)
        for address in found[recipient]:
            if not isinstance(address, str):
                raise TypeError(f"addresses must be text (got {type(address).__name__})")
    return found
