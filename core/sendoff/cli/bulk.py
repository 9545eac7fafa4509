"""Many notifications from JSON lines, in batches, each rejected line named by its number."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

from sendoff.cli.failure import Failed, fail, one_line
from sendoff.cli.options import Cli
from sendoff.cli.output import print_json, progress, unstructure
from sendoff.cli.text import count
from sendoff.errors import InvalidNotification, SendoffError
from sendoff.notification import Enqueued, Notification, Rejected

__all__ = ["BATCH", "enqueue_lines"]

#: What some editors put before the first line of UTF-8.
BOM = b"\xef\xbb\xbf"
#: Lines per transaction.
BATCH = 500


def enqueue_lines(cli: Cli, source: BinaryIO, defaults: Mapping[str, Any]) -> None:
    """Enqueue every line of ``source``, and print one answer for each with ``--json``, the sums otherwise.

    Each batch is one transaction, so memory does not grow with the input and an interruption keeps what is in.
    """
    from sendoff.cli.lines import parse_line

    outcomes: Counter[str] = Counter()
    numbered = ((number, line) for number, line in enumerate(source, 1) if line.strip())
    with progress(cli, "enqueueing") as shown:
        for batch in _batches(numbered):
            good: list[tuple[int, Notification]] = []
            answers: dict[int, Enqueued | Rejected] = {}
            for number, line in batch:
                try:
                    good.append((number, parse_line(line.removeprefix(BOM) if number == 1 else line, defaults)))
                except InvalidNotification as error:
                    answers[number] = Rejected(number, error.field, str(error))
            answers.update(_enqueue(cli, good, batch[0][0] if outcomes else None))
            for number in sorted(answers):
                outcomes.update(_told(cli, number, answers[number]))
            shown.set(outcomes["lines"])
    if not cli.as_json:
        from sendoff.cli.tables import Column, table

        names = ("created", "duplicate", "suppressed")
        table(
            [Column("lines", numeric=True), *(Column(name, numeric=True) for name in (*names, "rejected"))],
            [(outcomes["lines"], *(outcomes[name] for name in names), outcomes["rejected"])],
        )
    if outcomes["rejected"]:
        raise fail(f"{outcomes['rejected']} of {count(outcomes['lines'], 'line')} rejected; the others are in")


def _batches(lines: Iterable[tuple[int, bytes]]) -> Iterator[Sequence[tuple[int, bytes]]]:
    iterator = iter(lines)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def _enqueue(
    cli: Cli, good: Sequence[tuple[int, Notification]], resumes_at: int | None
) -> dict[int, Enqueued | Rejected]:
    if not good:
        return {}
    try:
        answers = cli.app().enqueue_many([notification for _, notification in good], None)
    except SendoffError as error:
        if resumes_at is None:
            raise
        # What is in stays in; whoever repairs the cause needs to know where to go on.
        raise Failed(f"stopped before line {resumes_at}; the lines above it are in: {error}") from error
    return {number: answer for (number, _), answer in zip(good, answers, strict=True)}


def _told(cli: Cli, number: int, answer: Enqueued | Rejected) -> Counter[str]:
    """Print what there is to say about one line; what it adds to the sums."""
    if isinstance(answer, Rejected):
        if not cli.as_json:
            print(f"sendoff: line {number}: {one_line(_reason(answer))}", file=sys.stderr)
        told: dict[str, Any] = {"line": number, "field": answer.field, "error": answer.error}
        sums = Counter(lines=1, rejected=1)
    else:
        told = {"line": number, **unstructure(answer)}
        sums = Counter(lines=1)
        sums.update(row.outcome for row in answer.rows)
    if cli.as_json:
        print_json(told)
    return sums


def _reason(answer: Rejected) -> str:
    return answer.error if answer.error.startswith(answer.field) else f"{answer.field}: {answer.error}"
