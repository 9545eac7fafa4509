"""What an e-mail refuses at enqueue, and what it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugins.email_stub.tests.helpers import channel
from sendoff.plugin import InvalidNotification, Notification


def notification(options: Any = None, **content: Any) -> Notification:
    return Notification(
        recipient="u1",
        type="t",
        options={} if options is None else {"email": options},
        **{"title": "Subject", "body": "Text", **content},
    )


def payload(options: Any = None, **content: Any) -> dict[str, Any]:
    return channel(Path("nowhere")).prepare(notification(options, **content))


def refused(options: Any = None, **content: Any) -> InvalidNotification:
    with pytest.raises(InvalidNotification) as caught:
        payload(options, **content)
    return caught.value


def test_title_and_body_are_subject_and_text() -> None:
    assert payload() == {"subject": "Subject", "text": "Text"}
    assert payload(title=None) == {"text": "Text"}


def test_options_are_kept() -> None:
    options = {
        "html": "<b>x</b>",
        "reply_to": "help@bücher.example",
        "from_name": "Grüße, Team",
        "unsubscribe": "https://example.org/u?t=1",
        "headers": {"X-Campaign": "Frühling", "References": "<a@b.example>"},
    }
    assert payload(options) == {
        "subject": "Subject",
        "text": "Text",
        **options,
        "reply_to": "help@xn--bcher-kva.example",
    }


@pytest.mark.parametrize("body", [None, "", " \n"])
def test_no_body_is_refused(body: str | None) -> None:
    assert refused({"html": "<p>only html</p>"}, body=body).field == "body"


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b"])
def test_nothing_begins_a_header_of_its_own(end: str) -> None:
    text = f"x{end}Bcc: victim@example.org"
    assert refused(title=text).field == "title"
    assert refused({"from_name": text}).field == "options.email.from_name"
    assert refused({"reply_to": f"a@example.org{end}Bcc: b@example.org"}).field == "options.email.reply_to"
    assert refused({"unsubscribe": f"https://example.org/{end}"}).field == "options.email.unsubscribe"
    assert refused({"headers": {"X-A": text}}).field == "options.email.headers.X-A"
    assert refused({"headers": {f"X-A{end}Bcc": "x"}}).field.startswith("options.email.headers.X-A")


@pytest.mark.parametrize("html", [None, 17, [], {"a": 1}, "", "  "])
def test_html_must_be_text(html: object) -> None:
    assert refused({"html": html}).field == "options.email.html"


@pytest.mark.parametrize(
    "name",
    [
        "From",
        "to",
        "CC",
        "Bcc",
        "Sender",
        "Subject",
        "Date",
        "Message-ID",
        "Reply-To",
        "Return-Path",
        "Received",
        "MIME-Version",
        "Content-Type",
        "DKIM-Signature",
        "Auto-Submitted",
        "List-Unsubscribe",
        "X-Sendoff-Outgoing-Id",
        "X",
        "X-",
        "X-A:",
        "X-Ä",
        "X A",
        "",
        "X-" + "a" * 50,
    ],
)
def test_headers_that_are_not_the_applications(name: str) -> None:
    assert refused({"headers": {name: "x"}}).field == f"options.email.headers.{name}"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"from": "x"}, "options.email.from"),
        ({"from_name": 1}, "options.email.from_name"),
        ({"from_name": ""}, "options.email.from_name"),
        ({"reply_to": "nobody"}, "options.email.reply_to"),
        ({"reply_to": ["a@example.org"]}, "options.email.reply_to"),
        ({"reply_to": "josé@example.org"}, "options.email.reply_to"),
        ({"unsubscribe": "http://example.org/"}, "options.email.unsubscribe"),
        ({"unsubscribe": "https://"}, "options.email.unsubscribe"),
        ({"unsubscribe": "https://[example.org/"}, "options.email.unsubscribe"),
        ({"unsubscribe": "javascript:alert(1)"}, "options.email.unsubscribe"),
        ({"unsubscribe": "https://example.org/>,<mailto:a@b.c"}, "options.email.unsubscribe"),
        ({"unsubscribe": "https://example.org/ü"}, "options.email.unsubscribe"),
        ({"headers": ["X-A: b"]}, "options.email.headers"),
        ({"headers": {"X-A": 1}}, "options.email.headers.X-A"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "options.email.headers.x-a"),
        ({"headers": {"References": "ü"}}, "options.email.headers.References"),
        ({"headers": {"References": "x" * 990}}, "options.email.headers.References"),
        ({"headers": {f"X-{number}": "x" for number in range(21)}}, "options.email.headers"),
    ],
)
def test_options_that_make_no_sense(options: Any, field: str) -> None:
    assert refused(options).field == field


def test_too_long_says_the_numbers() -> None:
    assert "998" in refused(title="x" * 999).problem
    small = channel(Path("nowhere"), max_bytes=20)
    assert small.prepare(notification(title="é" * 5, body="é" * 5))
    with pytest.raises(InvalidNotification, match="21 bytes together; the limit of this channel is 20"):
        small.prepare(notification({"html": "<"}, title="é" * 5, body="é" * 5))
