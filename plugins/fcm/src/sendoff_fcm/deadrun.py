"""The mass guard: one dead token is news about a phone, a hundred in a row are news about us. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field, frozen

__all__ = ["LIMIT", "DeadRun", "Step"]

#: Dead tokens in a row, no success between them, that say that the project, the environment or the key is wrong.
LIMIT = 100


@frozen
class Step:
    """What to do about the answers just seen: tokens to deactivate, with the provider's code; tokens whose
    deactivation was a mistake of ours; and whether the run is long enough to be an outage."""

    deactivate: tuple[tuple[str, str], ...] = ()
    restore: tuple[str, ...] = ()
    tripped: bool = False


@define
class DeadRun:
    """Dead tokens since the last success, in one process.

    A dead token is deactivated at once. With the ``limit``-th in a row the run trips: what it deactivated is restored,
    and until something is accepted again nothing is deactivated and every dead token is an outage.
    """

    limit: int = LIMIT
    tripped: bool = False
    _run: dict[str, None] = field(factory=dict)

    def see(self, answers: Sequence[tuple[str, str | None]]) -> Step:
        """Answers in order: ``(token, code)`` for a dead one, ``(token, None)`` for one that was accepted.

        A token that is dead again counts once: a recipient who is tried often is still one phone.
        """
        deactivate: dict[str, str] = {}
        restore: tuple[str, ...] = ()
        for token, code in answers:
            if code is None:
                self._run.clear()
                self.tripped = False
            elif not self.tripped:
                self._run[token] = None
                deactivate[token] = code
                if len(self._run) >= self.limit:
                    restore = tuple(self._run)
                    self._run.clear()
                    self.tripped = True
        kept = tuple((token, code) for token, code in deactivate.items() if token not in restore)
        return Step(kept, restore, self.tripped)
