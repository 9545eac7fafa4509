"""What to answer to which token: :class:`Rules`."""

from __future__ import annotations

import threading
from collections import deque

from sendoff_fcm.testing.answers import Answer, Fault
from sendoff_fcm.testing.cases import ACCEPTED, asked_by_name

__all__ = ["Rules"]


class Rules:
    """Asked in this order: the next answers for whoever comes, the token's own, the one for all, the token's name.

    Changed by any thread, asked by the server's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: deque[Answer] = deque()
        self._of: dict[str, deque[Answer]] = {}
        self._everyone: Answer | None = None

    def set(self, token: str, answers: list[Answer]) -> None:
        """Used up in this order; the last one stays. No answers: the token has no rule any more."""
        if any(answer.fault is Fault.DROP_UNREAD for answer in answers):
            raise ValueError("drop_unread happens before the token is known: use answer_next")
        with self._lock:
            if answers:
                self._of[token] = deque(answers)
            else:
                self._of.pop(token, None)

    def set_next(self, answers: list[Answer]) -> None:
        """Appended: each is used once, for whichever request comes next."""
        with self._lock:
            self._next.extend(answers)

    def set_everyone(self, answer: Answer | None) -> None:
        """For every token without a rule of its own; None: the token's name decides again."""
        with self._lock:
            self._everyone = answer

    def clear(self) -> None:
        with self._lock:
            self._next.clear()
            self._of.clear()
            self._everyone = None

    def before_reading(self) -> bool:
        """Whether the next request is to be dropped unread; that uses the answer up."""
        if not self._next:
            return False
        with self._lock:
            if self._next and self._next[0].fault is Fault.DROP_UNREAD:
                self._next.popleft()
                return True
            return False

    def choose(self, token: str, before: int) -> Answer:
        """``before``: how many requests this token has had already."""
        with self._lock:
            if self._next:
                return self._next.popleft()
            if own := self._of.get(token):
                return own.popleft() if len(own) > 1 else own[0]
            if self._everyone is not None:
                return self._everyone
        return asked_by_name(token, before) if "-" in token else ACCEPTED
