"""From a delivery to the bytes of a message (RFC 5322, 2045, 2047, and 6532 where an address needs it)."""

from __future__ import annotations

from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime
from hashlib import blake2b

from attrs import frozen

from sendoff.plugin import Delivery
from sendoff_email_stub.address import Address
from sendoff_email_stub.headers import WireHeader, ascii_header, text_header, word_phrase

__all__ = ["Sender", "build", "message_id"]


@frozen
class Sender:
    """Who the messages come from."""

    address: Address
    name: str | None = None


def message_id(delivery: Delivery, to: Address, sender: Sender) -> str:
    """RFC 5322 section 3.6.4, the same on every try: a mailbox that got a message twice can tell."""
    digest = blake2b(f"{delivery.idempotency_key}\0{to}".encode(), digest_size=16)
    return f"<{digest.hexdigest()}@{sender.address.domain}>"


def build(delivery: Delivery, to: Address, sender: Sender) -> bytes:
    """The whole message, lines ended by CRLF. Pure: every try gives the same but for the MIME boundary.

    ``Date`` is when the notification was made: by RFC 5322 section 3.6.1 the moment its creator put it into its final
    form, not the moment it is transported.
    """
    payload = delivery.payload
    # Bodies are encoded down to ASCII, so that no server on the way needs 8BITMIME (RFC 6152).
    message = EmailMessage(policy=(SMTPUTF8 if to.internationalised else SMTP).clone(cte_type="7bit"))
    for header in _headers(delivery, to, sender):
        message[header.name] = header
    message.set_content(payload["text"])
    if "html" in payload:
        message.add_alternative(payload["html"], subtype="html")
    return message.as_bytes()


def _headers(delivery: Delivery, to: Address, sender: Sender) -> list[WireHeader]:
    payload = delivery.payload
    headers = [
        _from(payload.get("from_name", sender.name), sender.address),
        ascii_header("To", str(to)),
        ascii_header("Date", format_datetime(delivery.created_at)),
        ascii_header("Message-ID", message_id(delivery, to, sender)),
    ]
    if "subject" in payload:
        headers.append(text_header("Subject", payload["subject"]))
    if "reply_to" in payload:
        headers.append(ascii_header("Reply-To", payload["reply_to"]))
    # RFC 3834 section 5: no person wrote this, so no vacation notice and no bounce robot should answer it.
    headers.append(ascii_header("Auto-Submitted", "auto-generated"))
    if "unsubscribe" in payload:
        headers.append(ascii_header("List-Unsubscribe", f"<{payload['unsubscribe']}>"))
        if payload["unsubscribe"].startswith("https:"):
            headers.append(ascii_header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"))  # RFC 8058
    for name, value in payload.get("headers", {}).items():
        write = text_header if name.lower().startswith("x-") else ascii_header
        headers.append(write(name, value))
    headers += [
        ascii_header("X-Sendoff-Outgoing-Id", str(delivery.id)),
        ascii_header("X-Sendoff-Notification-Id", str(delivery.notification_id)),
        text_header("X-Sendoff-Idempotency-Key", delivery.idempotency_key),
    ]
    return headers


def _from(name: str | None, address: Address) -> WireHeader:
    if not name:
        return ascii_header("From", str(address))
    return WireHeader("From", f"{word_phrase(name)}\r\n <{address}>")
