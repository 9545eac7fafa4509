"""How a device is written as an address: a registration token as it is, an installation id as ``fid:<id>``.

A registration token begins with the installation id of its app, 22 characters, and a colon: no token is mistaken.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["FID", "Kind", "address_of", "address_problem", "target", "token_problem"]

Kind = Literal["token", "fid"]
FID = "fid:"
#: Bytes; tokens in use have 140 to 300, and the column is a key (PostgreSQL refuses entries above 2,704 bytes).
MAX_TOKEN = 1024


def address_of(token: str, kind: str) -> str:
    """The address of a registered device."""
    return f"{FID}{token}" if kind == "fid" else token


def target(address: str) -> tuple[Kind, str]:
    """The field of FCM's message that names the device, and its value."""
    return ("fid", address.removeprefix(FID)) if address.startswith(FID) else ("token", address)


def token_problem(token: object) -> str | None:
    """What is wrong with a registration token or installation id, None where nothing is as far as can be told."""
    if not isinstance(token, str) or not token:
        return "must be text, as the client's SDK gave it"
    if not token.isprintable() or any(char.isspace() for char in token):
        return "has a blank or an invisible character; pass it as the client's SDK gave it"
    if len(token.encode(errors="replace")) > MAX_TOKEN:
        return f"is {len(token)} characters; tokens have at most {MAX_TOKEN} bytes"
    return None


def address_problem(address: str) -> str | None:
    """The same for an address. A topic is none: FCM's answer to it says nothing about any recipient."""
    if address.startswith("/topics/") or " in topics" in address:
        return "is a topic or condition, for which FCM answers nothing about any recipient; give device tokens"
    return token_problem(target(address)[1])
