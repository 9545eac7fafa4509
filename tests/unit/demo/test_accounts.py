"""The accounts find what is lost, doubled, foreign or unfinished, and explain what at least once explains."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from sendoff.demo.accounts import Accounts, Fault, settle_accounts
from sendoff.demo.facts import Promise, Row, Writing

CHANNELS = ("inbox", "email", "sms", "fcm")


def promise(order: str = "SO-1", channel: str = "email", **changes: Any) -> Promise:
    given: dict[str, Any] = {"recipient": "C-1", "outcome": "written", "to": ("a@example.org",), **changes}
    return Promise(order=order, channel=channel, **given)


def row(order: str = "SO-1", channel: str = "email", **changes: Any) -> Row:
    given: dict[str, Any] = {
        "id": f"row-{channel}-{order}",
        "recipient": "C-1",
        "status": "sent",
        "verdict": "sent",
        "tries": 1,
        "doubts": 0,
        "calls": 1,
        **changes,
    }
    return Row(order=order, channel=channel, **given)


def writing(order: str = "SO-1", channel: str = "email", **changes: Any) -> Writing:
    id = f"row-{channel}-{order}"
    return Writing(
        order=order, channel=channel, **{"to": "a@example.org", "row": id, "key": id, "place": "new/1", **changes}
    )


def settle(promises: list[Promise], rows: list[Row], writings: list[Writing]) -> Accounts:
    return settle_accounts(promises, rows, writings, channels=CHANNELS)


def kinds(accounts: Accounts) -> list[str]:
    assert accounts.balanced == (not accounts.faults)
    return [fault.kind for fault in accounts.faults]


def test_one_order_that_arrived_balances() -> None:
    accounts = settle([promise()], [row()], [writing()])
    assert accounts.balanced
    assert accounts.summary() == []
    [line] = [line for line in accounts.channels if line.channel == "email"]
    assert (line.promised, line.rows, line.sent, line.written, line.distinct, line.repeats) == (1, 1, 1, 1, 1, 0)


def test_nothing_at_all_balances() -> None:
    accounts = settle([], [], [])
    assert accounts.balanced
    assert [line.channel for line in accounts.channels] == list(CHANNELS)


@pytest.mark.parametrize("status", ["dead", "sent"])
def test_no_target_balances_without_a_message_whichever_way_the_setting_ends_it(status: str) -> None:
    owed = promise(outcome="no_target", to=())
    accounts = settle([owed], [row(status=status, verdict="no_target")], [])
    assert accounts.balanced
    assert accounts.channels[1].no_target == 1
    assert accounts.channels[1].dead == 0


def test_a_message_that_the_row_says_was_sent_and_the_channel_does_not_have_is_missing() -> None:
    accounts = settle([promise()], [row()], [])
    assert kinds(accounts) == ["messages missing", "rows sent, and nothing written"]
    assert accounts.faulty_orders == ("SO-1",)


def test_an_order_that_no_row_exists_for() -> None:
    accounts = settle([promise()], [], [])
    assert kinds(accounts) == ["orders without a row", "messages missing"]


def test_a_row_that_is_still_open() -> None:
    accounts = settle([promise()], [row(status="pending", verdict="retryable", tries=3)], [])
    assert kinds(accounts) == ["rows that are not final", "messages missing"]
    assert accounts.channels[1].unfinished == 1


@pytest.mark.parametrize(
    ("status", "verdict"),
    [("dead", "no_target"), ("dead", "retryable"), ("dead", "permanent"), ("cancelled", None), ("expired", None)],
)
def test_a_row_that_ended_otherwise_although_the_message_is_there(status: str, verdict: str | None) -> None:
    accounts = settle([promise()], [row(status=status, verdict=verdict)], [writing()])
    assert kinds(accounts) == ["rows that ended otherwise than promised"]


def test_a_message_where_none_was_owed() -> None:
    owed = promise(outcome="no_target", to=())
    accounts = settle([owed], [row(status="dead", verdict="no_target")], [writing()])
    assert kinds(accounts) == ["messages that nothing asked for"]


def test_a_message_and_a_row_of_an_order_that_the_csv_does_not_have() -> None:
    accounts = settle([promise()], [row(), row("SO-2")], [writing(), writing("SO-2")])
    assert kinds(accounts) == ["rows that nothing asked for", "messages that nothing asked for"]
    assert accounts.faulty_orders == ("SO-2",)


def test_a_foreign_message_is_found_on_a_channel_that_has_no_line_of_its_own() -> None:
    accounts = settle([], [], [writing(channel="fax")])
    assert kinds(accounts) == ["messages that nothing asked for", "messages that no row accounts for"]
    assert accounts.channels[-1].channel == "fax"


def test_a_message_to_somebody_else() -> None:
    accounts = settle([promise()], [row()], [writing(to="b@example.org")])
    assert kinds(accounts) == ["messages to a wrong address"]


def test_a_row_for_somebody_else() -> None:
    accounts = settle([promise()], [row(recipient="C-2")], [writing()])
    assert kinds(accounts) == ["rows for somebody else"]


def test_two_rows_for_one_promise() -> None:
    second = row(id="row-2")
    accounts = settle([promise()], [row(), second], [writing(), writing(row="row-2", key="row-2")])
    assert kinds(accounts) == ["orders with more than one row", "repeats that nothing explains"]


def test_a_message_swapped_with_another_orders() -> None:
    """Each order has a message, both are for the right address, and yet the rows are the wrong ones."""
    swapped = [writing("SO-1", row="row-email-SO-2"), writing("SO-2", row="row-email-SO-1")]
    accounts = settle([promise("SO-1"), promise("SO-2")], [row("SO-1"), row("SO-2")], swapped)
    assert sorted(set(kinds(accounts))) == ["messages that no row accounts for", "rows sent, and nothing written"]


def test_a_repeat_without_a_lost_lease_is_a_fault() -> None:
    accounts = settle([promise()], [row()], [writing(), writing(place="new/2")])
    assert kinds(accounts) == ["repeats that nothing explains"]
    assert (accounts.channels[1].repeats, accounts.channels[1].unexplained) == (0, 1)


def test_a_repeat_after_a_lost_lease_is_at_least_once() -> None:
    accounts = settle([promise()], [row(doubts=1)], [writing(), writing(place="new/2")])
    assert accounts.balanced
    assert (accounts.channels[1].written, accounts.channels[1].distinct, accounts.channels[1].repeats) == (2, 1, 1)


def test_more_repeats_than_lost_leases() -> None:
    accounts = settle([promise()], [row(doubts=1)], [writing(place=f"new/{number}") for number in range(3)])
    assert kinds(accounts) == ["repeats that nothing explains"]


def test_a_repeat_with_another_key_is_one_that_no_receiver_can_tell() -> None:
    accounts = settle([promise()], [row(doubts=1)], [writing(), writing(key="another")])
    assert kinds(accounts) == ["repeats that a receiver cannot tell"]


def test_the_inbox_never_doubles_whatever_leases_were_lost() -> None:
    owed = promise(channel="inbox", to=("C-1",))
    entries = [writing(channel="inbox", to="C-1"), writing(channel="inbox", to="C-1", place="entry 2")]
    accounts = settle([owed], [row(channel="inbox", doubts=3)], entries)
    assert kinds(accounts) == ["repeats that nothing explains"]


# -------------------------------------------------------------------------------------------------- several addresses


def push(*to: str) -> Promise:
    return promise(channel="fcm", to=to or ("phone-1", "phone-2"))


def pushed(to: str, **changes: Any) -> Writing:
    return writing(channel="fcm", to=to, **{"place": f"line of {to}", **changes})


def test_an_order_on_each_of_two_phones_is_no_repeat() -> None:
    accounts = settle([push()], [row(channel="fcm")], [pushed("phone-1"), pushed("phone-2")])
    assert kinds(accounts) == []
    line = accounts.channels[3]
    assert (line.written, line.distinct, line.orders, line.repeats) == (2, 2, 1, 0)


def test_one_of_two_phones_that_has_nothing_is_left_out() -> None:
    accounts = settle([push()], [row(channel="fcm")], [pushed("phone-1")])
    assert kinds(accounts) == ["addresses left out"]


def test_a_push_that_no_phone_has_is_missing() -> None:
    accounts = settle([push()], [row(channel="fcm")], [])
    assert kinds(accounts) == ["messages missing", "rows sent, and nothing written"]


def test_a_push_to_a_phone_of_somebody_else() -> None:
    pushes = [pushed("phone-1"), pushed("phone-2"), pushed("phone-9")]
    accounts = settle([push()], [row(channel="fcm")], pushes)
    assert kinds(accounts) == ["messages to a wrong address"]


def test_a_phone_that_has_it_twice_although_nothing_was_in_doubt() -> None:
    pushes = [pushed("phone-1"), pushed("phone-2"), pushed("phone-2", place="again")]
    accounts = settle([push()], [row(channel="fcm")], pushes)
    assert kinds(accounts) == ["repeats that nothing explains"]


def test_one_try_in_doubt_explains_one_repeat_on_each_phone_and_no_two() -> None:
    pushes = [pushed("phone-1"), pushed("phone-2"), pushed("phone-1"), pushed("phone-2")]
    accounts = settle([push()], [row(channel="fcm", doubts=1)], pushes)
    assert kinds(accounts) == []
    assert accounts.channels[3].repeats == 2
    accounts = settle([push()], [row(channel="fcm", doubts=1)], [*pushes, pushed("phone-2")])
    assert kinds(accounts) == ["repeats that nothing explains"]


def test_no_push_pays_for_an_outage_but_for_a_try_in_doubt() -> None:
    pushes = [pushed("phone-1"), pushed("phone-2")]
    accounts = settle([push()], [row(channel="fcm", tries=3, counted=1)], pushes)
    assert kinds(accounts) == ["rows that paid for an outage"]
    assert settle([push()], [row(channel="fcm", tries=3, counted=1, doubts=1)], pushes).balanced
    mail = settle([promise()], [row(tries=3, counted=2)], [writing()])
    assert mail.balanced


def test_faults_found_elsewhere_are_faults_of_their_channel() -> None:
    more = Fault("devices missing", "fcm", "dead-1", "the table does not have it")
    accounts = settle_accounts([], [], [], channels=CHANNELS, more=[more])
    assert not accounts.balanced
    assert [line.balanced for line in accounts.channels] == [True, True, True, False]
    assert accounts.summary() == ["fcm: 1 devices missing (dead-1; the first: the table does not have it)"]


def test_the_summary_names_channel_number_and_first_orders() -> None:
    orders = [f"SO-{number}" for number in range(1, 7)]
    accounts = settle([promise(order) for order in orders], [row(order) for order in orders], [writing("SO-6")])
    missing = accounts.summary()[0]
    assert missing.startswith("email: 5 messages missing (SO-1, SO-2, SO-3, ...;")


# ------------------------------------------------------------------------------------------------------ any shop

PLACES = [(f"SO-{number}", channel) for number in range(1, 9) for channel in CHANNELS]


def shop(without_address: set[tuple[str, str]]) -> tuple[list[Promise], list[Row], list[Writing]]:
    """A delivery in which everything is right."""
    promises, rows, writings = [], [], []
    for order, channel in PLACES:
        if (order, channel) in without_address:
            promises.append(promise(order, channel, outcome="no_target", to=()))
            rows.append(row(order, channel, status="dead", verdict="no_target"))
        else:
            promises.append(promise(order, channel))
            rows.append(row(order, channel))
            writings.append(writing(order, channel))
    return promises, rows, writings


@given(st.sets(st.sampled_from(PLACES)), st.randoms(use_true_random=False))
def test_every_right_delivery_balances_in_any_order(without_address: set[tuple[str, str]], draw: Any) -> None:
    promises, rows, writings = shop(without_address)
    for facts in (promises, rows, writings):
        draw.shuffle(facts)
    accounts = settle(promises, rows, writings)
    assert accounts.faults == ()
    assert sum(line.written for line in accounts.channels) == len(writings)


@given(st.sets(st.sampled_from(PLACES), max_size=len(PLACES) - 1), st.data())
def test_any_one_thing_lost_doubled_or_changed_is_found(without_address: set[tuple[str, str]], data: Any) -> None:
    promises, rows, writings = shop(without_address)
    spoilt = data.draw(st.sampled_from([promises, rows, writings]))
    index = data.draw(st.integers(0, len(spoilt) - 1))
    match data.draw(st.sampled_from(["lose", "double", "move"])):
        case "lose":
            del spoilt[index]
        case "double" if spoilt is not promises:
            spoilt.append(spoilt[index])
        case _:
            spoilt[index] = evolve(spoilt[index], order="SO-99")
    assert not settle(promises, rows, writings).balanced
