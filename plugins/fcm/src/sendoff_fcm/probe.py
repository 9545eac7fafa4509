"""``sendoff fcm check``: one request that FCM checks and delivers to nobody, and whose fault it is when it fails."""

from __future__ import annotations

import time
from typing import Literal

from attrs import frozen

from sendoff.plugin import NoTarget, Outage, Permanent, Retryable, Sent, Verdict
from sendoff_fcm.access import Access, AccessError
from sendoff_fcm.answer import read_answer
from sendoff_fcm.channel import FcmChannel, request_body, request_headers, send_path
from sendoff_fcm.combine import shown
from sendoff_fcm.replies import BusyError, MaybeSentError, NotTakenError, UnreachableError

__all__ = ["Finding", "judge", "probe"]

#: Not a registration token: FCM says so once credential and project are right.
NOBODY = "sendoff-check"

Problem = Literal["credential", "network", "project", "provider"]


@frozen
class Finding:
    """What one channel's check came to. ``problem`` is None where messages can be sent now."""

    channel: str
    project: str | None
    problem: Problem | None
    message: str


async def probe(channel: FcmChannel, token: str | None = None) -> Finding:
    """Ask Google for an access token, and FCM for a check of a message to ``token``, or to nobody."""
    from sendoff_fcm.wire import Wire, tls_context

    config = channel.config
    try:
        access = await channel.tokens.get(config.token_timeout + 5.0)
    except AccessError as error:
        return Finding(channel.name, config.project_id, error.kind, error.reason)
    context = tls_context(http2=config.http2) if config.endpoint.startswith("https:") else None
    wire = Wire(config.endpoint, connections=1, http2=config.http2, context=context)
    message = {"notification": {"title": "sendoff fcm check"}}
    started = time.monotonic()
    try:
        answer = await wire.post(
            send_path(config.endpoint, access.project_id),
            request_headers(access),
            request_body(message, token or NOBODY, dry_run=True),
            config.timeout,
        )
    except (UnreachableError, MaybeSentError, NotTakenError, BusyError) as error:
        where = f"{config.endpoint} gave no answer: {error}"
        return Finding(channel.name, access.project_id, "network", where)
    finally:
        await wire.close()
    took = time.monotonic() - started
    return judge(channel.name, access, read_answer(answer.status, answer.headers, answer.body), took, token)


def judge(name: str, access: Access, verdict: Verdict, took: float, token: str | None = None) -> Finding:
    """What FCM's answer says about credential and project. Pure."""
    project = access.project_id
    match verdict:
        case Sent():
            what = f"FCM took the message for {shown(token)}" if token else "FCM took the message"
            return Finding(name, project, None, f"{what} of project {project} in {took * 1000:.0f} ms")
        case NoTarget() if token is not None:
            return Finding(name, project, None, f"FCM answers for project {project}; {shown(token)}: {verdict.reason}")
        case NoTarget() | Permanent():
            # It has let us in and looked at the message, which was for nobody.
            return Finding(name, project, None, f"FCM answers for project {project} in {took * 1000:.0f} ms")
        case Outage():
            status = (verdict.details or {}).get("status")
            if status == 401:
                return Finding(name, project, "credential", f"FCM refuses our access token: {verdict.reason}")
            if status in {403, 404}:
                reason = f"the account may not send for project {project}, or there is none: {verdict.reason}"
                return Finding(name, project, "project", reason)
            return Finding(name, project, "network", f"something else than FCM answers: {verdict.reason}")
        case Retryable():
            blamed: Problem = "network" if verdict.maybe_sent else "provider"
            return Finding(name, project, blamed, f"FCM cannot answer now: {verdict.reason}")
