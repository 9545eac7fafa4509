"""The form of an e-mail address: what an SMTP server would refuse before it looks anybody up."""

from __future__ import annotations

import re

from attrs import frozen

__all__ = ["Address", "MalformedAddress", "parse_address"]

#: RFC 5321 section 4.5.3.1 (octets), with the 254 that leave room for the brackets of a 256-octet path (erratum 1690).
MAX_LOCAL = 64
MAX_ADDRESS = 254
#: RFC 1035 section 2.3.4, without the trailing dot and the length octets.
MAX_LABEL = 63
MAX_DOMAIN = 253

#: atext of RFC 5322 section 3.2.3. Quoted local parts ("a b"@example.org) and address literals (a@[192.0.2.1]) are
#: legal as well; no real mailbox needs them, and they are how headers get smuggled.
_ATEXT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-/=?^_`{|}~")
#: RFC 1123 section 2.1: letters, digits and inner hyphens.
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")


class MalformedAddress(ValueError):
    """No mailbox can have this address. The text says why and does not repeat the address."""


@frozen
class Address:
    """An address as a server takes it: the domain in ASCII (IDNA), the local part as it was written."""

    local: str
    domain: str

    @property
    def internationalised(self) -> bool:
        """Whether it needs SMTPUTF8 (RFC 6531): a local part outside ASCII has no other spelling."""
        return not self.local.isascii()

    def __str__(self) -> str:
        return f"{self.local}@{self.domain}"


def parse_address(text: str) -> Address:
    """``local@domain`` in its parts. Pure and total: :class:`MalformedAddress` for everything else.

    Nothing is trimmed or mended: an address with a blank around it is a slip that its owner should hear of.
    """
    local, at, domain = text.rpartition("@")
    if not at:
        raise MalformedAddress("malformed address: it has no @")
    if not local or not domain:
        raise MalformedAddress(f"malformed address: nothing {'before' if not local else 'behind'} the @")
    for atom in local.split("."):
        if not atom:
            raise MalformedAddress("malformed address: a dot at an end of the local part, or two in a row")
        if not all(char in _ATEXT or (ord(char) >= 0x80 and char.isprintable()) for char in atom):
            raise MalformedAddress("malformed address: the local part has a character that is not allowed there")
    address = Address(local, _ascii_domain(domain))
    # Counted only now: what is left is printable, so it has an encoding.
    if len(local.encode()) > MAX_LOCAL:
        raise MalformedAddress(f"malformed address: the local part is longer than {MAX_LOCAL} bytes")
    if len(str(address).encode()) > MAX_ADDRESS:
        raise MalformedAddress(f"malformed address: longer than {MAX_ADDRESS} bytes")
    return address


def _ascii_domain(domain: str) -> str:
    if not domain.isascii():
        try:
            domain = domain.encode("idna").decode("ascii")
        except UnicodeError:
            raise MalformedAddress("malformed address: the domain has no ASCII form (IDNA)") from None
    labels = domain.split(".")
    if len(labels) < 2:
        raise MalformedAddress("malformed address: the domain has no dot")
    if any(_LABEL.fullmatch(label) is None or len(label) > MAX_LABEL for label in labels):
        raise MalformedAddress("malformed address: the domain is not made of letters, digits and inner hyphens")
    if labels[-1].isdigit():
        raise MalformedAddress("malformed address: the domain ends in a number")
    if len(domain) > MAX_DOMAIN:
        raise MalformedAddress(f"malformed address: the domain is longer than {MAX_DOMAIN} characters")
    return domain
