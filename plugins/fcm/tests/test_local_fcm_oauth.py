"""The token endpoint: that google-auth and firebase-admin get a token from it, and each way in which they do not."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.auth import exceptions, jwt
from google.auth.transport import requests as transport
from google.oauth2 import service_account

from plugins.fcm.tests.test_local_fcm import client_for, send
from sendoff_fcm.testing import LocalFCM
from sendoff_fcm.testing.oauth import GRANT

pytest_plugins = ["sendoff_fcm.testing.fixtures"]

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"


@pytest.fixture
def google() -> Iterator[transport.Request]:
    request = transport.Request()
    yield request
    request.session.close()


def credentials(fcm: LocalFCM) -> Any:
    made: Any = service_account.Credentials  # its methods have no types
    return made.from_service_account_info(fcm.service_account(), scopes=[SCOPE])


def test_google_auth_gets_a_token_that_sends(local_fcm: LocalFCM, google: transport.Request) -> None:
    found = credentials(local_fcm)
    found.refresh(google)
    answer = httpx.post(
        local_fcm.send_url, json={"message": {"token": "a"}}, headers={"authorization": f"Bearer {found.token}"}
    )
    assert 200 == answer.status_code
    assert 1 == local_fcm.counters.token_calls


def test_firebase_admins_credential_gets_a_token_from_the_written_file(local_fcm: LocalFCM, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK's own imports
        from firebase_admin import credentials as firebase  # type: ignore[import-untyped] # ships no types
    path = local_fcm.write_service_account(tmp_path / "account.json")
    token = firebase.Certificate(str(path)).get_access_token()
    assert token.access_token.startswith("ya29.local-")
    assert "sendoff-local" == json.loads(path.read_text())["project_id"]
    answer = httpx.post(
        local_fcm.send_url, json={"message": {"token": "a"}}, headers={"authorization": f"Bearer {token.access_token}"}
    )
    assert 200 == answer.status_code


def test_the_lifetime_is_told_and_kept(local_fcm: LocalFCM, google: transport.Request) -> None:
    local_fcm.token_lifetime(0)
    found = credentials(local_fcm)
    found.refresh(google)
    assert found.expired
    answer = httpx.post(
        local_fcm.send_url, json={"message": {"token": "a"}}, headers={"authorization": f"Bearer {found.token}"}
    )
    assert (401, "UNAUTHENTICATED") == (answer.status_code, answer.json()["error"]["status"])


def test_tokens_can_be_expired(local_fcm: LocalFCM) -> None:
    with client_for(local_fcm) as client:
        assert 200 == send(client, local_fcm, "a").status_code
        local_fcm.expire_tokens()
        answer = send(client, local_fcm, "a")
    assert 401 == answer.status_code
    assert "invalid_token" in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("how", "status", "start"),
    [
        ("invalid_grant", 400, '{\n  "error": "invalid_grant"'),
        ("unavailable", 503, '{\n  "error": {'),
        ("html", 502, "<!DOCTYPE html>"),
        ("error as text", 200, '{\n  "error": "text"'),
    ],
)
def test_the_token_endpoint_is_down(how: str, status: int, start: str, local_fcm: LocalFCM) -> None:
    local_fcm.token_down(how)
    answer = httpx.post(local_fcm.token_uri)
    assert status == answer.status_code
    assert answer.text.startswith(start)
    with client_for(local_fcm) as client:
        assert 200 == send(client, local_fcm, "a").status_code
    local_fcm.token_up()
    assert "unsupported_grant_type" == httpx.post(local_fcm.token_uri).json()["error"]


def test_the_token_endpoint_hangs(local_fcm: LocalFCM) -> None:
    local_fcm.token_down("hang")
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(local_fcm.token_uri, timeout=0.1)


def test_the_token_endpoint_refuses_and_sending_goes_on(local_fcm: LocalFCM) -> None:
    local_fcm.token_down("refuse")
    with pytest.raises(httpx.ConnectError):
        httpx.post(local_fcm.token_uri)
    with client_for(local_fcm) as client:
        assert 200 == send(client, local_fcm, "a").status_code
    local_fcm.token_up()
    assert 400 == httpx.post(local_fcm.token_uri).status_code


def test_google_auth_sees_invalid_grant(local_fcm: LocalFCM, google: transport.Request) -> None:
    local_fcm.answer("any", "token endpoint invalid_grant")
    with pytest.raises(exceptions.RefreshError, match="invalid_grant"):
        credentials(local_fcm).refresh(google)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 200),
        ({"iss": "somebody@example.org"}, "invalid_grant"),
        ({"exp": 0}, "invalid_grant"),
        ({"exp": "soon"}, "invalid_grant"),
        ({"aud": "https://example.org/other"}, "invalid_grant"),
        ({"scope": ""}, "invalid_scope"),
    ],
)
def test_what_the_signed_request_says_is_checked(
    change: dict[str, Any], expected: int | str, local_fcm: LocalFCM
) -> None:
    account = credentials(local_fcm)
    claims = {
        "iss": account.service_account_email,
        "aud": local_fcm.token_uri,
        "exp": int(time.time()) + 600,
        "scope": SCOPE,
    }
    encode: Any = jwt.encode  # has no types
    assertion = encode(account.signer, claims | change).decode()
    answer = httpx.post(local_fcm.token_uri, data={"grant_type": GRANT, "assertion": assertion})
    assert expected == (200 if answer.status_code == 200 else answer.json()["error"])
    if not change:
        forged = assertion[:-8] + ("A" * 8 if not assertion.endswith("A" * 8) else "B" * 8)
        answer = httpx.post(local_fcm.token_uri, data={"grant_type": GRANT, "assertion": forged})
        assert (400, "invalid_grant") == (answer.status_code, answer.json()["error"])


@pytest.mark.parametrize("assertion", ["", ".", "..", "a.b.c", "é", "e30.e30.e30", "bnVsbA.e30.AAAA", "W10.e30.AAAA"])
def test_an_assertion_that_is_none(assertion: str, local_fcm: LocalFCM) -> None:
    answer = httpx.post(local_fcm.token_uri, data={"grant_type": GRANT, "assertion": assertion})
    assert (400, "invalid_grant") == (answer.status_code, answer.json()["error"])


@pytest.mark.parametrize("body", [b"\xff\xfe", b"&" * 1000, b"a=1&" * 1000])
def test_a_form_that_is_none(body: bytes, local_fcm: LocalFCM) -> None:
    assert 400 == httpx.post(local_fcm.token_uri, content=body).status_code
