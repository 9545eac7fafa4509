"""Whose phone is whose by devices.csv, by the accounts' own rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from sendoff.demo.facts import Phone
from sendoff.demo.phones import Phones, read_phones


def read(folder: Path, *lines: str) -> Phones:
    text = "\n".join(["customer_id,token,platform,installation", *lines])
    (folder / "devices.csv").write_text(f"{text}\n", encoding="utf-8")
    return read_phones(folder)


def test_a_phone_and_two_phones(tmp_path: Path) -> None:
    phones = read(tmp_path, "C-1,a,ios,", " C-2 ,b,web,i1", "C-1, c ,,i2")
    assert phones.by_token == {
        "a": Phone("a", "C-1", "live", None),
        "b": Phone("b", "C-2", "live", None),
        "c": Phone("c", "C-1", "live", None),
    }
    assert (phones.live("C-1"), phones.live("C-2"), phones.live("C-3")) == (("a", "c"), ("b",), ())


@pytest.mark.parametrize(
    ("token", "code"),
    [("dead-a", "UNREGISTERED"), ("malformed-a", "INVALID_ARGUMENT"), ("foreign-a", "SENDER_ID_MISMATCH")],
)
def test_what_fcm_refuses_is_no_phone(tmp_path: Path, token: str, code: str) -> None:
    phones = read(tmp_path, f"C-1,{token},ios,", "C-1,slow-40-a,ios,")
    assert phones.by_token[token] == Phone(token, "C-1", "dead", code)
    assert phones.live("C-1") == ("slow-40-a",)


def test_a_token_belongs_to_whoever_comes_last(tmp_path: Path) -> None:
    phones = read(tmp_path, "C-1,a,ios,", "C-2,a,ios,")
    assert (phones.live("C-1"), phones.live("C-2"), phones.repeated) == ((), ("a",), 1)


def test_of_one_installation_the_last_line_counts(tmp_path: Path) -> None:
    phones = read(tmp_path, "C-1,a,ios,i", "C-1,b,ios,i")
    assert [phone.state for phone in phones.by_token.values()] == ["replaced", "live"]
    phones = read(tmp_path, "C-1,a,ios,i", "C-1,b,ios,i", "C-1,a,ios,i")
    assert [phone.state for phone in phones.by_token.values()] == ["live", "replaced"]


def test_lines_without_a_token_and_blank_ones(tmp_path: Path) -> None:
    phones = read(tmp_path, "C-1,,ios,", "C-1,not known yet,,", "", ",,,", "C-1,a,,")
    assert (phones.lines, phones.unusable, phones.repeated, list(phones.by_token)) == (3, 2, 0, ["a"])
