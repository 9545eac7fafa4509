"""How a text travels as SMS: its encoding, and the segments that a provider sends and bills. Pure.

GSM 03.38 (3GPP TS 23.038 sections 6.2.1 and 6.2.1.1) is counted in septets, UCS-2 in 16-bit code units. One message
carries 140 octets: 160 septets or 70 units; in a longer text each segment gives 6 octets to the header that joins them
(3GPP TS 23.040 section 9.2.3.24.1), which leaves 153 septets or 67 units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from attrs import frozen

__all__ = ["BASIC", "EXTENSION", "Encoding", "Sms", "encode"]

Encoding = Literal["GSM-7", "UCS-2"]

#: The default alphabet in code order. Code 0x1B is not a character: it escapes to the extension table.
BASIC = (
    "@£$¥èéùìòÇ\nØø\rÅå"
    "Δ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ"
    " !\"#¤%&'()*+,-./"
    "0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNO"
    "PQRSTUVWXYZÄÖÑÜ§"
    "¿abcdefghijklmno"
    "pqrstuvwxyzäöñüà"
)
#: The extension table; each is the escape and one more septet.
EXTENSION = "\f^{}\\[~]|€"

_SEPTETS = {**dict.fromkeys(BASIC.replace("\x1b", ""), 1), **dict.fromkeys(EXTENSION, 2)}
#: Units of a lone message and of one segment among several.
CAPACITY: dict[Encoding, tuple[int, int]] = {"GSM-7": (160, 153), "UCS-2": (70, 67)}


@frozen
class Sms:
    """A text, its encoding, and the texts of its segments, in order; joined they are the text."""

    text: str
    encoding: Encoding
    segments: tuple[str, ...]


def encode(text: str) -> Sms:
    """GSM-7 where every character has it, else UCS-2, and the split into segments.

    A character is never divided: neither an extension character's two septets nor a surrogate pair, though a segment
    then stays one unit short.
    """
    if all(char in _SEPTETS for char in text):
        return Sms(text, "GSM-7", _split(text, _SEPTETS.__getitem__, *CAPACITY["GSM-7"]))
    return Sms(text, "UCS-2", _split(text, _units, *CAPACITY["UCS-2"]))


def _units(char: str) -> int:
    """UTF-16 code units: handsets read UCS-2 as UTF-16, so a character beyond U+FFFF is a surrogate pair."""
    return 2 if ord(char) > 0xFFFF else 1


def _split(text: str, cost: Callable[[str], int], alone: int, joined: int) -> tuple[str, ...]:
    if sum(map(cost, text)) <= alone:
        return (text,)
    segments: list[str] = []
    start = used = 0
    for position, char in enumerate(text):
        needed = cost(char)
        if used + needed > joined:
            segments.append(text[start:position])
            start, used = position, 0
        used += needed
    return (*segments, text[start:])
