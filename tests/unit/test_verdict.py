"""Verdicts, and how an HTTP answer becomes one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendoff.verdict import (
    RETRY_AFTER_CAP,
    NoTarget,
    Outage,
    Permanent,
    Retryable,
    Sent,
    Verdict,
    http_verdict,
    retry_after,
)

NOW = datetime(2026, 3, 29, 1, 0, 0, tzinfo=UTC)
MINUTES = timedelta(minutes=2)


# ------------------------------------------------------------------------------------------------- HTTP statuses


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_sent(status: int) -> None:
    assert Sent() == http_verdict(status, {}, "ok")


def test_410_says_that_the_address_is_gone() -> None:
    assert NoTarget("HTTP 410: unregistered") == http_verdict(410, {}, "unregistered")


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_the_providers_trouble_costs_no_budget(status: int) -> None:
    assert Retryable(f"HTTP {status}", retry_after=MINUTES, counts=False) == http_verdict(
        status, {"Retry-After": "120"}
    )


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405, 407, 301, 302, 304, 308])
def test_our_own_misconfiguration_is_an_outage(status: int) -> None:
    assert Outage(f"HTTP {status}: denied", retry_after=MINUTES) == http_verdict(
        status, {"retry-after": "120"}, "denied"
    )


@pytest.mark.parametrize("status", [400, 406, 409, 411, 413, 415, 422, 451, 499])
def test_any_other_4xx_is_this_messages_fault(status: int) -> None:
    assert Permanent(f"HTTP {status}: too long") == http_verdict(status, None, "too long")


@pytest.mark.parametrize("status", [0, 100, 102, -1])
def test_what_is_no_final_status_may_have_been_sent(status: int) -> None:
    assert Retryable(f"HTTP {status}: not an HTTP status", maybe_sent=True) == http_verdict(status)


@given(st.integers(-1000, 2000), st.text())
def test_every_status_has_a_verdict(status: int, text: str) -> None:
    assert isinstance(http_verdict(status, {}, text), Verdict)


def test_the_answers_text_is_quoted_on_one_line_and_cut() -> None:
    verdict = http_verdict(400, {}, "bad\n\n  thing " + "x" * 500)
    assert isinstance(verdict, Permanent)
    assert verdict.reason == "HTTP 400: bad thing " + "x" * 190


# --------------------------------------------------------------------------------------------------- Retry-After


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("120", MINUTES),
        (" 120 ", MINUTES),
        ("0", timedelta()),
        ("86400", RETRY_AFTER_CAP),
        ("86401", RETRY_AFTER_CAP),
        ("9" * 11, RETRY_AFTER_CAP),
        ("9" * 400, RETRY_AFTER_CAP),
        ("-5", None),
        ("1.5", None),
        ("١٢٠", None),
        ("soon", None),
        ("", None),
        ("   ", None),
        ("NaN", None),
        ("Sun, 99 Mar 2026 01:02:00 GMT", None),
        ("Sun, 29 Mar 99999 01:02:00 GMT", None),
    ],
)
def test_seconds_are_read_and_the_rest_is_ignored(text: str, expected: timedelta | None) -> None:
    assert expected == retry_after({"Retry-After": text}, now=NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sun, 29 Mar 2026 01:02:00 GMT", MINUTES),
        ("Sun, 29 Mar 2026 03:02:00 +0200", MINUTES),
        ("Sun, 29 Mar 2026 01:02:00", MINUTES),  # naive: HTTP dates are UTC
        ("Sun, 29 Mar 2026 01:02:00 -0000", MINUTES),
        ("Sun, 29 Mar 2026 00:00:00 GMT", timedelta()),
        ("Sun, 29 Mar 2099 01:02:00 GMT", RETRY_AFTER_CAP),
    ],
)
def test_dates_are_read_and_capped(text: str, expected: timedelta) -> None:
    assert expected == retry_after({"RETRY-AFTER": text}, now=NOW)


def test_a_date_is_compared_with_the_answers_own_date() -> None:
    headers = {"Retry-After": "Sun, 29 Mar 2026 01:02:00 GMT", "Date": "Sun, 29 Mar 2026 01:00:00 GMT"}
    assert retry_after(headers) == MINUTES


def test_a_date_without_anything_to_compare_it_with_says_nothing() -> None:
    assert retry_after({"Retry-After": "Sun, 29 Mar 2026 01:02:00 GMT"}) is None
    assert retry_after({"Retry-After": "Sun, 29 Mar 2026 01:02:00 GMT", "Date": "?"}) is None


def test_a_naive_now_is_taken_as_utc() -> None:
    headers = {"Retry-After": "Sun, 29 Mar 2026 01:02:00 GMT"}
    assert retry_after(headers, now=NOW.replace(tzinfo=None)) == MINUTES


def test_no_header_says_nothing() -> None:
    assert retry_after({}) is None


@given(st.text(), st.text())
def test_any_text_is_a_span_within_bounds_or_nothing(text: str, date: str) -> None:
    found = retry_after({"Retry-After": text, "Date": date})
    assert found is None or timedelta() <= found <= RETRY_AFTER_CAP


# --------------------------------------------------------------------------------- what plugins put into verdicts


def test_seconds_are_welcome_as_retry_after() -> None:
    assert Retryable("busy", retry_after=MINUTES) == Retryable("busy", retry_after=120)
    assert Outage("down", retry_after=MINUTES) == Outage("down", retry_after=120.0)


@pytest.mark.parametrize("kind", [NoTarget, Retryable, Permanent, Outage])
def test_a_reason_is_text_whatever_the_channel_gave(kind: type[NoTarget]) -> None:
    error = ValueError("no such user")
    assert kind("no such user") == kind(error)  # type: ignore[arg-type]  # what a careless channel passes


def test_a_reason_that_cannot_be_told_is_named_by_its_kind() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert Permanent("Mute") == Permanent(Mute())  # type: ignore[arg-type]  # what a careless channel passes


@pytest.mark.parametrize("kind", [Sent, NoTarget, Retryable, Permanent, Outage])
def test_details_that_are_no_mapping_are_kept_as_one(kind: type[NoTarget]) -> None:
    verdict = kind("x", details="202 Accepted")  # type: ignore[arg-type]  # what a careless channel passes
    assert verdict.details == {"value": "202 Accepted"}


def test_counts_and_maybe_sent_are_truth_values() -> None:
    verdict = Retryable("busy", counts=None, maybe_sent="yes")
    assert (False, True) == (verdict.counts, verdict.maybe_sent)
