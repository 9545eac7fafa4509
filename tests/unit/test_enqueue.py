"""Preparing: from a notification to the rows it will become, or a word on why it cannot be sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sendoff import InvalidNotification, Notification, Priority, SecretError, Step, UnknownChannel
from sendoff.enqueue import Prepared, new_id, prepare
from sendoff.notification import PAYLOAD_VERSION_KEY
from sendoff.plugin import Channel, Context, Delivery, hookimpl
from sendoff.plugin.registry import Registry
from sendoff.settings import Settings
from sendoff.store.insert import NewRow


class Plain(Channel):
    """A channel whose ``prepare`` does what the test wants."""

    def __init__(self, name: str, prepared: Any = ..., *, leads: bool = False, version: int = 1) -> None:
        self.name = name
        self._prepared = prepared
        self.leads = leads
        self.payload_version = version  # type: ignore[misc]  # one class for all versions, in this test only

    def prepare(self, notification: Notification) -> dict[str, Any]:
        if isinstance(self._prepared, BaseException):
            raise self._prepared
        answer: dict[str, Any] = super().prepare(notification) if self._prepared is ... else self._prepared
        return answer

    def send(self, delivery: Delivery) -> None:
        """Accept everything."""


def registry(*channels: Channel) -> Registry:
    class Plugin:
        @hookimpl
        def sendoff_channels(self) -> list[Channel]:
            return list(channels)

    settings = Settings.load({}, environ={})
    context = Context(settings, lambda: pytest.fail("preparing needs no database"))
    return Registry(settings, context, plugins=[Plugin()], use_entry_points=False)


ALL = registry(Plain("email"), Plain("sms"), Plain("push"), Plain("inbox", leads=True))


def made(known: Registry = ALL, default: tuple[str, ...] = (), **changes: Any) -> Prepared:
    return prepare(Notification(**{"recipient": "u1", "type": "order", **changes}), known, default)


def row(prepared: Prepared, channel: str) -> NewRow:
    [found] = [one for one in prepared.rows if one.channel == channel]
    return found


def steps(prepared: Prepared) -> dict[str, tuple[str, str | None, str | None]]:
    """Each channel's status, predecessor and condition."""
    names = {one.id: one.channel for one in prepared.rows}
    return {
        one.channel: (one.status, names[one.after_id] if one.after_id else None, one.after_when)
        for one in prepared.rows
    }


# ------------------------------------------------------------------------------------------------------------- rows


def test_a_row_for_each_channel_with_all_that_it_needs() -> None:
    moment = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    prepared = made(
        channels=["email", "sms"],
        title="Hi",
        data={"order": 17},
        options={"sms": {"sender": "shop"}},
        addresses={"sms": ["+491"], "email": []},
        dedup_key="k",
        collapse_key="c",
        priority=Priority.BULK,
        not_before=moment,
        expires_at=moment + timedelta(seconds=1),
        sensitive=True,
        meta={"locale": "de"},
    )
    sms, email = row(prepared, "sms"), row(prepared, "email")
    assert sms.payload == {
        PAYLOAD_VERSION_KEY: 1,
        "title": "Hi",
        "data": {"order": 17},
        "options": {"sender": "shop"},
    }
    assert "options" not in email.payload
    assert (["+491"], []) == (sms.addresses, email.addresses)
    assert ("k", "c", 2, True, {"locale": "de"}) == (
        sms.dedup_key,
        sms.collapse_key,
        sms.priority,
        sms.sensitive,
        sms.meta,
    )
    assert (1_774_746_000_000_000, 1_774_746_001_000_000) == (sms.not_before, sms.expires_at)
    assert prepared.notification_id == sms.notification_id == email.notification_id
    assert len({sms.id, email.id, prepared.notification_id}) == 3


def test_ids_sort_by_time() -> None:
    ids = [new_id() for _ in range(1000)]
    assert sorted(ids) == ids
    assert {7} == {id.version for id in ids}


def test_the_payload_says_its_version() -> None:
    prepared = made(registry(Plain("new", version=3)), channels=["new"])
    assert prepared.rows[0].payload[PAYLOAD_VERSION_KEY] == 3


def test_without_channels_the_default_holds() -> None:
    assert ["sms", "push"] == [one.channel for one in made(default=("sms", "push")).rows]
    with pytest.raises(InvalidNotification, match="there is no default; name some or set default_channels"):
        made()


# ----------------------------------------------------------------------------------------------------------- mistakes


def test_an_unknown_channel_names_the_nearest() -> None:
    with pytest.raises(UnknownChannel, match="unknown channel 'emial'; did you mean 'email'"):
        made(channels=["emial"])
    with pytest.raises(UnknownChannel):
        made(default=("nowhere",))


@pytest.mark.parametrize("field", ["options", "addresses"])
def test_content_for_an_unknown_channel_is_a_mistake(field: str) -> None:
    content: dict[str, Any] = {"options": {"emial": {"a": 1}}, "addresses": {"emial": ["a@x"]}}
    with pytest.raises(InvalidNotification, match="unknown channel 'emial'; did you mean 'email'") as caught:
        made(channels=["email"], **{field: content[field]})
    assert caught.value.field == f"{field}.emial"


def test_what_is_no_notification_is_refused() -> None:
    with pytest.raises(InvalidNotification, match=r"must be a sendoff\.Notification \(got dict\)"):
        prepare({"recipient": "u1"}, ALL, ())  # type: ignore[arg-type]  # what a careless caller passes


def test_a_channels_own_word_reaches_the_caller() -> None:
    refusal = InvalidNotification("title", "is 99 characters; the limit is 65", value="x")
    with pytest.raises(InvalidNotification, match="the limit is 65") as caught:
        made(registry(Plain("email", refusal)), channels=["email"])
    assert caught.value is refusal
    with pytest.raises(SecretError):
        made(registry(Plain("email", SecretError("no token"))), channels=["email"])


def test_a_prepare_that_raises_is_named() -> None:
    with pytest.raises(InvalidNotification, match=r"prepare\(\) failed with KeyError: 'total'") as caught:
        made(registry(Plain("email", KeyError("total"))), channels=["email"])
    assert caught.value.field == "channels.email"
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("answer", [None, [], "text", 5, [("a", 1)]])
def test_a_prepare_that_returns_no_dict_is_named(answer: object) -> None:
    with pytest.raises(InvalidNotification, match=r"prepare\(\) must return a dict") as caught:
        made(registry(Plain("email", answer)), channels=["email"])
    assert ("channels.email", type(answer).__name__) == (caught.value.field, caught.value.kind)


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "payload.email.at"),
        ({"a": {"b": [float("nan")]}}, "payload.email.a.b[0]"),
        ({1: 2}, "payload.email"),
        ({"raw": b"x"}, "payload.email.raw"),
    ],
)
def test_a_payload_that_is_no_json_is_named_by_its_path(answer: object, path: str) -> None:
    with pytest.raises(InvalidNotification) as caught:
        made(registry(Plain("email", answer)), channels=["email"])
    assert path == caught.value.field


def test_the_key_of_the_version_is_ours() -> None:
    with pytest.raises(InvalidNotification, match="reserved key"):
        made(registry(Plain("email", {PAYLOAD_VERSION_KEY: 9})), channels=["email"])


# -------------------------------------------------------------------------------------------------------------- steps


def test_a_step_waits_for_its_predecessor() -> None:
    prepared = made(channels=[Step("sms", after="email", when="dead", delay=timedelta(minutes=5)), "email"])
    assert ["email", "sms"] == [one.channel for one in prepared.rows]
    assert steps(prepared) == {"email": ("pending", None, None), "sms": ("waiting", "email", "dead")}
    assert (300.0, None) == (row(prepared, "sms").after_delay, row(prepared, "email").after_delay)


@pytest.mark.parametrize(
    "channels",
    [
        [Step("email", after="email")],
        [Step("email", after="sms"), Step("sms", after="email")],
        ["push", Step("email", after="sms"), Step("sms", after="email")],
    ],
)
def test_a_circle_is_refused(channels: list[Any]) -> None:
    with pytest.raises(InvalidNotification, match="wait for each other in a circle: email"):
        made(channels=channels)


def test_a_predecessor_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidNotification, match="'push' is not a channel of this notification") as caught:
        made(channels=["email", Step("sms", after="push")])
    assert caught.value.field == "channels[1].after"


def test_the_others_wait_for_the_channel_that_leads() -> None:
    assert steps(made(channels=["push", "inbox", "email"])) == {
        "inbox": ("pending", None, None),
        "push": ("waiting", "inbox", "finished"),
        "email": ("waiting", "inbox", "finished"),
    }


def test_a_step_without_a_predecessor_waits_for_nobody() -> None:
    assert steps(made(channels=[Step("push"), "inbox"]))["push"] == ("pending", None, None)


def test_a_step_behind_another_channel_is_not_moved_behind_the_one_that_leads() -> None:
    assert steps(made(channels=["inbox", "email", Step("sms", after="email", when="dead")])) == {
        "inbox": ("pending", None, None),
        "email": ("waiting", "inbox", "finished"),
        "sms": ("waiting", "email", "dead"),
    }


def test_a_channel_that_was_told_to_wait_does_not_lead() -> None:
    assert steps(made(channels=["email", Step("inbox", after="email")])) == {
        "email": ("pending", None, None),
        "inbox": ("waiting", "email", "finished"),
    }
