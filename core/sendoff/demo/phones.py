"""The first source, for push: who has which phone by devices.csv, by rules of the accounts' own.

In words: a token belongs to the customer of its last line. Of the tokens of one installation only the one whose line
comes last is in use, the others are replaced. A token that begins with ``dead-``, ``malformed-`` or ``foreign-`` is
one that FCM refuses for good; every other takes what it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from sendoff.demo.facts import Phone
from sendoff.demo.sheets import sheet

__all__ = ["Phones", "read_phones"]

#: The beginning of a token, and FCM's code for what is wrong with it.
REFUSED: Mapping[str, str] = {
    "dead-": "UNREGISTERED",
    "malformed-": "INVALID_ARGUMENT",
    "foreign-": "SENDER_ID_MISMATCH",
}


@frozen
class Phones:
    """What devices.csv says."""

    by_token: Mapping[str, Phone]
    #: Lines of devices.csv with something in them.
    lines: int
    #: Lines without a token that could be one.
    unusable: int
    #: Lines that a later line of the same token replaces.
    repeated: int

    def live(self, owner: str) -> tuple[str, ...]:
        """The tokens that have to get what ``owner`` is sent."""
        return tuple(phone.token for phone in self.by_token.values() if phone.owner == owner and phone.state == "live")


def read_phones(folder: Path) -> Phones:
    """Read devices.csv."""
    lines = list(sheet(folder / "devices.csv"))
    usable = [[field.strip() for field in fields] for fields in lines if len(fields[1].split()) == 1]
    last = {fields[1]: fields for fields in usable}
    newest = {fields[3]: fields[1] for fields in usable if fields[3]}
    phones = {}
    for token, (owner, _, _, installation) in last.items():
        code = next((code for prefix, code in REFUSED.items() if token.startswith(prefix)), None)
        replaced = bool(installation) and newest[installation] != token
        phones[token] = Phone(token, owner, "replaced" if replaced else "live" if code is None else "dead", code)
    return Phones(phones, len(lines), len(lines) - len(usable), len(usable) - len(last))
