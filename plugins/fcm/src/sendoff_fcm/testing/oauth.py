"""The token endpoint: a service account's signed request for an access token, RFC 7523 as Google does it.

https://developers.google.com/identity/protocols/oauth2/service-account#httprest
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import secrets
import threading
import time
import uuid
from typing import Any, Final
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from sendoff_fcm.testing.answers import Answer, json_answer

__all__ = ["INVALID_GRANT", "LIFETIME", "OAuth"]

#: Seconds that an access token is good for.
LIFETIME: Final = 3599
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"

INVALID_GRANT: Final = json_answer(
    400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}, case="invalid_grant"
)


@functools.cache
def _key() -> rsa.RSAPrivateKey:
    """Made anew in each process, on first need (it takes a tenth of a second), and shared by all of its servers."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class OAuth:
    """Accounts and access tokens of one server. Used by any thread."""

    def __init__(self, project: str) -> None:
        self.project = project
        self.email = f"local-fcm@{project}.iam.gserviceaccount.com"
        self.lifetime: float = LIFETIME
        self._lock = threading.Lock()
        self._good_until: dict[str, float] = {}

    def service_account(self, token_uri: str) -> dict[str, str]:
        """The JSON of a key file of the kind that the Google Cloud console hands out."""
        pem = _key().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return {
            "type": "service_account",
            "project_id": self.project,
            "private_key_id": uuid.uuid4().hex,
            "private_key": pem.decode(),
            "client_email": self.email,
            "client_id": "100000000000000000000",
            "auth_uri": token_uri.replace("/token", "/auth"),
            "token_uri": token_uri,
        }

    def issue(self, lifetime: float | None = None) -> str:
        """A new access token, good for ``lifetime`` seconds."""
        token = f"ya29.local-{secrets.token_urlsafe(24)}"
        until = time.monotonic() + (self.lifetime if lifetime is None else lifetime)
        with self._lock:
            self._good_until[token] = until
        return token

    def knows(self, authorization: str) -> bool:
        """Whether the header ``authorization`` is a Bearer token that is known and has not expired."""
        scheme, _, token = authorization.partition(" ")
        until = self._good_until.get(token.strip())
        return scheme.lower() == "bearer" and until is not None and time.monotonic() < until

    def expire_all(self) -> None:
        with self._lock:
            self._good_until.clear()

    def answer(self, body: bytes) -> Answer:
        """To ``POST /token``: ``access_token``, ``expires_in``, ``token_type``; a 400 for anything that is off."""
        try:
            form = parse_qs(body.decode("ascii"), max_num_fields=20)
        except ValueError:
            return _bad("invalid_request", "The request body is not a form.")
        if form.get("grant_type") != [GRANT]:
            return _bad("unsupported_grant_type", "Invalid grant_type: only signed JWTs are taken here.")
        claims = self._claims(form.get("assertion", [""])[0])
        if claims is None or claims.get("iss") != self.email:
            return INVALID_GRANT
        expires = claims.get("exp")
        if not isinstance(expires, int | float) or expires < time.time():
            return _bad(
                "invalid_grant", "Invalid JWT: Token must be a short-lived token and in a reasonable timeframe."
            )
        if not str(claims.get("aud", "")).endswith("/token"):
            return _bad("invalid_grant", "Invalid JWT: the audience is not the token endpoint.")
        if not claims.get("scope"):
            return _bad("invalid_scope", "Empty or missing scope not allowed.")
        access = {"access_token": self.issue(), "expires_in": int(self.lifetime), "token_type": "Bearer"}
        return json_answer(200, access, case="access_token")

    @staticmethod
    def _claims(assertion: str) -> dict[str, Any] | None:
        """What the JWT says, if this server's account signed it."""
        signed, _, signature = assertion.rpartition(".")
        try:
            head, _, claims = signed.partition(".")
            if json.loads(_decoded(head)).get("alg") != "RS256":
                return None
            _key().public_key().verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
            content = json.loads(_decoded(claims))
        except (InvalidSignature, binascii.Error, ValueError, AttributeError, RecursionError):
            return None
        return content if isinstance(content, dict) else None


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _bad(code: str, description: str) -> Answer:
    return json_answer(400, {"error": code, "error_description": description}, case=code)
