"""Which addresses a mailbox could have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sendoff_email_stub.address import MalformedAddress, parse_address


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("a@example.org", "a@example.org"),
        ("first.last+tag@sub.example.co", "first.last+tag@sub.example.co"),
        ("o'neil/x=y@example.org", "o'neil/x=y@example.org"),
        ("josé@example.org", "josé@example.org"),
        ("用户@例子.广告", "用户@xn--fsqu00a.xn--4rr70v"),
        ("a@bücher.example", "a@xn--bcher-kva.example"),
        (f"{'l' * 64}@example.org", f"{'l' * 64}@example.org"),
        ("a@1-2.example", "a@1-2.example"),
    ],
)
def test_addresses_that_can_be(text: str, taken: str) -> None:
    address = parse_address(text)
    assert str(address) == taken
    assert address.internationalised == (not address.local.isascii())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "a",
        "a@",
        "@example.org",
        "a@localhost",
        "a@.example.org",
        "a@example..org",
        "a@example.org.",
        "a@-example.org",
        "a@example-.org",
        "a@exa_mple.org",
        "a@192.0.2.1",
        "a@[192.0.2.1]",
        ".a@example.org",
        "a.@example.org",
        "a..b@example.org",
        "a b@example.org",
        " a@example.org",
        "a@example.org ",
        "a@b@example.org",
        '"a b"@example.org',
        "A <a@example.org>",
        "a@example.org, b@example.org",
        "a@example.org\r\nBcc: b@example.org",
        "a\nb@example.org",
        "a\0@example.org",
        "a\u200b@example.org",
        "a\u2028@example.org",
        "a\ud800@example.org",
        "a@\ud800.org",
        f"{'l' * 65}@example.org",
        f"{'é' * 33}@example.org",
        f"a@{'l' * 64}.org",
        f"{'l' * 60}@{'d' * 60}.{'d' * 60}.{'d' * 60}.{'d' * 60}.org",
        f"a@{'ü' * 64}.org",
    ],
)
def test_addresses_that_nobody_has(text: str) -> None:
    with pytest.raises(MalformedAddress, match="malformed address") as caught:
        parse_address(text)
    assert caught.value.args[0].isprintable()


@settings(deadline=None)
@given(st.text() | st.emails() | st.tuples(st.text(), st.text()).map("@".join))
def test_every_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse_address(text)
    except MalformedAddress:
        return
    assert address == parse_address(str(address))
    assert str(address).isprintable()
    assert not set(str(address)) & set(' ,;:<>()[]"\\')
    assert len(str(address).encode()) <= 254
