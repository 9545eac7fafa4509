"""The answers by name: :data:`CASES`, and what a token's name asks for: :func:`asked_by_name`.

Bodies are as the public FCM reference, its error examples and bug reports about client libraries show them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from attrs import evolve, frozen

from sendoff_fcm.testing.answers import Answer, Fault, error, html, json_answer
from sendoff_fcm.testing.details import error_info, fcm_error, quota_failure, retry_info, violation

__all__ = ["ACCEPTED", "CASES", "NAMES", "UNAVAILABLE", "Case", "answer_of", "asked_by_name", "case"]

Reach = Literal["token", "server", "oauth", "client"]


@frozen
class Case:
    """What a name stands for.

    ``reach``: ``token``: an answer to one request. ``server``: nothing is listening, for anyone. ``oauth``: the answer
    of the token endpoint. ``client``: goes wrong before anything is sent, so a server has no part in it.
    """

    name: str
    reach: Reach
    answer: Answer | None = None


ACCEPTED: Final = Answer(case="accepted", accept=True)
UNAVAILABLE: Final = error(
    503, "UNAVAILABLE", "The service is currently unavailable.", fcm_error("UNAVAILABLE"), case="server overloaded"
)
_INVALID: Final = "Request contains an invalid argument."
_INVALID_TOKEN: Final = "The registration token is not a valid FCM registration token"  # noqa: S105 - a text
_TOO_BIG: Final = "Android message is too big"
_DATA: Final = "Invalid value at 'message.data[0].value' (TYPE_STRING), 12"
_QUOTA: Final = (
    "Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute' of service "
    "'fcm.googleapis.com' for consumer 'project_number:1'."
)
_CREDENTIAL: Final = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project."
)
_DENIED: Final = (
    "Permission 'cloudmessaging.messages.create' denied on resource "
    "'//cloudresourcemanager.googleapis.com/projects/local' (or it may not exist)."
)

_ANSWERS: Final = {
    "app uninstalled / token expired": error(
        404, "NOT_FOUND", "Requested entity was not found.", fcm_error("UNREGISTERED")
    ),
    "404 without FcmError detail": error(404, "NOT_FOUND", "Requested entity was not found."),
    "malformed token": error(
        400,
        "INVALID_ARGUMENT",
        _INVALID,
        fcm_error("INVALID_ARGUMENT"),
        violation("message.token", "Invalid registration token"),
    ),
    "malformed token (message text only)": error(
        400, "INVALID_ARGUMENT", _INVALID_TOKEN, fcm_error("INVALID_ARGUMENT")
    ),
    "bad payload value": error(400, "INVALID_ARGUMENT", _DATA, violation("message.data[0].value", _DATA)),
    "payload too big, no details": error(400, "INVALID_ARGUMENT", _INVALID),
    "payload too big, text": error(400, "INVALID_ARGUMENT", _TOO_BIG, fcm_error("INVALID_ARGUMENT")),
    "token of another project": error(403, "PERMISSION_DENIED", "SenderId mismatch", fcm_error("SENDER_ID_MISMATCH")),
    "IAM permission missing": error(
        403,
        "PERMISSION_DENIED",
        _DENIED,
        error_info(
            "IAM_PERMISSION_DENIED",
            permission="cloudmessaging.messages.create",
            resource="//cloudresourcemanager.googleapis.com/projects/local",
        ),
    ),
    "our OAuth token rejected": error(
        401,
        "UNAUTHENTICATED",
        _CREDENTIAL,
        error_info("ACCESS_TOKEN_EXPIRED", service="fcm.googleapis.com"),
    ).with_headers(www_authenticate='Bearer realm="https://accounts.google.com/", error="invalid_token"'),
    "project quota": error(
        429,
        "RESOURCE_EXHAUSTED",
        _QUOTA,
        fcm_error("QUOTA_EXCEEDED"),
        quota_failure("project:local", "Send requests per minute"),
        retry_info(60),
    ).with_headers(retry_after=60),
    "server overloaded": UNAVAILABLE.with_headers(retry_after=30),
    "internal": error(500, "INTERNAL", "Internal error encountered.", fcm_error("INTERNAL")),
    "bad gateway HTML": html(502, "Server Error").with_headers(retry_after=30),
    "proxy 413": html(413, "Request Entity Too Large"),
    "read timeout (async)": Answer(fault=Fault.HANG, accept=True),
    "GOAWAY / RST_STREAM / peer closed (async)": Answer(fault=Fault.GOAWAY, accept=True),
    # Not in the table of the public errors, and seen: what a sender must survive.
    "third party credential": error(
        401,
        "UNAUTHENTICATED",
        "Auth error from APNS or Web Push Service",
        fcm_error("THIRD_PARTY_AUTH_ERROR"),
    ),
    "html with 200": html(200, "OK"),
    "error as text": json_answer(200, {"error": "text"}),
    "error as text 400": json_answer(400, {"error": "text"}),
    "truncated JSON": Answer(200, {"content-type": "application/json"}, b'{"name": "projects/local/mess'),
    "truncated JSON 503": Answer(503, {"content-type": "application/json"}, b'{"error": {"code": 503, "det'),
    "not UTF-8": Answer(200, {"content-type": "application/json"}, b'{"name": "\xff\xfe"}'),
    "not UTF-8 400": Answer(400, {"content-type": "application/json"}, b'{"error": {"message": "\xff\xfe"}}'),
    "empty 200": Answer(200),
    "list 200": json_answer(200, [1, 2]),
}


def _cases() -> dict[str, Case]:
    named = {"accepted": Case("accepted", "token", ACCEPTED)}
    for name, answer in _ANSWERS.items():
        named[name] = Case(name, "token", evolve(answer, case=name))
    for fault in Fault:
        if fault is not Fault.DROP_UNREAD:
            named[fault.value] = Case(fault.value, "token", Answer(fault=fault, accept=True, case=fault.value))
    named["connection refused / DNS"] = Case("connection refused / DNS", "server")
    named["token endpoint invalid_grant"] = Case("token endpoint invalid_grant", "oauth")
    for name in ("no credentials", "invalid message object"):
        named[name] = Case(name, "client")
    return named


#: Every case by name: those of the verdict table, each :class:`Fault` by its value, and answers that no table lists.
CASES: Final[Mapping[str, Case]] = _cases()


def answer_of(spec: str | Answer | Fault) -> Answer:
    """The answer that ``spec`` names; :class:`ValueError` for a name that is none of :data:`CASES`, or no answer."""
    if isinstance(spec, Fault):
        return Answer(fault=spec, accept=True, case=spec.value)
    if isinstance(spec, Answer):
        return spec
    found = CASES.get(spec)
    if found is None:
        raise ValueError(f"no case is called {spec!r}; there are: {', '.join(CASES)}")
    if found.answer is None:
        raise ValueError(f"the case {spec!r} is not an answer to one request (it is about the {found.reach})")
    return found.answer


def case(name: str, *, retry_after: str | float | None = None, delay: float = 0.0) -> Answer:
    """The named answer, with another ``Retry-After`` (seconds or an HTTP date) or after ``delay`` seconds."""
    answer = answer_of(name)
    if retry_after is not None:
        answer = answer.with_headers(retry_after=retry_after)
    return answer.after(delay)


#: What the beginning of a token's name asks for, where no rule is set: a demo in another process needs no control
#: channel. ``slow-250-...`` waits 250 ms (1 s without a number), ``quota-7200-...`` says Retry-After 7200 (60
#: without), ``flaky-...`` gets 503 the first time and is accepted from then on.
NAMES: Final[Mapping[str, str]] = {
    "dead": "app uninstalled / token expired",
    "malformed": "malformed token",
    "foreign": "token of another project",
    "toobig": "payload too big, text",
    "quota": "project quota",
    "busy": "server overloaded",
    "flaky": "server overloaded",
    "broken": "internal",
    "gateway": "bad gateway HTML",
    "hang": "hang",
    "drop": "drop",
    "reset": "rst_stream",
    "goaway": "goaway",
    "slow": "accepted",
}
_NAME: Final = re.compile(rf"({'|'.join(NAMES)})-(?:(\d{{1,7}})-)?")


def asked_by_name(token: str, before: int) -> Answer:
    """What the name of ``token`` asks for; ``before``: how many requests it has had already."""
    match = _NAME.match(token)
    if match is None:
        return ACCEPTED
    kind, number = match.groups()
    answer = answer_of(NAMES[kind])
    if kind == "slow":
        return answer.after(int(number) / 1000 if number else 1.0)
    if kind == "quota" and number:
        return answer.with_headers(retry_after=number)
    if kind == "flaky" and before:
        return ACCEPTED
    return answer
