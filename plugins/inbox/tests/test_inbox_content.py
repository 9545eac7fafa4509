"""What an inbox refuses at enqueue, and what it keeps."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from sendoff.plugin import InvalidNotification, Notification
from sendoff_inbox.content import MAX_BYTES, prepared


def notification(options: Any = None, **content: Any) -> Notification:
    return Notification(
        recipient="u1", type="t", options={} if options is None else {"inbox": options}, **(content or {"title": "x"})
    )


def refused(options: Any = None, **content: Any) -> InvalidNotification:
    with pytest.raises(InvalidNotification) as caught:
        prepared(notification(options, **content), "inbox")
    return caught.value


def test_title_or_body_is_enough() -> None:
    assert prepared(notification(title="x"), "inbox") == {"title": "x"}
    assert prepared(notification(body="x"), "inbox") == {"body": "x"}


@pytest.mark.parametrize("content", [{"data": {"a": 1}}, {"title": " ", "body": "\n"}])
def test_an_entry_without_words_is_refused(content: dict[str, Any]) -> None:
    assert refused(**content).field == "title"


def test_options_go_by_the_name_of_the_channel() -> None:
    written = Notification(recipient="u1", type="t", title="x", options={"feed": {"link": "/a"}, "inbox": {"no": 1}})
    assert prepared(written, "feed") == {"title": "x", "link": "/a"}


@pytest.mark.parametrize(
    "link", ["/orders/17?a=b#c", "https://example.org/ü", "shop://orders/17", "mailto:a@example.org", "orders/17", "📦"]
)
def test_links_that_lead_somewhere(link: str) -> None:
    assert prepared(notification({"link": link, "icon": link, "image": link}), "inbox") == {
        "title": "x",
        "link": link,
        "options": {"icon": link, "image": link},
    }


@pytest.mark.parametrize(
    "link",
    [
        "",
        " ",
        None,
        17,
        ["/a"],
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "java\tscript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "/\\evil.example",
        "/a b",
        "/a\u200bb",
        "/a\nb",
        "/" + "a" * 2048,
    ],
)
@pytest.mark.parametrize("option", ["link", "icon", "image"])
def test_links_that_a_client_must_not_follow(option: str, link: object) -> None:
    assert refused({option: link}).field == f"options.inbox.{option}"


def test_an_unknown_option_names_the_known_ones() -> None:
    error = refused({"lnik": "/a"})
    assert error.field == "options.inbox.lnik"
    assert "link, icon, image, actions" in error.problem


def test_actions_are_labels_with_links() -> None:
    actions = [{"label": "نمایش\u200cها", "link": "/a"}, {"label": "👨\u200d👩\u200d👧", "link": "/b"}]
    assert prepared(notification({"actions": actions}), "inbox")["options"] == {"actions": actions}


@pytest.mark.parametrize(
    ("actions", "field"),
    [
        ({"label": "x", "link": "/"}, "options.inbox.actions"),
        ([], "options.inbox.actions"),
        ([{"label": "x", "link": "/"}] * 6, "options.inbox.actions"),
        (["x"], "options.inbox.actions[0]"),
        ([{"label": "x", "link": "/"}, {"link": "/"}], "options.inbox.actions[1].label"),
        ([{"label": "x"}], "options.inbox.actions[0].link"),
        ([{"label": "x\ny", "link": "/"}], "options.inbox.actions[0].label"),
        ([{"label": "x", "link": "/", "method": "post"}], "options.inbox.actions[0].method"),
    ],
)
def test_actions_that_are_none(actions: object, field: str) -> None:
    assert refused({"actions": actions}).field == field


def test_the_limit_is_in_bytes_and_says_whose() -> None:
    room = MAX_BYTES - len(orjson.dumps({"title": "x", "body": ""}))
    assert len(orjson.dumps(prepared(notification(title="x", body="é" * (room // 2)), "inbox"))) >= MAX_BYTES - 1
    error = refused(title="x", body="é" * (room // 2 + 1))
    assert (error.field, "65536" in error.problem) == ("body", True)
    assert refused(title="x", data={"long": "y" * MAX_BYTES}).field == "data"
