"""Secrets are read late and shown never."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from urllib.parse import quote

import pytest

from sendoff.errors import SecretError
from sendoff.secret import MASK, Secret, scrub


def test_a_secret_is_masked_wherever_it_is_shown() -> None:
    secret = Secret("s3cr3t-token")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", f"{[secret]}", f"{secret}"]
    assert not [text for text in shown if "s3cr3t" in text]
    assert f"Secret(given: {MASK})" == repr(secret)


def test_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret.parse({"env": "PAGER_TOKEN"})
    monkeypatch.setenv("PAGER_TOKEN", "from-the-environment")
    assert ("env PAGER_TOKEN", "from-the-environment") == (secret.source, secret.reveal())


def test_from_a_file_without_its_last_line_break(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("from-the-file\n")
    secret = Secret.parse({"file": str(path)})
    assert (f"file {path}", "from-the-file") == (secret.source, secret.reveal())


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAGER_TOKEN", raising=False)
    with pytest.raises(SecretError, match="variable PAGER_TOKEN is not set or empty"):
        Secret(env="PAGER_TOKEN").reveal()


def test_a_variable_that_is_empty_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER_TOKEN", "")
    with pytest.raises(SecretError, match="PAGER_TOKEN"):
        Secret(env="PAGER_TOKEN").reveal()


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match=r"nowhere cannot be read: FileNotFoundError"):
        Secret(file=str(tmp_path / "nowhere")).reveal()


@pytest.mark.parametrize(("content", "problem"), [(b"", "is empty"), (b" \n", "is empty"), (b"\xff\xfe\x00", "read")])
def test_a_file_without_a_usable_value_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(SecretError, match=problem):
        Secret(file=str(path)).reveal()


@pytest.mark.parametrize(
    "value",
    [None, 5, [], {}, {"env": ""}, {"env": 5}, {"url": "x"}, {"env": "A", "file": "b"}, {"env": None}, b"bytes"],
)
def test_what_is_no_source_is_refused_without_being_shown(value: object) -> None:
    with pytest.raises(SecretError, match=r'\{env = "NAME"\} or \{file = "path"\}'):
        Secret.parse(value)


def test_exactly_one_source_is_needed() -> None:
    with pytest.raises(SecretError, match="exactly one source"):
        Secret("a", env="B")
    with pytest.raises(SecretError, match="exactly one source"):
        Secret()


def test_a_rotated_secret_is_read_again_when_it_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret(env="PAGER_TOKEN")
    monkeypatch.setenv("PAGER_TOKEN", "old-value")
    assert secret.reveal() == "old-value"
    monkeypatch.setenv("PAGER_TOKEN", "new-value")
    assert secret.reveal() == "old-value"
    secret.forget()
    assert secret.reveal() == "new-value"
    assert scrub("old-value new-value") == f"{MASK} {MASK}"


def test_a_secret_does_not_leave_its_process() -> None:
    with pytest.raises(SecretError, match="does not leave its process"):
        pickle.dumps(Secret("s3cr3t-token"))
    with pytest.raises(SecretError):
        copy.deepcopy(Secret("s3cr3t-token"))
    with pytest.raises(TypeError):
        json.dumps(Secret("s3cr3t-token"))


def test_secrets_are_equal_by_their_source() -> None:
    assert Secret(env="A") == Secret(env="A")
    assert len({Secret(env="A"), Secret(env="A"), Secret(file="A")}) == 2
    assert Secret("A") != "A"


# ------------------------------------------------------------------------------------------------------------- scrub


def test_a_revealed_secret_is_taken_out_of_any_text() -> None:
    Secret("token-of-the-pager").reveal()
    text = "POST https://api.example.org/token-of-the-pager/send failed: token-of-the-pager"
    assert scrub(text) == f"POST https://api.example.org/{MASK}/send failed: {MASK}"


def test_a_secret_that_holds_another_one_goes_first() -> None:
    Secret("inner-part").reveal()
    Secret("outer inner-part outer").reveal()
    assert scrub("<outer inner-part outer>") == f"<{MASK}>"


def test_a_secret_is_found_as_a_url_spells_it() -> None:
    value = "p@ss/w+rd?=&"
    Secret(value).reveal()
    for spelling in (value, quote(value), quote(value, safe=""), quote(value, safe="/@+=&")):
        assert scrub(f"GET https://x.example/{spelling}/") == f"GET https://x.example/{MASK}/"


def test_a_secret_that_nobody_revealed_is_not_known() -> None:
    Secret("never-revealed-value")
    assert scrub("never-revealed-value") == "never-revealed-value"


def test_words_of_three_letters_stay() -> None:
    Secret("the").reveal()
    assert scrub("on the way") == "on the way"
