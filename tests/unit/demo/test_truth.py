"""What the CSV promises, by the accounts' own rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from sendoff.demo.facts import Phone, Promise
from sendoff.demo.phones import Phones
from sendoff.demo.truth import Truth, per_channel, read_truth

CUSTOMERS = "\N{BYTE ORDER MARK}customer_id,name,email,phone,language,note\r\n"
ORDERS = "order_id,customer_id,ordered_at,status,items,total,currency,note\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return tmp_path


def read(folder: Path, customers: str, orders: str) -> Truth:
    (folder / "customers.csv").write_bytes((CUSTOMERS + customers).encode())
    (folder / "orders.csv").write_bytes((ORDERS + orders).encode())
    return read_truth(folder)


def order(id: str = "SO-1", customer: str = "C-1", status: str = "delayed") -> str:
    return f'{id},{customer},2026-01-05,{status},"1 × Teapot, blue",1.00,EUR,\n'


ANN = "C-1,Ann,ann@example.org,+44 7700 900123,en,\r\n"


def test_each_channel_of_a_status_is_promised(shop: Path) -> None:
    truth = read(shop, ANN, order())
    assert truth.promises == (
        Promise("SO-1", "inbox", "C-1", "written", ("C-1",)),
        Promise("SO-1", "email", "C-1", "written", ("ann@example.org",)),
        Promise("SO-1", "sms", "C-1", "written", ("+447700900123",)),
    )
    assert per_channel(truth) == {"inbox": 1, "email": 1, "sms": 1}


@pytest.mark.parametrize(
    ("status", "channels"),
    [
        ("shipped", ["inbox", "email"]),
        ("refunded", ["inbox", "email"]),
        ("ready", ["inbox", "sms"]),
        (" DELIVERED ", ["inbox"]),
        ("draft", []),
        ("", []),
        ("lost", []),
    ],
)
def test_channels_by_status(shop: Path, status: str, channels: list[str]) -> None:
    truth = read(shop, ANN, order(status=status))
    assert [promise.channel for promise in truth.promises] == channels
    assert truth.quiet == (frozenset() if channels else {"SO-1"})


@pytest.mark.parametrize(
    "email",
    ["", "-", "n/a", "ann", "ann@", "@example.org", "a@@example.org", "a@example", "a@example..org", "a b@example.org",
     "a@ex ample.org", "a@-.test", "a@example.org."],
)  # fmt: skip
def test_no_email_is_promised_without_a_usable_address(shop: Path, email: str) -> None:
    truth = read(shop, f"C-1,Ann,{email},+44 7700 900123,en,\r\n", order(status="shipped"))
    assert truth.promises[1] == Promise("SO-1", "email", "C-1", "no_target", ())
    assert truth.partial == {"SO-1"}


@pytest.mark.parametrize("email", [" ann@example.org ", "ANN+shop@MAIL.example.com", "a.b_c@post.test"])
def test_an_email_goes_to_the_address_as_it_was_written(shop: Path, email: str) -> None:
    truth = read(shop, f"C-1,Ann,{email},,en,\r\n", order(status="shipped"))
    assert truth.promises[1].to == (email.strip(),)


@pytest.mark.parametrize(
    ("phone", "to"),
    [
        ("+44 7700 900123", "+447700900123"),
        ("0044 7700 900123 ", "+447700900123"),
        ("+1 (202) 555-0148", "+12025550148"),
        ("+1.202.555.0148", "+12025550148"),
        ("0033639 981234", "+33639981234"),
        ("07700 900123", None),
        ("", None),
        ("n/a", None),
        ("0", None),
        ("12", None),
        ("+1 202 555", None),
        ("++44 7700 900111", None),
        ("+44 7700 9001x3", None),
        ("ask my sister", None),
        ("+44 7700 900123 900123", None),
    ],
)
def test_phone_numbers(shop: Path, phone: str, to: str | None) -> None:
    truth = read(shop, f"C-1,Ann,,{phone},en,\r\n", order(status="ready"))
    assert truth.promises[1].to == ((to,) if to else ())
    assert truth.promises[1].outcome == ("written" if to else "no_target")


def test_an_order_without_a_customer_goes_to_the_desk(shop: Path) -> None:
    truth = read(shop, ANN, order("SO-1", "C-2") + order("SO-2", "") + order("SO-3", "C-2", "draft"))
    assert truth.promises == (
        Promise("SO-1", "inbox", "shop-desk", "written", ("shop-desk",)),
        Promise("SO-2", "inbox", "shop-desk", "written", ("shop-desk",)),
    )
    assert truth.orphaned == {"SO-1", "SO-2"}
    assert truth.quiet == {"SO-3"}


def test_the_last_line_of_an_order_counts_and_of_a_customer_too(shop: Path) -> None:
    customers = ANN + "C-1,Ann,new@example.net,,en,\r\n"
    truth = read(shop, customers, order(status="shipped") + order(" so-1 ", status="refunded") + order("SO-2"))
    assert truth.orders == ("SO-1", "SO-2")
    assert truth.replaced == 1
    assert truth.promises[1] == Promise("SO-1", "email", "C-1", "written", ("new@example.net",))


def test_lines_without_an_order_id_and_blank_ones(shop: Path) -> None:
    truth = read(shop, ANN, order() + "\n" + ",,,,,,,\n" + order("  ") + "   \n")
    assert (truth.lines, truth.unusable, truth.replaced, len(truth.orders)) == (2, 1, 0, 1)


def test_newlines_and_odd_line_ends_inside_quotes_are_content(shop: Path) -> None:
    customers = 'C-1,"Ann\r\nLee",ann@example.org,,en,"ring, twice\u2028please"\r\n'
    truth = read(shop, customers, order(status="shipped"))
    assert truth.promises[1].to == ("ann@example.org",)


def test_with_a_push_channel_every_order_is_pushed_to_the_phones_of_its_customer(shop: Path) -> None:
    read(shop, ANN + "C-2,Bob,,,en,\r\n", order("SO-1") + order("SO-2", "C-2", "ready") + order("SO-3", "C-9"))
    live = [Phone(token, "C-1", "live", None) for token in ("a", "b")]
    dead = [Phone("dead-c", "C-2", "dead", "UNREGISTERED"), Phone("d", "C-1", "replaced", None)]
    truth = read_truth(shop, Phones({phone.token: phone for phone in [*live, *dead]}, 4, 0, 0))
    pushes = [promise for promise in truth.promises if promise.channel == "fcm"]
    assert pushes == [
        Promise("SO-1", "fcm", "C-1", "written", ("a", "b")),
        Promise("SO-2", "fcm", "C-2", "no_target", ()),
    ]
    assert truth.partial == {"SO-2"}


def test_every_order_is_in_one_place(shop: Path) -> None:
    orders = order("SO-1") + order("SO-2", "C-9") + order("SO-3", status="draft") + order("SO-4", "C-2")
    truth = read(shop, ANN + "C-2,Bob,,,en,\r\n", orders)
    assert list(truth.counts().values()) == [1, 1, 1, 1]
    assert list(truth.counts(without={"SO-1", "SO-4"}).values()) == [0, 0, 1, 1]
