"""The example shop: its files, and that its plugin does what the accounts' own reading of them promises."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, event

from sendoff import Sendoff
from sendoff.demo.evidence import read_devices
from sendoff.demo.phones import read_phones
from sendoff.demo.truth import read_truth
from sendoff.notification import Step
from sendoff.plugin import FetchContext, Notification, Page
from sendoff_example_orders import DATA
from sendoff_example_orders.devices import register_devices
from sendoff_example_orders.load import load, phone_number
from sendoff_example_orders.plugin import Orders, sendoff_addresses

GENERATOR = Path(__file__).parents[3] / "examples" / "orders" / "make_data.py"
NOW = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def database() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def pages(connection: Connection, cursor: object = None) -> list[Page]:
    return list(Orders().fetch(FetchContext(cursor=cursor, connection=connection, now=NOW, tick=NOW)))


def notifications(connection: Connection) -> list[Notification]:
    made = [notification for page in pages(connection) for notification in page.notifications]
    assert all(isinstance(notification, Notification) for notification in made)
    return [notification for notification in made if isinstance(notification, Notification)]


def test_the_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    """So nobody edits them by hand, and nothing repairs their line ends."""
    program = f"import make_data, pathlib; make_data.DATA = pathlib.Path({str(tmp_path)!r}); make_data.main()"
    subprocess.run([sys.executable, "-B", "-c", program], cwd=GENERATOR.parent, check=True)
    for name in ("customers.csv", "orders.csv", "devices.csv"):
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes(), name


def test_the_files_have_the_size_and_the_mess_that_the_demo_tells_of() -> None:
    truth = read_truth(DATA)
    assert len(truth.orders) >= 1_200
    assert min(truth.counts().values()) > 0
    assert truth.unusable
    assert truth.replaced
    text = (DATA / "customers.csv").read_text(encoding="utf-8")
    for sample in ("Ł", "Щ", "Ω".lower(), "ف", "כ", "王", "さ", "김", "प", "ส", "🦊", "O'Brien", '""', "+44 7700 900"):
        assert sample in text, sample


def test_only_reserved_domains() -> None:
    text = (DATA / "customers.csv").read_text(encoding="utf-8").lower()
    allowed = {"example.com", "example.org", "example.net", "mail.example.com", "post.test", "shop.example"}
    broken = {"", "@example.net", "example", "example..org", "mail", "-.test"}
    found = {part.split(",")[0].split()[0] if part.split(",")[0].split() else "" for part in text.split("@")[1:]}
    assert found <= allowed | broken, found - allowed - broken


def test_the_loader_agrees_with_the_accounts_on_every_line(database: Connection) -> None:
    report = load(database, DATA)
    truth = read_truth(DATA)
    assert (report.orders, report.repeated, len(report.problems)) == (len(truth.orders), truth.replaced, truth.unusable)
    assert all("no order id" in problem for problem in report.problems)
    assert load(database, DATA) == report


def test_the_fetcher_and_the_address_book_keep_every_promise_and_make_no_other(database: Connection) -> None:
    load(database, DATA)
    made = notifications(database)
    kept = set()
    for notification in made:
        assert notification.channels is not None
        for channel in notification.channels:
            assert not isinstance(channel, Step)
            addresses = sendoff_addresses(channel, [notification.recipient], database).get(notification.recipient, [])
            kept.add((notification.data["order"], channel, notification.recipient, *addresses))
    truth = read_truth(DATA, read_phones(DATA))
    # What the inbox and the push channel are addressed to is theirs to know.
    promised = {
        (
            promise.order,
            promise.channel,
            promise.recipient,
            *(promise.to if promise.channel in {"email", "sms"} else ()),
        )
        for promise in truth.promises
        if promise.outcome == "written"
    }
    assert promised <= kept
    # What is left over are rows without an address, or with one that the channel refuses.
    places = {(promise.order, promise.channel) for promise in truth.promises}
    assert {fact[:2] for fact in kept} == places
    assert len(kept) == len(places)


def test_without_push_nothing_is_pushed_and_all_else_is_the_same(database: Connection) -> None:
    load(database, DATA)
    context = FetchContext(cursor=None, connection=database, now=NOW, tick=NOW)
    made = [one for page in Orders(push=False).fetch(context) for one in page.notifications]
    channels = [tuple(channel for channel in one.channels or () if channel != "fcm") for one in notifications(database)]
    assert channels == [one.channels for one in made if isinstance(one, Notification)]
    assert len(channels) == len(made)


def test_the_devices_have_the_size_and_the_mess_that_the_demo_tells_of() -> None:
    phones = read_phones(DATA)
    assert len(phones.by_token) == 1_500
    assert (phones.unusable, phones.repeated) == (3, 15)
    states = Counter(phone.state for phone in phones.by_token.values())
    assert states == {"live": 1_361, "dead": 127, "replaced": 12}
    pushes = [promise for promise in read_truth(DATA, phones).promises if promise.channel == "fcm"]
    owners = {phone.owner for phone in phones.by_token.values()}
    # No device at all, none that works, two and more: all of them among those who are told.
    assert sum(promise.recipient not in owners for promise in pushes) > 100
    assert sum(not promise.to and promise.recipient in owners for promise in pushes) > 20
    assert sum(len(promise.to) > 1 for promise in pushes) > 400


def test_registering_agrees_with_the_accounts_on_every_device(sqlite_url: str) -> None:
    phones = read_phones(DATA)
    with Sendoff(sqlite_url) as so, so.engine.begin() as connection:
        report = register_devices(connection, DATA)
        assert (report.devices, report.repeated) == (1_500, phones.repeated)
        assert report.problems == tuple(f"devices.csv line {number}: no usable token" for number in (55, 452, 1097))
        table = {device.token: (device.owner, device.reason) for device in read_devices(connection)}
        expected = {
            phone.token: (phone.owner, "replaced" if phone.state == "replaced" else None)
            for phone in phones.by_token.values()
        }
        assert table == expected
        assert register_devices(connection, DATA) == report


def test_pages_of_a_hundred_and_a_cursor_to_go_on_from(database: Connection) -> None:
    load(database, DATA)
    every = pages(database)
    assert [len(page.notifications) for page in every[:-1]] == [100] * (len(every) - 1)
    assert pages(database, every[4].cursor) == every[5:]
    assert pages(database, every[-1].cursor) == []


def test_addresses_are_looked_up_in_one_query(database: Connection) -> None:
    load(database, DATA)
    statements: list[str] = []
    event.listen(database, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    recipients = [f"C-{number}" for number in range(1001, 1201)]
    assert len(sendoff_addresses("email", recipients, database)) > 150
    assert len(statements) == 1
    assert sendoff_addresses("fax", recipients, database) == {}
    assert sendoff_addresses("sms", ["nobody"], database) == {}


@pytest.mark.parametrize("written", ["", "12", "555-CALL-ME", "07700 900123", "+0 7700 900123", "+44 7700 9001x3"])
def test_what_is_no_whole_number_is_none(written: str) -> None:
    assert phone_number(written) is None
