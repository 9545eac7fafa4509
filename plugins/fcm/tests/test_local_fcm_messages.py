"""What the local FCM refuses, and in which words: status, FcmError and the field that is named."""

from __future__ import annotations

import json
import warnings
from datetime import timedelta
from typing import Any

import httpx
import pytest

from plugins.fcm.tests.test_local_fcm import client_for
from sendoff_fcm.testing import LocalFCM
from sendoff_fcm.testing.validate import MAX_BYTES, Refused, payload_bytes, read_message

pytest_plugins = ["sendoff_fcm.testing.fixtures"]

FCM = "type.googleapis.com/google.firebase.fcm.v1.FcmError"


def refusal(content: object) -> tuple[str | None, str | None, str]:
    """The FcmError, the first violation's field and the text that ``content`` is refused with."""
    with pytest.raises(Refused) as refused:
        read_message(content if isinstance(content, bytes) else json.dumps(content).encode())
    assert 400 == refused.value.answer.status
    found = json.loads(refused.value.answer.body)["error"]
    assert (400, "INVALID_ARGUMENT") == (found["code"], found["status"])
    details = found.get("details", [])
    codes = [detail["errorCode"] for detail in details if detail["@type"] == FCM]
    fields = [detail["fieldViolations"][0].get("field") for detail in details if "fieldViolations" in detail]
    return next(iter(codes), None), next(iter(fields), None), found["message"]


INVALID = "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("message", "code", "field"),
    [
        ({}, INVALID, "message"),
        ({"data": {"a": "b"}}, INVALID, "message"),
        ({"token": "a", "topic": "b"}, None, "message"),
        ({"token": "a", "fid": "b"}, None, "message"),
        ({"token": 7}, None, "message.token"),
        ({"token": "two words"}, INVALID, "message.token"),
        ({"fid": ""}, INVALID, "message.fid"),
        ({"topic": "/topics/a b"}, INVALID, "message.topic"),
        ({"token": "a", "data": {"a": 12}}, None, "message.data[0].value"),
        ({"token": "a", "data": {"a": "b", "c": {}}}, None, "message.data[1].value"),
        ({"token": "a", "data": []}, None, "message.data"),
        ({"token": "a", "data": {"from": "b"}}, INVALID, "message.data"),
        ({"token": "a", "data": {"message_type": "b"}}, INVALID, "message.data"),
        ({"token": "a", "data": {"collapse_key": "b"}}, INVALID, "message.data"),
        ({"token": "a", "data": {"google.x": "b"}}, INVALID, "message.data"),
        ({"token": "a", "android": {"data": {"gcm.x": "b"}}}, INVALID, "message.android.data"),
        ({"token": "a", "android": {"data": {"x": 1}}}, None, "message.android.data[0].value"),
        ({"token": "a", "android": {"ttl": "2419201s"}}, INVALID, "message.android.ttl"),
        ({"token": "a", "android": {"ttl": "-1s"}}, INVALID, "message.android.ttl"),
        ({"token": "a", "android": {"ttl": 5}}, None, "message.android.ttl"),
        ({"token": "a", "android": {"ttl": "5"}}, None, "message.android.ttl"),
        ({"token": "a", "android": {"priority": "urgent"}}, None, "message.android.priority"),
        ({"token": "a", "android": {"priority": 1}}, None, "message.android.priority"),
        ({"token": "a", "android": {"colour": "red"}}, None, "message.android"),
        ({"token": "a", "android": {"notification": {"titel": "x"}}}, None, "message.android.notification"),
        ({"token": "a", "android": {"direct_boot_ok": "yes"}}, None, "message.android.direct_boot_ok"),
        (
            {"token": "a", "android": {"notification": {"title_loc_args": ["a", 1]}}},
            None,
            "message.android.notification.title_loc_args[1]",
        ),
        ({"token": "a", "apns": {"headers": {"apns-priority": 10}}}, None, "message.apns.headers[0].value"),
        ({"token": "a", "apns": {"headers": {"apns-collapse-id": "é" * 33}}}, INVALID, "message.apns.headers"),
        ({"token": "a", "apns": {"payload": "x"}}, None, "message.apns.payload"),
        (
            {"token": "a", "fcm_options": {"analytics_label": "no spaces"}},
            INVALID,
            "message.fcm_options.analytics_label",
        ),
        ({"token": "a", "notification": "Hello"}, None, "message.notification"),
        ({"token": "a", "colour": "red"}, None, "message"),
    ],
)
def test_a_message_that_is_wrong(message: dict[str, Any], code: str | None, field: str) -> None:
    assert (code, field) == refusal({"message": message})[:2]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", None),
        (b"{", None),
        (b"[]", None),
        (b'"message"', None),
        (b'{"message": {"token": "\xff"}}', None),
        (b'{"message": {"token": "a"}, "dry_run": true}', ""),
        (b'{"message": {"token": "a"}, "validate_only": "yes"}', "validate_only"),
        (b'{"message": null}', "message"),
        (b'{"message": []}', "message"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, None),
        (b"[" * 100_000, None),
    ],
)
def test_a_body_that_is_wrong(body: bytes, field: str | None) -> None:
    assert (None, field or None) == refusal(body)[:2]


def test_the_texts_are_the_real_ones() -> None:
    assert (
        "Invalid value at 'message.data[0].value' (TYPE_STRING), 12"
        == refusal({"message": {"token": "a", "data": {"x": 12}}})[2]
    )
    assert "Recipient of the message is not set." == refusal({"message": {}})[2]
    assert (
        "Invalid JSON payload received. Unknown name \"x\" at 'message': Cannot find field."
        == refusal({"message": {"x": 1}})[2]
    )


@pytest.mark.parametrize(
    "message",
    [
        {"token": "a", "android": {"collapseKey": "k", "ttl": "3.5s", "priority": "HIGH"}},
        {"token": "a", "android": {"ttl": "0s", "priority": "normal", "notification": {"sticky": True}}},
        {"token": "a", "android": {"ttl": "2419200s"}, "data": {"notification": "allowed", "": "x"}},
        {"token": "a", "apns": {"payload": {"aps": {"alert": {"title": "x"}, "badge": 3}, "own": [1, {"a": None}]}}},
        {"token": "a", "webpush": {"headers": {"TTL": "5"}, "notification": {"title": "x", "actions": []}}},
        {"token": "a", "notification": None, "topic": None},
        {"fid": "fId0", "fcm_options": {"analytics_label": "a-b_c.d~e%"}},
        {"condition": "'a' in topics"},
    ],
)
def test_a_message_that_is_right(message: dict[str, Any]) -> None:
    parsed = read_message(json.dumps({"message": message}).encode())
    target = next(name for name in ("token", "fid", "topic", "condition") if message.get(name))
    assert (target, message[target]) == (parsed.target, parsed.token)


# ------------------------------------------------------------------------------------------------------------ size


def test_a_payload_counts_in_bytes() -> None:
    fits = {"message": {"token": "a", "data": {"k": "é" * ((MAX_BYTES - 2) // 2) + "x"}}}
    assert MAX_BYTES == payload_bytes(fits["message"])["android"]
    read_message(json.dumps(fits).encode())
    fits["message"]["data"]["k"] += "x"  # type: ignore[index] # the dictionary written above
    assert (INVALID, None, "Android message is too big") == refusal(fits)


@pytest.mark.parametrize(
    ("message", "platform"),
    [
        ({"token": "a", "data": {"k": "x" * 2000}, "notification": {"title": "x" * 2100}}, "Android"),
        ({"token": "a", "android": {"data": {"k": "x" * 4100}}}, "Android"),
        ({"token": "a", "data": {"k": "x" * 2000}, "apns": {"payload": {"aps": {"alert": "x" * 2100}}}}, "iOS"),
        ({"token": "a", "webpush": {"data": {"k": "x" * 4100}}}, "WebPush"),
        ({"topic": "news", "data": {"k": "x" * 2048}}, "Android"),
    ],
)
def test_a_payload_that_is_too_big_for_one_platform(message: dict[str, Any], platform: str) -> None:
    assert f"{platform} message is too big" == refusal({"message": message})[2]


def test_a_platforms_own_data_stands_for_the_common_data() -> None:
    message = {"token": "a", "data": {"k": "x" * 3000}, "android": {"data": {"k": "x" * 3000}}}
    assert {"android": 3001} == payload_bytes(message)
    read_message(json.dumps({"message": message}).encode())


# ------------------------------------------------------------------------------------- order, over the wire, and SDK


def test_fault_is_found_in_the_order_of_the_real_one(local_fcm: LocalFCM) -> None:
    wrong = {"message": {"token": "phone", "data": {"x": 1}}}
    elsewhere = local_fcm.send_url.replace("sendoff-local", "other")
    with client_for(local_fcm) as client:
        answer = client.post(elsewhere, json=wrong, headers={"authorization": "Bearer unknown"})
        assert (401, "UNAUTHENTICATED") == (answer.status_code, answer.json()["error"]["status"])
        answer = client.post(elsewhere, json=wrong)
        assert (404, "NOT_FOUND") == (answer.status_code, answer.json()["error"]["status"])
        assert "details" not in answer.json()["error"]
        local_fcm.answer("phone", "internal")
        assert 400 == client.post(local_fcm.send_url, json=wrong).status_code
        local_fcm.down()
        assert 503 == client.post(local_fcm.send_url, json=wrong, headers={"authorization": ""}).status_code
    assert ["phone"] * 4 == [request.token for request in local_fcm.requests]
    assert ["refused"] == [request.case for request in local_fcm.requests if request.status == 400]


@pytest.mark.parametrize(
    "path", ["/batch", "/v1/projects/a/b/messages:send", "/v1/projects/sendoff-local/messages", "/"]
)
def test_another_path_is_a_page(path: str, local_fcm: LocalFCM) -> None:
    with client_for(local_fcm) as client:
        answer = client.post(local_fcm.endpoint + path)
        assert (404, "text/html; charset=UTF-8") == (answer.status_code, answer.headers["content-type"])
        assert 404 == client.get(local_fcm.send_url).status_code


def test_what_the_sdk_makes_of_every_field_is_taken(local_fcm: LocalFCM) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK's own imports
        from firebase_admin import messaging  # type: ignore[import-untyped] # ships no types
    message = messaging.Message(
        fid="phone",
        data={"a": "b"},
        notification=messaging.Notification("title", "body", "https://example.org/image.png"),
        android=messaging.AndroidConfig(
            collapse_key="k",
            priority="high",
            ttl=timedelta(seconds=3.5),
            restricted_package_name="org.example",
            data={"c": "d"},
            direct_boot_ok=True,
            fcm_options=messaging.AndroidFCMOptions("label"),
            notification=messaging.AndroidNotification(
                title="t",
                color="#aabbcc",
                tag="k",
                title_loc_key="key",
                title_loc_args=["a"],
                priority="high",
                visibility="public",
                vibrate_timings_millis=[100, 200],
                notification_count=3,
                light_settings=messaging.LightSettings("#aabbcc", 200, 300),
                sticky=True,
            ),
        ),
        apns=messaging.APNSConfig(
            headers={"apns-collapse-id": "k"},
            payload=messaging.APNSPayload(messaging.Aps(alert="x", badge=1, sound=messaging.CriticalSound("a"))),
            fcm_options=messaging.APNSFCMOptions("label", "https://example.org/image.png"),
        ),
        webpush=messaging.WebpushConfig(
            headers={"TTL": "60"},
            notification=messaging.WebpushNotification("t", custom_data={"x": {"y": 1}}),
            fcm_options=messaging.WebpushFCMOptions("https://example.org"),
        ),
        fcm_options=messaging.FCMOptions("label"),
    )
    with client_for(local_fcm) as client:
        answer = client.post(local_fcm.send_url, json={"message": json.loads(str(message))})
    assert 200 == answer.status_code, answer.text
    assert ("fid", "phone") == (local_fcm.requests[0].target, local_fcm.requests[0].token)


def test_no_credential_reaches_the_records(local_fcm: LocalFCM) -> None:
    access = local_fcm.access_token()
    httpx.post(local_fcm.send_url, json={"message": {"token": "a"}}, headers={"authorization": f"Bearer {access}"})
    assert access not in json.dumps([request.to_json() for request in local_fcm.requests])
