"""What FCM's answer to one request means for the one device it was for. Pure and total: any status, any bytes.

The rules are those of the public documentation of the v1 API (error codes for HTTP v1, google.rpc.BadRequest) and what
was measured on the wire. They look at the HTTP status and at ``error.details[]``: ``FcmError.errorCode`` and
``BadRequest.fieldViolations[].field``. A text alone decides nothing, but for the one case below in which FCM says
nowhere else that a registration token is malformed.

====================================================  ==================================================================
answer                                                verdict
====================================================  ==================================================================
2xx with a ``name``                                   sent, the name is the provider's reference
2xx without one (HTML, nothing, not JSON)             retryable, maybe sent: something else answered, or broke off
404 ``UNREGISTERED``                                  no target: the app is gone, or the token has expired
400 whose violations all name the token               no target: malformed
400 ``INVALID_ARGUMENT``, no violation, that text     no target: malformed
403 ``SENDER_ID_MISMATCH``                            no target: a token of another project
any other 400, 413, any other 4xx that is the         permanent: the message's fault, the token stays
request's
404, 403, 401 and others of our set-up, redirects     outage: wrong project, missing permission, rejected credential
401 ``THIRD_PARTY_AUTH_ERROR``                        retryable, uncounted: our key at Apple or a browser's push service
                                                      is wrong; devices of the other platforms are still served
429                                                   retryable, uncounted, after ``Retry-After`` or a minute
408, 425, 5xx                                         retryable, uncounted, after ``Retry-After``
====================================================  ==================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import orjson
from attrs import frozen

from sendoff.plugin import NoTarget, Outage, Permanent, Retryable, Sent, Verdict, http_verdict, retry_after

__all__ = ["DEAD_CODES", "read_answer"]

#: The codes with which FCM says that a token is dead; the reason with which its device is deactivated.
DEAD_CODES = ("UNREGISTERED", "SENDER_ID_MISMATCH", "INVALID_ARGUMENT")
#: FCM's documentation on quotas: where 429 says no ``Retry-After``, wait a minute.
QUOTA_WAIT = timedelta(seconds=60)
#: Fields of the request that name the device.
TOKEN_FIELDS = frozenset({"message.token", "message.fid"})
FCM_ERROR = "google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "google.rpc.BadRequest"
#: What FCM writes where it gives no violation ("The registration token is not a valid FCM registration token").
_NOT_A_TOKEN = re.compile(
    r"\b(registration token|installation id)\b.{0,20}\b(is not (a )?valid|is invalid)\b", re.IGNORECASE
)
LONGEST_TEXT = 200


@frozen
class _Problem:
    """What an error body says, as far as it says it. ``violations`` are the names of the fields that are wrong."""

    status: str = ""
    text: str = ""
    fcm_code: str = ""
    violations: tuple[str, ...] = ()


def read_answer(status: int, headers: Mapping[str, str], body: bytes) -> Verdict:
    """The verdict on one device.

    A ``NoTarget`` has one of :data:`DEAD_CODES` as ``details["code"]``, an ``Outage`` the HTTP status as
    ``details["status"]``.
    """
    if 200 <= status < 300:
        return _accepted(status, body)
    problem = _problem(body)
    reason = _reason(status, problem, body)
    if status == 404 and problem.fcm_code == "UNREGISTERED":
        return NoTarget(reason, details={"code": "UNREGISTERED"})
    if status == 403 and problem.fcm_code == "SENDER_ID_MISMATCH":
        return NoTarget(reason, details={"code": "SENDER_ID_MISMATCH"})
    if status == 400:
        if _names_the_token(problem):
            return NoTarget(reason, details={"code": "INVALID_ARGUMENT"})
        return Permanent(reason)
    if status == 401 and problem.fcm_code in {"THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR"}:
        return Retryable(reason, counts=False, retry_after=retry_after(headers))
    if status == 429:
        wait = retry_after(headers)
        return Retryable(reason, counts=False, retry_after=QUOTA_WAIT if wait is None else wait)
    return _of_status(status, headers, reason)


def _of_status(status: int, headers: Mapping[str, str], reason: str) -> Verdict:
    """The core's reading of a status, with our words. 410 is no answer of FCM's: some other server speaks."""
    verdict = http_verdict(status, headers)
    if isinstance(verdict, NoTarget | Outage):
        return Outage(reason, retry_after=retry_after(headers), details={"status": status})
    if isinstance(verdict, Permanent):
        return Permanent(reason)
    if isinstance(verdict, Retryable):
        return Retryable(reason, retry_after=verdict.retry_after, counts=verdict.counts, maybe_sent=verdict.maybe_sent)
    return verdict


def _accepted(status: int, body: bytes) -> Verdict:
    content = _json(body)
    name = content.get("name") if isinstance(content, Mapping) else None
    if isinstance(name, str) and name:
        return Sent(provider_ref=name)
    return Retryable(f"HTTP {status} without a message name: {_quoted(body)}", maybe_sent=True)


def _names_the_token(problem: _Problem) -> bool:
    """Only an answer that blames the token, and nothing but the token, may cost a device its registration."""
    if problem.violations:
        return all(field in TOKEN_FIELDS for field in problem.violations)
    return problem.fcm_code == "INVALID_ARGUMENT" and _NOT_A_TOKEN.search(problem.text) is not None


def _problem(body: bytes) -> _Problem:
    content = _json(body)
    error = content.get("error") if isinstance(content, Mapping) else None
    if not isinstance(error, Mapping):
        return _Problem(text=error if isinstance(error, str) else "")
    details = error.get("details")
    found = [one for one in details if isinstance(one, Mapping)] if isinstance(details, list) else []
    code = next((one.get("errorCode") for one in found if _is(one, FCM_ERROR)), None)
    violations = [field for one in found if _is(one, BAD_REQUEST) for field in _fields(one.get("fieldViolations"))]
    return _Problem(
        status=_text(error.get("status")),
        text=_text(error.get("message")),
        fcm_code=_text(code),
        violations=tuple(violations),
    )


def _fields(violations: object) -> Sequence[str]:
    """The names of the fields; a violation that names none still counts as one that is not the token's."""
    if not isinstance(violations, list):
        return []
    return [_text(one.get("field")) if isinstance(one, Mapping) else "" for one in violations]


def _is(detail: Mapping[str, Any], kind: str) -> bool:
    return _text(detail.get("@type")).rpartition("/")[2] == kind


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _reason(status: int, problem: _Problem, body: bytes) -> str:
    code = problem.fcm_code or problem.status
    text = _short(problem.text) if problem.text else "" if code else _quoted(body)
    words = [f"HTTP {status}", *([code] if code else [])]
    if problem.violations:
        words.append("(" + ", ".join(dict.fromkeys(_short(field) or "?" for field in problem.violations)) + ")")
    return " ".join(words) + (f": {text}" if text else "")


def _quoted(body: bytes) -> str:
    return _short(body[: 4 * LONGEST_TEXT].decode("utf-8", errors="replace")) or "no content"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "\N{HORIZONTAL ELLIPSIS}"
