"""The accounts of the devices: devices.csv, the table of devices and FCM's log. Pure.

Which phone got which message is :mod:`~sendoff.demo.accounts`; here it is what became of the phones themselves. Each is
in the table with its owner. One that FCM refuses for good has been asked if its owner was told of any order, and is
deactivated with FCM's reason from then on; nothing else is deactivated but what the same installation has replaced, and
nobody is asked who is not, or no longer, anybody's phone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from sendoff.demo.accounts import Fault
from sendoff.demo.facts import Device, Phone, Request

__all__ = ["device_faults"]


def device_faults(
    phones: Mapping[str, Phone],
    devices: Iterable[Device],
    requests: Iterable[Request],
    *,
    channel: str,
    told: AbstractSet[str],
) -> list[Fault]:
    """``told``: who was promised a push. ``devices``: those of the table, others' may be among them."""
    table = {device.token: device for device in devices}
    asked = Counter(request.token for request in requests)
    found = [
        (token, *fault)
        for token, phone in phones.items()
        for fault in _faults(phone, table.get(token), asked[token], told=phone.owner in told)
    ]
    strange = [
        (token, "requests about nobody's phone", f"FCM was asked {times} times about a device that the CSV has not")
        for token, times in asked.items()
        if token not in phones
    ]
    return [Fault(kind, channel, _shown(token), text) for token, kind, text in [*found, *strange]]


def _faults(phone: Phone, device: Device | None, asked: int, *, told: bool) -> Iterable[tuple[str, str]]:
    if device is None:
        yield "devices missing", "the table does not have it"
        return
    if device.owner != phone.owner:
        yield "devices of somebody else", f"the table says {device.owner}, the CSV {phone.owner}"
    reason: str | None
    match phone.state:
        case "replaced":
            reason = "replaced"
            if asked:
                yield "requests about replaced devices", f"FCM was asked {asked} times"
        case "dead":
            reason = phone.code if asked else None
            if told and not asked:
                yield "devices that were left out", "its owner was told, and FCM was never asked about it"
        case _:
            reason = None
    if device.reason == reason:
        return
    if reason is None:
        yield "devices deactivated for nothing", f"deactivated with the reason {device.reason}"
    else:
        ended = "is still active" if device.reason is None else f"was deactivated as {device.reason}"
        yield "dead devices that were not found out", f"it {ended} instead of {reason}"


def _shown(token: str) -> str:
    """Enough to find it by: whoever has a whole token can write to that phone."""
    return f"{token[:12]}\N{HORIZONTAL ELLIPSIS}" if len(token) > 13 else token
