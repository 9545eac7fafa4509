"""Encodings and segments."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sendoff_sms_stub.segments import BASIC, CAPACITY, EXTENSION, Sms, encode

GSM = BASIC.replace("\x1b", "") + EXTENSION
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.sampled_from(GSM), max_size=2000)


def octets(text: str) -> int:
    return len(text.encode("utf-16-be"))


def units(sms: Sms, text: str) -> int:
    return len(text) + sum(text.count(char) for char in EXTENSION) if sms.encoding == "GSM-7" else octets(text) // 2


def test_the_alphabet_is_gsm_03_38() -> None:
    assert len(BASIC) == 128
    assert len(set(BASIC)) == 128
    assert not set(BASIC) & set(EXTENSION)
    # Spot checks by code, from the table of 3GPP TS 23.038.
    codes = {
        0: "@",
        2: "$",
        9: "Ç",
        10: "\n",
        13: "\r",
        16: "Δ",
        26: "Ξ",
        27: "\x1b",
        36: "¤",
        64: "¡",
        96: "¿",
        127: "à",
    }
    assert {code: BASIC[code] for code in codes} == codes
    assert all(BASIC[ord(char)] == char for char in " !\"#%&'()*+,-./0123456789:;<=>?ABCXYZabcxyz")


@pytest.mark.parametrize(
    ("text", "encoding", "segments"),
    [
        ("", "GSM-7", 1),
        ("a" * 160, "GSM-7", 1),
        ("a" * 161, "GSM-7", 2),
        ("a" * 306, "GSM-7", 2),
        ("a" * 307, "GSM-7", 3),
        ("€" * 80, "GSM-7", 1),
        ("€" * 81, "GSM-7", 2),
        ("a" * 159 + "€", "GSM-7", 2),
        ("€" * 152, "GSM-7", 2),
        ("€" * 153, "GSM-7", 3),  # 76 to a segment, because 153 is odd and none is divided
        ("ç", "UCS-2", 1),  # the alphabet has the capital only
        ("`", "UCS-2", 1),
        ("\t", "UCS-2", 1),
        ("\x1b", "UCS-2", 1),
        ("я" * 70, "UCS-2", 1),
        ("я" * 71, "UCS-2", 2),
        ("я" * 134, "UCS-2", 2),
        ("я" * 135, "UCS-2", 3),
        ("😀" * 35, "UCS-2", 1),
        ("😀" * 36, "UCS-2", 2),
        ("😀" * 66, "UCS-2", 2),
        ("😀" * 67, "UCS-2", 3),  # 33 to a segment
        ("я" * 66 + "😀" + "я" * 5, "UCS-2", 2),
    ],
)
def test_where_segments_end(text: str, encoding: str, segments: int) -> None:
    sms = encode(text)
    assert (encoding, segments) == (sms.encoding, len(sms.segments))


@settings(deadline=None)
@given(texts)
def test_segments_are_the_text_and_fit(text: str) -> None:
    sms = encode(text)
    alone, joined = CAPACITY[sms.encoding]
    assert "".join(sms.segments) == text
    room = alone if len(sms.segments) == 1 else joined
    assert all(units(sms, segment) <= room for segment in sms.segments)
    # None is wasted: a segment ends where the next character no longer fits.
    for this, following in zip(sms.segments, sms.segments[1:], strict=False):
        assert units(sms, this + following[0]) > joined
    if len(sms.segments) > 1:
        assert units(sms, text) > alone


@settings(deadline=None)
@given(texts)
def test_gsm_only_where_every_character_has_it(text: str) -> None:
    assert (encode(text).encoding == "GSM-7") == (set(text) <= set(GSM))
