"""A session that lives in another time zone sees the same moments."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from sendoff.policy import Transition
from sendoff.store import Store
from sendoff.store.tidy import expire
from sendoff.types import to_micros
from sendoff.verdict import Retryable
from tests.support.rows import change, claim, claim_one, load, look, now, opened, pass_time, put_one, settle


@pytest.fixture(params=["Asia/Kolkata", "America/St_Johns"])
def away(postgres_url: str, request: pytest.FixtureRequest) -> Iterator[Store]:
    """The store of an application whose sessions are half an hour off."""
    url = make_url(postgres_url).update_query_dict({"options": f"-c timezone={request.param}"}, append=True)
    with opened(url.render_as_string(hide_password=False)) as store:
        assert store.read(lambda connection: connection.scalar(sa.text("SHOW timezone"))) == request.param
        yield store


def test_the_clock_is_the_same(away: Store, postgres_url: str) -> None:
    with opened(postgres_url) as store:
        assert abs(now(store) - now(away)) < timedelta(minutes=5)


def test_due_times_are_right(away: Store) -> None:
    due = now(away) + timedelta(hours=3)
    id = put_one(away, not_before=to_micros(due), ttl=60.0)
    assert (due, due, due + timedelta(seconds=60)) == look(away, id, "due_at", "next_attempt_at", "expires_at")
    assert claim(away) == []
    change(away, id, next_attempt_at=now(away))
    row = claim_one(away)
    assert due.timestamp() == pytest.approx(row.first_due_at, abs=1e-5)
    assert row.expires_in == pytest.approx(3 * 3600 + 60, abs=60)
    assert load(away, id)["created_at"] == row.created_at
    assert row.created_at.utcoffset() == timedelta(0)


def test_a_retry_and_a_lease_end_at_the_right_time(away: Store) -> None:
    id = put_one(away)
    before = now(away)
    row = claim_one(away, lease=60.0)
    [until] = look(away, id, "claimed_until")
    assert before + timedelta(seconds=60) <= until <= now(away) + timedelta(seconds=60)
    settle(away, row, Transition.retry(Retryable("busy"), 30.0))
    [due] = look(away, id, "due_at")
    assert before + timedelta(seconds=30) <= due <= now(away) + timedelta(seconds=30)
    assert due.tzinfo is UTC


def test_expiry_is_at_the_right_time(away: Store) -> None:
    put_one(away, expires_at=to_micros(now(away) + timedelta(minutes=10)))
    assert away.run(expire) == 0
    pass_time(away, 601)
    assert away.run(expire) == 1
