"""What became of the devices: the CSV, the table and FCM's log have to say the same."""

from __future__ import annotations

import pytest

from sendoff.demo.accounts import Fault
from sendoff.demo.devicebook import device_faults
from sendoff.demo.facts import Device, Phone, Request

PHONES = {
    phone.token: phone
    for phone in (
        Phone("a", "C-1", "live", None),
        Phone("dead-b", "C-1", "dead", "UNREGISTERED"),
        Phone("dead-c", "C-2", "dead", "UNREGISTERED"),
        Phone("d", "C-1", "replaced", None),
    )
}
#: Everything is right: nothing was to be said to C-2, so nobody knows yet that this phone is dead.
DEVICES = {
    "a": Device("a", "C-1", None),
    "dead-b": Device("dead-b", "C-1", "UNREGISTERED"),
    "dead-c": Device("dead-c", "C-2", None),
    "d": Device("d", "C-1", "replaced"),
}


def request(token: str) -> Request:
    return Request(token, 200, not token.startswith("dead-"), "SO-1", "row", "key", "line 1")


REQUESTS = [request("a"), request("dead-b")]


def faults(devices: dict[str, Device], requests: list[Request]) -> list[Fault]:
    return device_faults(PHONES, devices.values(), requests, channel="fcm", told={"C-1"})


def test_all_is_well() -> None:
    assert faults(DEVICES, [*REQUESTS, request("dead-b")]) == []


def test_others_devices_may_be_in_the_table() -> None:
    assert faults({**DEVICES, "x": Device("x", "u1", "stale")}, REQUESTS) == []


@pytest.mark.parametrize(
    ("token", "device", "kind"),
    [
        ("a", None, "devices missing"),
        ("a", Device("a", "C-9", None), "devices of somebody else"),
        ("a", Device("a", "C-1", "UNREGISTERED"), "devices deactivated for nothing"),
        ("dead-b", Device("dead-b", "C-1", None), "dead devices that were not found out"),
        ("dead-b", Device("dead-b", "C-1", "INVALID_ARGUMENT"), "dead devices that were not found out"),
        ("dead-c", Device("dead-c", "C-2", "UNREGISTERED"), "devices deactivated for nothing"),
        ("d", Device("d", "C-1", None), "dead devices that were not found out"),
    ],
)
def test_a_device_of_which_the_table_says_something_else(token: str, device: Device | None, kind: str) -> None:
    others = {name: one for name, one in DEVICES.items() if name != token}
    [fault] = faults(others if device is None else {**others, token: device}, REQUESTS)
    assert (fault.kind, fault.channel, fault.order) == (kind, "fcm", token)


def test_fcm_was_asked_about_a_device_that_nobody_has() -> None:
    [fault] = faults(DEVICES, [*REQUESTS, request("strange")])
    assert (fault.kind, fault.order) == ("requests about nobody's phone", "strange")


def test_fcm_was_asked_about_a_replaced_device() -> None:
    assert [fault.kind for fault in faults(DEVICES, [*REQUESTS, request("d")])] == ["requests about replaced devices"]


def test_a_dead_device_was_left_out_although_its_owner_was_told() -> None:
    found = faults({**DEVICES, "dead-b": Device("dead-b", "C-1", None)}, [request("a")])
    assert [fault.kind for fault in found] == ["devices that were left out"]


def test_no_whole_token_is_shown() -> None:
    token = "DkVOnMD_O352YLcm1yV5Wd:APA91b75C3BK9Xgqk5ucPl3dO1sAZlXOa8tR7iDX"
    [fault] = faults(DEVICES, [*REQUESTS, request(token)])
    assert fault.order == "DkVOnMD_O352\N{HORIZONTAL ELLIPSIS}"
