"""The bytes of a message, read back by another parser."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes
from email.header import decode_header, make_header
from email.utils import parseaddr
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plugins.email_stub.tests.helpers import NOTIFICATION, OUTGOING, delivery, read
from sendoff_email_stub.address import parse_address
from sendoff_email_stub.headers import control_character
from sendoff_email_stub.message import Sender, build

SENDER = Sender(parse_address("shop@example.org"), "Example Shop")

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
one_line = storable.filter(lambda text: bool(text.strip()) and control_character(text) is None).map(str.strip)


def built(to: str = "a@example.org", **payload: Any) -> bytes:
    return build(delivery(to, **payload), parse_address(to), SENDER)


def lines(message: bytes) -> list[bytes]:
    return message.split(b"\r\n\r\n", 1)[0].split(b"\r\n")


def test_a_plain_message() -> None:
    message = read(built(subject="On its way", text="Hello\nthere"))
    assert dict(message.items()) == {
        "From": "Example Shop <shop@example.org>",
        "To": "a@example.org",
        "Date": "Tue, 01 Dec 2026 09:30:00 +0000",
        "Message-ID": message["Message-ID"],
        "Subject": "On its way",
        "Auto-Submitted": "auto-generated",
        "X-Sendoff-Outgoing-Id": str(OUTGOING),
        "X-Sendoff-Notification-Id": str(NOTIFICATION),
        "X-Sendoff-Idempotency-Key": str(OUTGOING),
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "7bit",
        "MIME-Version": "1.0",
    }
    assert message.get_content() == "Hello\r\nthere\r\n"
    assert message["Date"].datetime == datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
    assert not message.defects


def test_html_is_the_richer_alternative() -> None:
    message = read(built(subject="x", text="plain ü", html="<b>rich ü</b>"))
    assert message.get_content_type() == "multipart/alternative"
    plain, rich = message.iter_parts()
    assert (plain.get_content_type(), plain.get_content()) == ("text/plain", "plain ü\r\n")
    assert (rich.get_content_type(), rich.get_content()) == ("text/html", "<b>rich ü</b>\r\n")


def test_the_message_id_is_the_same_on_every_try_and_another_per_address_and_key() -> None:
    def message_id(to: str = "a@example.org", **more: Any) -> str:
        return str(read(build(delivery(to, **more), parse_address(to), SENDER))["Message-ID"])

    assert message_id(attempt=1) == message_id(attempt=2)
    assert message_id().endswith("@example.org>")
    assert len({message_id(), message_id("b@example.org"), message_id(key="after-a-requeue")}) == 3


def test_replies_and_unsubscribing() -> None:
    message = read(built(reply_to="help@example.org", unsubscribe="https://example.org/u"))
    assert message["Reply-To"] == "help@example.org"
    assert message["List-Unsubscribe"] == "<https://example.org/u>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    by_mail = read(built(unsubscribe="mailto:leave@example.org"))
    assert by_mail["List-Unsubscribe"] == "<mailto:leave@example.org>"
    assert by_mail["List-Unsubscribe-Post"] is None


def test_an_address_outside_ascii_is_written_as_rfc_6532_has_it() -> None:
    message = built("用户@例子.广告", subject="ü")
    assert "To: 用户@xn--fsqu00a.xn--4rr70v".encode() in lines(message)
    assert str(read(message)["Subject"]) == "ü"
    assert built(subject="ü").isascii()


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\u2028", "\x85", "\x0b"])
@pytest.mark.parametrize("field", ["subject", "from_name", "reply_to", "unsubscribe"])
def test_a_payload_that_was_never_checked_injects_nothing(field: str, end: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        built(**{field: f"x{end}Bcc: victim@example.org"})


@settings(deadline=None)
@given(subject=one_line, name=one_line, custom=one_line)
@example(subject="=?utf-8?q?not_encoded?=", name="=?x?=", custom="a  b")
@example(subject="a" * 998, name="a" * 998, custom="b " * 400 + "b")
@example(subject="👨‍👩‍👧 " * 60, name='"q", <a@b.c>;', custom="\u3000\u00a0x")
@example(subject="ends in a comma,", name="J. Doe (Acme), Inc.", custom="tab\tinside")
def test_any_line_of_text_comes_back_from_its_header(subject: str, name: str, custom: str) -> None:
    raw = built(subject=subject, from_name=name, headers={"X-Custom": custom})
    message = read(raw)
    assert str(message["Subject"]) == subject
    assert str(message["X-Custom"]) == custom
    assert [address.addr_spec for address in message["From"].addresses] == ["shop@example.org"]
    # The older parser of the standard library, which many programs still use. (The newer one of Python 3.11 to 3.13
    # puts blanks between the encoded words of a long display name.)
    old = message_from_bytes(raw)
    assert str(make_header(decode_header(str(old["Subject"]).replace("\r\n", "")))) == subject
    shown, address = parseaddr(str(old["From"]).replace("\r\n", ""))
    assert (str(make_header(decode_header(shown))), address) == (name, "shop@example.org")
    assert raw.isascii()
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert all(len(line) <= 78 for line in lines(raw) if b"=?utf-8?b?" in line)
    names = [header for header, _ in message.items()]
    assert len(names) == len(set(names))
    assert "bcc" not in {header.lower() for header in names}


@settings(deadline=None)
@given(text=storable, html=storable)
@example(text="\x85\u2028\x0b\x0c\x1c…Å", html="x")
@example(text="From me\n.\n..\n", html="a" * 5000)
@example(text="=C3=A9 100% =", html="\r\r\n\n")
def test_any_text_comes_back_but_for_its_line_ends(text: str, html: str) -> None:
    def normal(content: str) -> str:
        ended = content.replace("\r\n", "\n").replace("\r", "\n")
        return ended if ended.endswith("\n") else f"{ended}\n"

    raw = built(text=text, html=html)
    plain, rich = read(raw).iter_parts()
    assert normal(plain.get_content()) == normal(text)
    assert normal(rich.get_content()) == normal(html)
    assert raw.isascii()
    assert b"\n" not in raw.replace(b"\r\n", b"")
    assert b"\r" not in raw.replace(b"\r\n", b"")
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
