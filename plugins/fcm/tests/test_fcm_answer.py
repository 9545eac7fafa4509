"""Every answer has a verdict, and only an answer about the token costs a token."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendoff.plugin import NoTarget, Outage, Permanent, Retryable, Sent, Verdict
from sendoff_fcm.answer import DEAD_CODES, read_answer

FCM = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD = "type.googleapis.com/google.rpc.BadRequest"


def error(text: str = "", *, status: str = "", code: str | None = None, fields: list[str] | None = None) -> bytes:
    details: list[dict[str, Any]] = []
    if code is not None:
        details.append({"@type": FCM, "errorCode": code})
    if fields is not None:
        details.append({"@type": BAD, "fieldViolations": [{"field": name, "description": ""} for name in fields]})
    body: dict[str, Any] = {"code": 0, "message": text, "status": status}
    return json.dumps({"error": {**body, "details": details} if details else body}).encode()


INVALID_TOKEN = "The registration token is not a valid FCM registration token"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b'{"name": "projects/p/messages/1"}', Sent),
        (200, b"<html>log in to the hotel's network</html>", Retryable),
        (200, b'{"error": "text"}', Retryable),
        (200, b"\xff\xfe", Retryable),
        (204, b"", Retryable),
        (404, error(code="UNREGISTERED"), NoTarget),
        (404, error("Requested entity was not found.", status="NOT_FOUND"), Outage),
        (404, b"<html>", Outage),
        (410, error(code="UNREGISTERED"), Outage),
        (400, error(code="INVALID_ARGUMENT", fields=["message.token"]), NoTarget),
        (400, error(fields=["message.fid"]), NoTarget),
        (400, error(INVALID_TOKEN, code="INVALID_ARGUMENT"), NoTarget),
        (400, error(INVALID_TOKEN), Permanent),
        (400, error(INVALID_TOKEN, code="INVALID_ARGUMENT", fields=["message.data[0].value"]), Permanent),
        (400, error(fields=["message.token", "message.data[0].value"]), Permanent),
        (400, error(fields=["message.data[0].value"]), Permanent),
        (400, error(code="UNREGISTERED"), Permanent),
        (400, error("Android message is too big", code="INVALID_ARGUMENT"), Permanent),
        (400, error("Request contains an invalid argument.", status="INVALID_ARGUMENT"), Permanent),
        (400, b"{", Permanent),
        (413, b"<html>", Permanent),
        (422, b"", Permanent),
        (403, error(code="SENDER_ID_MISMATCH"), NoTarget),
        (403, error(status="PERMISSION_DENIED"), Outage),
        (401, error(status="UNAUTHENTICATED"), Outage),
        (401, error(code="THIRD_PARTY_AUTH_ERROR"), Retryable),
        (302, b"", Outage),
        (429, error(code="QUOTA_EXCEEDED"), Retryable),
        (500, error(code="INTERNAL"), Retryable),
        (500, error(code="UNREGISTERED"), Retryable),
        (502, b"<html>", Retryable),
        (503, error(code="UNAVAILABLE"), Retryable),
        (0, b"", Retryable),
    ],
)
def test_an_answer_and_its_verdict(status: int, body: bytes, expected: type[Verdict]) -> None:
    assert expected is type(read_answer(status, {}, body))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_speaks_about_the_provider_costs_no_budget(status: int) -> None:
    verdict = read_answer(status, {"retry-after": "7200"}, b"")
    assert isinstance(verdict, Retryable)
    assert (False, timedelta(hours=2), False) == (verdict.counts, verdict.retry_after, verdict.maybe_sent)


def test_a_quota_without_a_retry_after_waits_a_minute() -> None:
    verdicts = [read_answer(429, headers, b"") for headers in ({}, {"Retry-After": "0"}, {"Retry-After": "soon"})]
    assert [60, 0, 60] == [
        one.retry_after.seconds for one in verdicts if isinstance(one, Retryable) and one.retry_after is not None
    ]


def test_a_strange_success_may_have_been_sent() -> None:
    verdict = read_answer(200, {}, b"<html>")
    assert isinstance(verdict, Retryable)
    assert (True, True) == (verdict.maybe_sent, verdict.counts)


def test_reasons_say_code_fields_and_text() -> None:
    verdict = read_answer(400, {}, error("Invalid value", code="INVALID_ARGUMENT", fields=["message.data[0].value"]))
    assert Permanent("HTTP 400 INVALID_ARGUMENT (message.data[0].value): Invalid value") == verdict


# ------------------------------------------------------------------------------------------------------ any answer

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
#: Bodies that look like FCM's, with anything in any place.
details = st.lists(
    json_values
    | st.fixed_dictionaries(
        {"@type": st.sampled_from([FCM, BAD]) | json_values},
        optional={
            "errorCode": st.sampled_from([*DEAD_CODES, "QUOTA_EXCEEDED", "THIRD_PARTY_AUTH_ERROR"]) | json_values,
            "fieldViolations": st.lists(
                json_values
                | st.fixed_dictionaries({"field": st.sampled_from(["message.token", "message.data"]) | json_values})
            )
            | json_values,
        },
    ),
    max_size=4,
)
errors = st.fixed_dictionaries(
    {},
    optional={
        "message": st.sampled_from([INVALID_TOKEN, "Request contains an invalid argument."]) | json_values,
        "status": json_values,
        "details": details | json_values,
    },
)
bodies = st.binary() | st.builds(
    lambda content: json.dumps(content).encode(), json_values | st.fixed_dictionaries({"error": errors | json_values})
)
statuses = st.integers(-1, 999) | st.sampled_from([200, 400, 401, 403, 404, 413, 429, 500, 503])
headers = st.dictionaries(st.sampled_from(["retry-after", "date", "x"]), st.text())


@given(statuses, headers, bodies)
def test_any_answer_has_a_verdict(status: int, given_headers: dict[str, str], body: bytes) -> None:
    verdict = read_answer(status, given_headers, body)
    assert isinstance(verdict, Sent | NoTarget | Retryable | Permanent | Outage)
    if isinstance(verdict, NoTarget):
        assert verdict.details is not None
        assert verdict.details["code"] in DEAD_CODES
    if isinstance(verdict, Sent):
        assert 200 <= status < 300


@given(bodies)
def test_no_400_costs_a_token_that_it_does_not_blame(body: bytes) -> None:
    verdict = read_answer(400, {}, body)
    assert isinstance(verdict, NoTarget | Permanent)
    if isinstance(verdict, NoTarget):
        found = json.loads(body)["error"]
        violations = [
            one
            for detail in found["details"]
            if isinstance(detail, dict)
            and detail.get("@type") == BAD
            and isinstance(detail.get("fieldViolations"), list)
            for one in detail["fieldViolations"]
        ]
        if violations:
            assert {"message.token"} == {one["field"] for one in violations}
        else:
            assert INVALID_TOKEN == found["message"]
