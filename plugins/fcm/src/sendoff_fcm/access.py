"""Who we are to Google: the service account, the project, and access tokens.

The credential is the SDK's (``firebase_admin.App`` and ``credentials``), and it is refreshed here: the SDK would do so
on the event loop, once for each message, without a time limit. Everything of it blocks (importing the SDK, reading the
file, signing, the token endpoint, the metadata server), so everything runs in one thread at a time, for whoever waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from attrs import define, field, frozen

from sendoff.plugin import Secret, SecretError
from sendoff_fcm.config import FcmConfig

__all__ = ["NO_CREDENTIAL", "Access", "AccessError", "AccessTokens", "Account", "load_account", "may_have_defaults"]

#: A token this close to its end is renewed while it still serves.
AHEAD = 300.0
#: A token this close to its end serves no longer: it has to outlive the request.
SPENT = 30.0
#: What a token without a stated end is taken for.
UNSTATED_LIFE = 300.0
#: After a failed renewal ahead of time, the next is tried no sooner.
PAUSE = 15.0

NO_CREDENTIAL = (
    'no credential: set credentials = {file = "service-account.json"} for this channel, or '
    "GOOGLE_APPLICATION_CREDENTIALS"
)

Kind = Literal["credential", "network", "project"]


class AccessError(Exception):
    """No access token can be had. ``kind`` says where a person has to look."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


@frozen(eq=False)
class Access:
    """What a request needs: the project it is for and the token it carries."""

    project_id: str
    token: str = field(repr=False)


@frozen(eq=False)
class Account:
    """A loaded credential (google-auth's) and its project."""

    credential: Any = field(repr=False)
    project_id: str


def load_account(config: FcmConfig) -> Account:
    """Read the credential. Blocks, imports the SDK, and for application default credentials may ask a metadata server.

    :raises AccessError: there is none, it cannot be read, or nothing names the project.
    """
    import firebase_admin  # type: ignore[import-untyped]  # the SDK has no types
    from firebase_admin import credentials
    from google.auth.exceptions import GoogleAuthError

    try:
        credential = credentials.Certificate(_certificate(config.credentials)) if config.credentials else None
    except SecretError as error:
        raise AccessError("credential", str(error)) from None
    except (ValueError, OSError) as error:
        source = config.credentials.source if config.credentials else ""
        # The SDK's text may quote the file; ours says where it is.
        raise AccessError(
            "credential", f"the service account from {source} cannot be used ({type(error).__name__})"
        ) from None
    try:
        # An App of our own, not one of the process-wide named ones: an application may have its own beside us.
        app = firebase_admin.App(
            "sendoff",
            credential or credentials.ApplicationDefault(),
            {"projectId": config.project_id} if config.project_id else None,
        )
        google = app.credential.get_credential()
        project_id = app.project_id
    except (GoogleAuthError, ValueError, OSError) as error:
        raise AccessError("credential", f"{NO_CREDENTIAL} ({type(error).__name__})") from None
    if not project_id:
        raise AccessError("project", "nothing names the Firebase project; set project_id for this channel")
    return Account(google, str(project_id))


def may_have_defaults() -> bool:
    """Whether application default credentials are worth looking for: a file, or a machine of Google's.

    For ``doctor``, which is not to wait: elsewhere google-auth asks a metadata server that is not there, several
    times, for seconds.
    """
    if any(os.environ.get(name) for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "K_SERVICE")):
        return True
    gcloud = Path(os.environ.get("CLOUDSDK_CONFIG") or Path("~/.config/gcloud").expanduser())
    product = Path("/sys/class/dmi/id/product_name")
    try:
        return (gcloud / "application_default_credentials.json").is_file() or "Google" in product.read_text()
    except (OSError, UnicodeDecodeError):
        return False


def _certificate(secret: Secret) -> dict[str, Any]:
    """The service account's JSON: the secret itself, or the file that it names. Its key is never shown."""
    text = secret.reveal()
    if not text.lstrip().startswith("{"):
        text = Secret(file=text).reveal()
    content = json.loads(text)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    key = content.get("private_key")
    if isinstance(key, str) and key:
        Secret(key).reveal()
    return content


def refresh(account: Account, timeout: float) -> tuple[str, float]:
    """A new access token and its seconds to live. Blocks for at most about ``timeout`` seconds.

    :raises AccessError: of kind ``network`` where the token endpoint did not answer, ``credential`` where it refused.
    """
    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.auth.transport.requests import Request

    deadline = time.monotonic() + timeout
    request = Request()

    def within(*args: Any, **kwargs: Any) -> Any:
        # google-auth repeats a request that failed; all of them together have our time.
        left = deadline - time.monotonic()
        if left <= 0:
            raise TransportError(f"no answer within {timeout:g} s")  # type: ignore[no-untyped-call]  # google-auth's own
        return request(*args, **{**kwargs, "timeout": left})

    try:
        account.credential.refresh(within)
        token, expiry = account.credential.token, account.credential.expiry
    except TransportError as error:
        raise AccessError("network", f"the token endpoint cannot be reached: {_named(error)}") from None
    except GoogleAuthError as error:
        if error.retryable:
            raise AccessError("network", f"the token endpoint cannot answer now: {_text(error)}") from None
        raise AccessError("credential", f"the token endpoint refused our credential: {_text(error)}") from None
    except Exception as error:  # noqa: BLE001 - an answer that is no JSON comes as whatever reading it raised
        raise AccessError("network", f"the token endpoint answered nonsense: {type(error).__name__}") from None
    if not isinstance(token, str) or not token or not (token.isascii() and token.isprintable()):
        # What no header can carry is none either.
        raise AccessError("network", "the token endpoint gave no token")
    if expiry is None:
        return token, UNSTATED_LIFE
    # The moment was made from this machine's clock an instant ago, so the difference does not depend on it.
    return token, (expiry - datetime.now(UTC).replace(tzinfo=None)).total_seconds()


def _named(error: BaseException) -> str:
    """The innermost cause by its name: texts of requests are pages long and have addresses of objects in them."""
    while error.args and isinstance(error.args[0], BaseException):
        error = error.args[0]
    while error.__cause__ is not None:
        error = error.__cause__
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        return _named(reason)
    return type(error).__name__ if type(error).__name__ != "TransportError" else str(error)[:200]


def _text(error: BaseException) -> str:
    first = str(error.args[0]) if error.args else type(error).__name__
    return " ".join(first.split())[:200]


@define(eq=False)
class _Token:
    text: str
    ends: float


class AccessTokens:
    """One access token for all loops and threads of this process, renewed ahead of its end, once for all who wait."""

    def __init__(
        self,
        load: Callable[[], Account],
        *,
        timeout: float,
        renew: Callable[[Account, float], tuple[str, float]] = refresh,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        self._load = load
        self._renew = renew
        self._timeout = timeout
        self._forget = forget
        self._lock = threading.Lock()
        self._account: Account | None = None
        self._token: _Token | None = None
        self._running: Future[Access] | None = None
        self._started = 0.0
        self._failed = float("-inf")

    def preload(self) -> None:
        """Read the credential now, in the thread that calls. Where it cannot be read, :meth:`get` says so."""
        try:
            account = self._load()
        except AccessError:
            return
        with self._lock:
            self._account = self._account or account

    async def get(self, within: float) -> Access:
        """The token, at once where there is one that lasts. Never blocks the loop.

        :raises AccessError: it could not be had, or not within ``within`` seconds.
        """
        with self._lock:
            ready, running = self._look()
        if ready is not None:
            return ready
        assert running is not None
        waiting = asyncio.wrap_future(running)
        # Whoever gives up waiting has heard enough: its failure is no news for the loop's log.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            # Shielded: one who gives up takes the token from nobody.
            return await asyncio.wait_for(asyncio.shield(waiting), within)
        except TimeoutError:
            raise AccessError("network", f"the token endpoint gave no answer within {within:.3g} s") from None

    def reject(self, token: str) -> None:
        """FCM has refused this token: the next request gets a new one, from a credential that is read afresh."""
        with self._lock:
            if self._token is not None and self._token.text == token:
                self._reset()

    def _look(self) -> tuple[Access | None, Future[Access] | None]:
        now = time.monotonic()
        token, account = self._token, self._account
        left = token.ends - now if token is not None else 0.0
        if token is not None and account is not None and left > SPENT:
            if left < AHEAD and self._idle(now) and now - self._failed > PAUSE:
                self._start(now)
            return Access(account.project_id, token.text), None
        if self._idle(now):
            self._start(now)
        return None, self._running

    def _idle(self, now: float) -> bool:
        """Nobody is renewing; a thread that hangs far beyond its time is left to itself."""
        return self._running is None or self._running.done() or now - self._started > 3 * self._timeout

    def _start(self, now: float) -> None:
        running: Future[Access] = Future()
        self._running, self._started = running, now
        # A daemon of its own: the loop's default threads are for others, and a hanging endpoint must not hold up the
        # end of the process.
        threading.Thread(target=self._run, args=(running, self._account), name="sendoff-fcm-token", daemon=True).start()

    def _run(self, running: Future[Access], account: Account | None) -> None:
        try:
            account = account or self._load()
            text, lives = self._renew(account, self._timeout)
        except BaseException as error:  # noqa: BLE001 - whoever waits has to hear of anything that ends the thread
            failure = error if isinstance(error, AccessError) else AccessError("credential", type(error).__name__)
            with self._lock:
                self._failed = time.monotonic()
                if failure.kind != "network":
                    self._reset()
            running.set_exception(failure)
            return
        with self._lock:
            self._account = account
            self._token = _Token(text, time.monotonic() + lives)
        running.set_result(Access(account.project_id, text))

    def _reset(self) -> None:
        self._token = None
        self._account = None
        self._forget()
