"""What can come of one request: an answer, or one of four ways of having none."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

__all__ = ["LONGEST_ANSWER", "Answer", "BusyError", "MaybeSentError", "NotTakenError", "UnreachableError"]

#: An answer of FCM has a few hundred bytes; of whatever else answers, more than this tells nothing.
LONGEST_ANSWER = 65_536


class BusyError(Exception):
    """Every connection was taken until the time was over. Nothing was sent."""


class UnreachableError(Exception):
    """Nobody was there to take the request: refused, no such name, no route, no TLS. Nothing was sent."""


class NotTakenError(Exception):
    """The server says that it did not look at the request (RFC 9113 sections 6.8 and 8.7). It was not processed."""


class MaybeSentError(Exception):
    """The request was written, or part of it, and no answer came: FCM may have accepted the message."""


@frozen(eq=False)
class Answer:
    """What came back. Header names are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes
