"""Bulk enqueueing: batches, defaults, and an honest word when it stops halfway."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from sendoff.cli.bulk import BATCH, enqueue_lines
from sendoff.cli.failure import Failed
from sendoff.cli.options import Cli
from sendoff.errors import StoreUnavailable
from sendoff.notification import Enqueued, EnqueuedRow, Notification

ID = UUID("01936d5e-0000-7000-8000-000000000001")


class App:
    """Takes batches until its database is away."""

    def __init__(self, takes: int = 1000) -> None:
        self.takes = takes
        self.batches: list[list[str]] = []

    def enqueue_many(self, notifications: Sequence[Notification], connection: None) -> list[Enqueued]:
        if len(self.batches) == self.takes:
            raise StoreUnavailable("the database is away")
        self.batches.append([notification.recipient for notification in notifications])
        return [Enqueued(ID, (EnqueuedRow("inbox", "created", ID),)) for _ in notifications]


class FakeCli(Cli):
    def __init__(self, app: App) -> None:
        super().__init__()
        self.fake = app

    def app(self, **_: Any) -> Any:
        return self.fake


def lines(count: int) -> io.BytesIO:
    return io.BytesIO(b"".join(b'{"recipient": "u%d"}\n' % number for number in range(1, count + 1)))


def test_lines_go_in_batches_of_bounded_size(capsys: pytest.CaptureFixture[str]) -> None:
    app = App()

    enqueue_lines(FakeCli(app), lines(2 * BATCH + 1), {"type": "t"})

    assert [len(batch) for batch in app.batches] == [BATCH, BATCH, 1]
    assert capsys.readouterr().out.splitlines()[1].split() == ["1,001", "1,001", "0", "0", "0"]


def test_a_database_that_goes_away_halfway_tells_where_to_go_on() -> None:
    with pytest.raises(Failed) as caught:
        enqueue_lines(FakeCli(App(takes=1)), lines(2 * BATCH), {"type": "t"})

    expected = f"stopped before line {BATCH + 1}; the lines above it are in: the database is away"
    assert caught.value.message == expected


def test_a_database_that_was_never_there_is_the_error_itself() -> None:
    with pytest.raises(StoreUnavailable, match=r"^the database is away$"):
        enqueue_lines(FakeCli(App(takes=0)), lines(3), {"type": "t"})


def test_a_byte_order_mark_is_not_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    app = App()

    enqueue_lines(FakeCli(app), io.BytesIO(b"\xef\xbb\xbf" + lines(1).read()), {"type": "t"})

    assert app.batches == [["u1"]]


def test_nothing_to_read_is_nothing_done(capsys: pytest.CaptureFixture[str]) -> None:
    enqueue_lines(FakeCli(App()), io.BytesIO(b"\n  \n"), {})

    assert capsys.readouterr().out.splitlines()[1].split() == ["0"] * 5
