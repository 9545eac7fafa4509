"""Header values on the wire: RFC 5322 folding and RFC 2047 encoded words, for any text.

The standard library's own folding loses blanks and decodes text that only looks encoded (``=?utf-8?q?..?=`` in a title
would show as something else), so values are written here and handed over ready, by the interface that
``email.policy.EmailPolicy`` documents for header objects: ``name`` and ``fold()``.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from email.policy import Policy
from typing import Self

__all__ = ["WireHeader", "ascii_header", "control_character", "text_header", "word_phrase"]

#: RFC 5322 section 2.1.1: a line should have no more than 78 characters and must have no more than 998.
LINE = 78
MAX_LINE = 998
#: RFC 2047 section 2: a line with an encoded word has at most 76 characters, the word itself 75; 12 of them are
#: ``=?utf-8?b?`` and ``?=``.
WORD_LINE = 76
WORD_FRAME = 12
WORD_BYTES = (75 - WORD_FRAME) // 4 * 3
_PRINTABLE_ASCII = re.compile(r"[!-~]+(?: [!-~]+)*")
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")


class WireHeader(str):
    """A header value that is folded already (lines end in CRLF, the next one begins with a blank)."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, name: str, folded: str) -> Self:
        value = super().__new__(cls, folded)
        value.name = name
        return value

    def fold(self, *, policy: Policy) -> str:
        """The whole header with its name; called by the policy when the message is written."""
        return f"{self.name}: {self}{policy.linesep}"


def control_character(text: str) -> int | None:
    """The position of the first character that would end or garble a header line, None where there is none.

    Line feeds and carriage returns are how headers are injected. Some readers, Python's among them, also break lines
    at the other controls and at U+2028 and U+2029. A tab is a blank (RFC 5322 section 2.2.2).
    """
    for position, char in enumerate(text):
        if char != "\t" and unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}:
            return position
    return None


def text_header(name: str, text: str) -> WireHeader:
    """An unstructured header (Subject, X-...): plain where the text is, else encoded words, which any reader decodes
    to exactly ``text``."""
    _refuse_controls(name, text)
    if _PRINTABLE_ASCII.fullmatch(text) and "=?" not in text:
        folded = _fold_words(text.split(" "), len(name) + 2)
        if all(len(line) <= MAX_LINE for line in f"{name}: {folded}".split("\r\n")):
            return WireHeader(name, folded)
    return WireHeader(name, "\r\n ".join(_encoded_words(text, len(name) + 2)))


def ascii_header(name: str, value: str) -> WireHeader:
    """A structured header whose value is ready (an address list, a message id, a URL in brackets).

    ValueError where it has control characters or does not fit in one line: it cannot be encoded.
    """
    _refuse_controls(name, value)
    if len(name) + 2 + len(value) > MAX_LINE:
        raise ValueError(f"the header {name} is too long for one line")
    return WireHeader(name, value)


def word_phrase(text: str) -> str:
    """A display name (RFC 5322 phrase): atoms where it is that plain, else encoded words, folded."""
    _refuse_controls("display name", text)
    if _ATOMS.fullmatch(text) and "=?" not in text and len(text) <= LINE // 2:
        return text
    return "\r\n ".join(_encoded_words(text, len("Reply-To: ")))


def _refuse_controls(name: str, text: str) -> None:
    position = control_character(text)
    if position is not None:
        raise ValueError(f"the header {name} has a control character at position {position}")


def _fold_words(words: list[str], start: int) -> str:
    lines, width = [words[0]], start + len(words[0])
    for word in words[1:]:
        if width + 1 + len(word) > LINE:
            lines.append(word)
            width = 1 + len(word)
        else:
            lines[-1] += f" {word}"
            width += 1 + len(word)
    return "\r\n ".join(lines)


def _encoded_words(text: str, start: int) -> list[str]:
    """Encoded words of whole characters, one to a line; blanks between encoded words are not part of the text
    (RFC 2047 section 6.2)."""
    room = max(12, (WORD_LINE - start - WORD_FRAME) // 4 * 3)
    words: list[bytes] = [b""]
    for char in text:
        encoded = char.encode()
        if len(words[-1]) + len(encoded) > min(room, WORD_BYTES):
            words.append(b"")
            room = WORD_BYTES
        words[-1] += encoded
    return [f"=?utf-8?b?{base64.b64encode(word).decode()}?=" for word in words]
