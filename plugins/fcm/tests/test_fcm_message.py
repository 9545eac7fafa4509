"""What is enqueued, how big it is, and what FCM is sent."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import regex  # type: ignore[import-untyped]  # it comes without types
from hypothesis import given
from hypothesis import strategies as st

from plugins.fcm.tests.helpers import context_for, delivery, no_engine, prepared
from sendoff.plugin import InvalidNotification, Notification, Priority
from sendoff_fcm.channel import FcmChannel, facts, request_body
from sendoff_fcm.config import FcmConfig
from sendoff_fcm.message import Facts, apns_collapse_id, build, outline, webpush_topic
from sendoff_fcm.overrides import ANDROID_NOTIFICATION, FIELDS
from sendoff_fcm.size import LIMIT, cut, measured, worst_case
from sendoff_fcm.testing.validate import read_message

CHANNEL = FcmChannel("fcm", FcmConfig(), context_for(no_engine))
CUTTING = FcmChannel("fcm", FcmConfig(overflow="truncate"), context_for(no_engine))
FACTS = Facts(collapse_key="k", notification_id="n", outgoing_id="o")


def test_data_is_a_flat_map_of_strings() -> None:
    payload = prepared(CHANNEL, title="t", data={"id": 21465, "ok": True, "o": {}, "s": "é", "none": None, "f": 1.5})
    assert {"id": "21465", "ok": "true", "o": "{}", "s": "é", "none": "null", "f": "1.5"} == payload["data"]
    message = build(payload, FACTS)
    assert {**payload["data"], "notification_id": "n", "outgoing_id": "o"} == message["data"]


def test_ids_are_there_without_any_data() -> None:
    assert {"notification_id": "n", "outgoing_id": "o"} == build(prepared(CHANNEL, body="b"), FACTS)["data"]


@pytest.mark.parametrize(
    "key", ["from", "message_type", "collapse_key", "google.x", "gcm.notification.e", "notification_id", "outgoing_id"]
)
def test_reserved_keys_are_refused(key: str) -> None:
    with pytest.raises(InvalidNotification) as refused:
        prepared(CHANNEL, title="t", data={key: "x"})
    assert f"data.{key}" == refused.value.field


def test_a_key_called_notification_is_allowed() -> None:
    assert {"notification": "x", "Google.x": "y"} == prepared(CHANNEL, data={"notification": "x", "Google.x": "y"})[
        "data"
    ]


def test_every_option_finds_its_place() -> None:
    options: dict[str, Any] = {
        "image": "https://cdn.example.org/a.png",
        "link": "https://example.org/orders/17",
        "badge": 3,
        "sound": "ping",
        "android_channel": "orders",
        "analytics_label": "shipped",
    }
    message = build(prepared(CHANNEL, title="t", body="b", options=options), FACTS)
    assert {"title": "t", "body": "b", "image": options["image"]} == message["notification"]
    assert options["link"] == message["data"]["link"] == message["webpush"]["fcm_options"]["link"]
    assert {"tag": "k", "sound": "ping", "channel_id": "orders", "notification_count": 3} == message["android"][
        "notification"
    ]
    assert {"badge": 3, "sound": "ping", "mutable-content": 1} == message["apns"]["payload"]["aps"]
    assert {"image": options["image"]} == message["apns"]["fcm_options"]
    assert {"analytics_label": "shipped"} == message["fcm_options"]


def test_a_link_of_the_apps_own_is_only_data() -> None:
    message = build(prepared(CHANNEL, title="t", options={"link": "shop://orders/17"}), FACTS)
    assert ("shop://orders/17", None) == (message["data"]["link"], message["webpush"].get("fcm_options"))


def test_collapse_keys_are_the_same_everywhere_and_on_every_try() -> None:
    one = delivery(collapse_key="order:17")
    message = build({"title": "t"}, facts(one))
    assert ["order:17"] * 3 == [
        message["android"]["collapse_key"],
        message["apns"]["headers"]["apns-collapse-id"],
        message["android"]["notification"]["tag"],
    ]
    assert "order:17" == message["webpush"]["notification"]["tag"]
    assert webpush_topic("order:17") == message["webpush"]["headers"]["Topic"]
    assert message == build({"title": "t"}, facts(one))


def test_without_a_collapse_key_repeats_of_the_row_replace_each_other() -> None:
    one = delivery()
    message = build({"title": "t"}, facts(one))
    assert one.idempotency_key == message["android"]["collapse_key"] == message["apns"]["headers"]["apns-collapse-id"]


@given(st.text(min_size=1, max_size=512))
def test_collapse_ids_are_what_apple_and_browsers_take(key: str) -> None:
    key = key.encode(errors="replace").decode()
    assert len(apns_collapse_id(key).encode()) <= 64
    assert regex.fullmatch(r"[A-Za-z0-9_-]{1,32}", webpush_topic(key))


@pytest.mark.parametrize(("priority", "expected"), [("URGENT", "high"), ("NORMAL", "high"), ("BULK", "normal")])
def test_android_priority(priority: str, expected: str) -> None:
    message = build({"title": "t"}, facts(delivery(priority=Priority[priority])))
    assert expected == message["android"]["priority"]


def test_time_to_live_is_what_is_left() -> None:
    message = build({"title": "t"}, facts(delivery(ttl=3600.9)))
    assert ("3600s", "3600") == (message["android"]["ttl"], message["webpush"]["headers"]["TTL"])
    assert abs(int(message["apns"]["headers"]["apns-expiration"]) - time.time() - 3600) < 5


def test_time_to_live_has_fcms_limits() -> None:
    long, over, never = (build({"title": "t"}, facts(delivery(ttl=ttl))) for ttl in (9e9, -1, None))
    assert ["2419200s", "0s", None] == [one["android"].get("ttl") for one in (long, over, never)]
    assert ["0", None] == [one["apns"]["headers"].get("apns-expiration") for one in (over, never)]
    assert ["0", None] == [one["webpush"]["headers"].get("TTL") for one in (over, never)]


def test_data_alone_is_a_message_for_the_app() -> None:
    message = build(prepared(CHANNEL, data={"sync": True}), FACTS)
    assert "notification" not in message
    assert {"content-available": 1} == message["apns"]["payload"]["aps"]
    assert "5" == message["apns"]["headers"]["apns-priority"]
    assert "notification" not in message["android"]


def test_overrides_lie_on_top() -> None:
    options = {
        "android": {"notification": {"color": "#ff0000", "tag": "mine"}, "data": {"n": 1}},
        "apns": {"headers": {"apns-push-type": "alert"}, "payload": {"aps": {"category": "ORDER"}, "x": [1]}},
        "webpush": {"notification": {"requireInteraction": True}},
    }
    message = build(prepared(CHANNEL, title="t", options={**options, "sound": "ping"}), FACTS)
    assert {"tag": "mine", "sound": "ping", "color": "#ff0000"} == message["android"]["notification"]
    assert {"n": "1", "notification_id": "n", "outgoing_id": "o"} == message["android"]["data"]
    assert {"aps": {"sound": "ping", "category": "ORDER"}, "x": [1]} == message["apns"]["payload"]
    assert {"apns-collapse-id": "k", "apns-priority": "10", "apns-push-type": "alert"} == message["apns"]["headers"]
    assert {"tag": "k", "requireInteraction": True} == message["webpush"]["notification"]


@pytest.mark.parametrize("platform", ["android", "webpush"])
def test_data_of_a_platform_has_the_ids_and_the_common_data_below_it(platform: str) -> None:
    options = {platform: {"data": {"a": 2}}, "link": "shop://x"}
    content = prepared(CHANNEL, title="t", data={"a": 1, "b": "é" * 900}, options=options)
    message = build(content, FACTS)
    assert {**message["data"], "a": "2"} == message[platform]["data"]
    assert measured(content, FACTS) < 2 * 1800
    assert build(content, FACTS) == outline(content, FACTS)


def test_a_header_is_the_same_header_in_any_case() -> None:
    options = {"apns": {"headers": {"APNS-Collapse-ID": "mine"}}, "webpush": {"headers": {"topic": "mine"}}}
    message = build(prepared(CHANNEL, title="t", options=options), FACTS)
    assert {"apns-collapse-id": "mine", "apns-priority": "10"} == message["apns"]["headers"]
    assert {"Topic": "mine"} == message["webpush"]["headers"]


_VALUES = [None, True, -1, 7, 1.5, "x", "a b", "3s", "#ff0000", "HIGH", [], ["x"], ["3s"], [1], {}, {"x": 1}]
_PATHS = [
    *[f"android.{name}" for name in FIELDS["android"]],
    *[f"apns.{name}" for name in FIELDS["apns"]],
    *[f"webpush.{name}" for name in FIELDS["webpush"]],
    *[f"android.notification.{name}" for name in ANDROID_NOTIFICATION],
    "android.notification.light_settings.color.red",
    "android.notification.light_settings.light_on_duration",
    *[f"{platform}.fcm_options.analytics_label" for platform in FIELDS],
    "apns.fcm_options.image",
    "webpush.fcm_options.link",
    "apns.headers.apns-collapse-id",
    "webpush.headers.Urgency",
]


@pytest.mark.parametrize("path", _PATHS)
def test_fcm_takes_every_override_that_enqueue_lets_through(path: str) -> None:
    platform, *names = path.split(".")
    for value in [*_VALUES, "z" * 65]:
        override: Any = value
        for name in reversed(names):
            override = {name: override}
        field = _refused_field({platform: override})
        if field is None:
            content = prepared(CHANNEL, title="t", options={platform: override})
            read_message(request_body(build(content, FACTS), "phone-1", dry_run=False))
        else:
            assert field.startswith(f"options.fcm.{path}")


def _refused_field(options: dict[str, Any]) -> str | None:
    try:
        prepared(CHANNEL, title="t", options=options)
    except InvalidNotification as refused:
        return refused.field
    return None


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"topic": "news"}, "options.fcm.topic"),
        ({"condition": "'a' in topics"}, "options.fcm.condition"),
        ({"titel": "x"}, "options.fcm.titel"),
        ({"badge": -1}, "options.fcm.badge"),
        ({"badge": True}, "options.fcm.badge"),
        ({"image": "http://example.org/a.png"}, "options.fcm.image"),
        ({"sound": ""}, "options.fcm.sound"),
        ({"analytics_label": "a b"}, "options.fcm.analytics_label"),
        ({"collapse_key": "k"}, "options.fcm.collapse_key"),
        ({"android": []}, "options.fcm.android"),
        ({"android": {"prioritty": "high"}}, "options.fcm.android.prioritty"),
        ({"android": {"priority": "urgent"}}, "options.fcm.android.priority"),
        ({"android": {"priority": []}}, "options.fcm.android.priority"),
        ({"android": {"notification": {"color": "red"}}}, "options.fcm.android.notification.color"),
        ({"android": {"notification": {"visibility": "public"}}}, "options.fcm.android.notification.visibility"),
        ({"apns": {"headers": {"APNS-Expiration": "0"}}}, "options.fcm.apns.headers.APNS-Expiration"),
        ({"android": {"ttl": "3s"}}, "options.fcm.android.ttl"),
        ({"android": {"direct_boot_ok": "yes"}}, "options.fcm.android.direct_boot_ok"),
        ({"android": {"notification": {"colour": "#fff"}}}, "options.fcm.android.notification.colour"),
        ({"android": {"data": {"from": "x"}}}, "options.fcm.android.data.from"),
        ({"apns": {"headers": {"apns-expiration": "0"}}}, "options.fcm.apns.headers.apns-expiration"),
        ({"apns": {"headers": {"apns-priority": 5}}}, "options.fcm.apns.headers.apns-priority"),
        ({"apns": {"payload": {"aps": 1}}}, "options.fcm.apns.payload.aps"),
        ({"webpush": {"headers": {"TTL": "0"}}}, "options.fcm.webpush.headers.TTL"),
        ({"webpush": {"notification": "x"}}, "options.fcm.webpush.notification"),
    ],
)
def test_what_fcm_would_refuse_is_refused_at_enqueue(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidNotification) as refused:
        prepared(CHANNEL, title="t", options=options)
    assert field == refused.value.field


def test_a_topic_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidNotification, match="no row could have a verdict"):
        prepared(CHANNEL, title="t", options={"topic": "news"})
    with pytest.raises(InvalidNotification, match="is a topic"):
        prepared(CHANNEL, title="t", addresses={"fcm": ["phone-1", "/topics/news"]})


def test_nothing_to_say_is_refused() -> None:
    with pytest.raises(InvalidNotification, match="is missing, and so are body and data"):
        prepared(CHANNEL, title=" ")


# -------------------------------------------------------------------------------------------------------------- size


def test_too_large_is_said_in_bytes() -> None:
    with pytest.raises(InvalidNotification) as refused:
        prepared(CHANNEL, title="t", body="é" * 2100)
    assert ("body", "4200 bytes") == (refused.value.field, refused.value.kind)
    assert "FCM's limit is 4096" in refused.value.problem
    assert prepared(CHANNEL, title="t", body="e" * 2100)


def test_data_that_is_too_large_is_named() -> None:
    for channel in (CHANNEL, CUTTING):
        with pytest.raises(InvalidNotification) as refused:
            prepared(channel, title="t", body="b", data={"x": "é" * 2100})
        assert "data" == refused.value.field


def test_the_collapse_key_counts() -> None:
    body = "e" * 3400
    assert prepared(CHANNEL, title="t", body=body)
    with pytest.raises(InvalidNotification):
        prepared(CHANNEL, title="t", body=body, collapse_key="k" * 512)


def test_truncating_cuts_the_body_between_characters() -> None:
    family = "👨‍👩‍👧‍👦"
    payload = prepared(CUTTING, title="t", body=family * 300)
    assert payload["body"].endswith("…")
    assert set(regex.findall(r"\X", payload["body"][:-1])) == {family}
    notification = Notification(recipient="u1", type="t", title="t")
    assert LIMIT - len(family.encode()) < measured(payload, worst_case(notification)) <= LIMIT
    assert prepared(CUTTING, title="é" * 3000)["title"].endswith("é…")


@pytest.mark.parametrize("body", ["b", "b" * 3000, "b" * 6000])
def test_truncating_cuts_the_title_where_the_body_is_not_enough(body: str) -> None:
    payload = prepared(CUTTING, title="t" * 6000, body=body)
    assert payload["title"].endswith("t…")
    assert payload["body"][:150] == body[:150]
    facts = worst_case(Notification(recipient="u1", type="t", title="t"))
    assert LIMIT - 10 < measured(payload, facts) <= LIMIT


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.integers(0, 80))
def test_a_cut_text_is_a_beginning_of_whole_characters(text: str, limit: int) -> None:
    shorter = cut(text, limit)
    if shorter is None:
        return
    assert len(shorter.encode()) <= max(limit, len("…".encode()))
    if shorter != text:
        kept = shorter[:-1]
        assert "…" == shorter[-1]
        characters = regex.findall(r"\X", text)
        beginnings = {"".join(characters[:index]).rstrip() for index in range(len(characters) + 1)}
        assert kept in beginnings - {""}


contents = st.fixed_dictionaries(
    {"title": st.text(st.characters(codec="utf-8"), max_size=20)},
    optional={
        "body": st.text(st.characters(codec="utf-8"), max_size=40),
        "image": st.just("https://example.org/a.png"),
        "link": st.sampled_from(["https://example.org", "shop://x"]),
        "badge": st.integers(0, 9),
        "sound": st.just("ping"),
        "android_channel": st.just("orders"),
        "analytics_label": st.just("label"),
        "data": st.dictionaries(st.sampled_from("abc"), st.text(st.characters(codec="utf-8"), max_size=9)),
        "android": st.just({"notification": {"color": "#ff0000"}}),
    },
)


@given(contents, st.booleans(), st.none() | st.integers(0, 99), st.sampled_from(Priority))
def test_the_outline_is_what_the_sdk_makes(
    content: dict[str, Any], visible: bool, ttl: int | None, priority: Priority
) -> None:
    if not visible:
        content = {key: value for key, value in content.items() if key not in {"title", "body", "android"}}
    row = Facts("k", "n", "o", priority, ttl, None if ttl is None else 1_800_000_000 + ttl)
    assert build(content, row) == outline(content, row)


def test_the_request_names_a_token_or_an_installation() -> None:
    message = {"notification": {"title": "t"}}
    assert [
        {"message": {**message, "token": "fid22characters-xxxxxx:APA91b"}},
        {"message": {**message, "fid": "abc"}, "validate_only": True},
    ] == [
        json.loads(request_body(message, "fid22characters-xxxxxx:APA91b", dry_run=False)),
        json.loads(request_body(message, "fid:abc", dry_run=True)),
    ]
