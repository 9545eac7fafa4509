"""What the shop adds to sendoff: a fetcher that turns orders into notifications, and where customers are reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from html import escape
from importlib.util import find_spec
from typing import Any

from attrs import frozen
from sqlalchemy import Connection, Row, select

from sendoff.plugin import Context, FetchContext, Fetcher, Notification, Page, Priority, hookimpl
from sendoff_example_orders.tables import customer, order

__all__ = ["DESK", "Orders", "sendoff_addresses", "sendoff_fetchers"]

#: Who hears of orders that nobody can be told about.
DESK = "shop-desk"
PUSH = "fcm"
PAGE = 100


@frozen
class News:
    """What a status means to the customer. Statuses that are not listed (draft, cancelled) are no news."""

    channels: tuple[str, ...]
    title: str
    body: str
    priority: Priority = Priority.NORMAL


NEWS: Mapping[str, News] = {
    "shipped": News(
        ("inbox", "fcm", "email"), "Order {id} is on its way", "we have sent your order of {day}: {items}."
    ),
    "delayed": News(
        ("inbox", "fcm", "email", "sms"),
        "Order {id} is late",
        "we are sorry: your order needs a few days more. You need not do anything.",
        Priority.URGENT,
    ),
    "ready": News(("inbox", "fcm", "sms"), "Order {id} is ready", "you can pick up your order at the shop until 7 pm."),
    "delivered": News(("inbox", "fcm"), "Order {id} was delivered", "have a good time with {items}."),
    "refunded": News(("inbox", "fcm", "email"), "Order {id}: money back", "{total} are on their way back to you."),
}


@frozen
class OrdersConfig:
    """``[plugins.orders]``."""

    #: Push to phones too; None: where the push channel is installed.
    push: bool | None = None


class Orders(Fetcher):
    """One notification per order and status, in the order of the ids.

    The cursor is the last id of a page, so that a run costs what is new. The dedup key makes it harmless to see an
    order twice.
    """

    name = "orders"
    every = timedelta(seconds=1)

    def __init__(self, *, push: bool = True) -> None:
        self._push = push

    def fetch(self, ctx: FetchContext) -> Iterator[Page]:
        """Pages of 100 orders; the fetcher's connection is read-only."""
        last = (ctx.cursor or {}).get("id", "")
        while rows := ctx.connection.execute(
            select(order, customer.c.name)
            .outerjoin(customer, customer.c.id == order.c.customer_id)
            .where(order.c.id > last, order.c.status.in_(NEWS))
            .order_by(order.c.id)
            .limit(PAGE)
        ).all():
            last = rows[-1].id
            yield Page([_notification(row, push=self._push) for row in rows], cursor={"id": last})


def _notification(row: Row[Any], *, push: bool) -> Notification:
    if row.name is None:
        return _orphan(row)
    news = NEWS[row.status]
    words = {"id": row.id, "day": row.ordered_on or "late", "items": row.items, "total": row.total}
    title = news.title.format(**words)
    body = f"Dear {row.name}, {news.body.format(**words)}"
    if row.note is not None and row.status == "shipped":
        body = f"{body}\n\nYour note for the driver:\n{row.note}"
    options: dict[str, dict[str, Any]] = {}
    if "email" in news.channels:
        options["email"] = {"html": _html(title, body), "headers": {"X-Order": row.id}}
    if "sms" in news.channels:
        options["sms"] = {"text": f"{title}. {row.name}, {news.body.format(**words)}"}
    return Notification(
        recipient=row.customer_id,
        type=f"order.{row.status}",
        title=title,
        body=body,
        data={"order": row.id, "status": row.status, "total": row.total},
        options=options,
        channels=tuple(channel for channel in news.channels if push or channel != PUSH),
        dedup_key=f"order:{row.id}:{row.status}",
        priority=news.priority,
    )


def _html(title: str, body: str) -> str:
    paragraphs = "".join(f"<p>{escape(part).replace(chr(10), '<br>')}</p>" for part in body.split("\n\n"))
    return f"<h1>{escape(title)}</h1>{paragraphs}"


def _orphan(row: Row[Any]) -> Notification:
    """An order without a customer is not passed over in silence: the shop's desk finds it in its inbox."""
    return Notification(
        recipient=DESK,
        type="order.orphaned",
        title=f"Order {row.id} has no customer",
        body=f"Line {row.line} of the export names {row.customer_id or 'no customer'}; nobody was told: {row.status}.",
        data={"order": row.id, "status": row.status, "customer": row.customer_id},
        channels=("inbox",),
        dedup_key=f"order:{row.id}:{row.status}",
    )


@hookimpl
def sendoff_fetchers(context: Context) -> list[Fetcher]:
    """The one fetcher of the shop."""
    push = context.config("plugins.orders", OrdersConfig).push
    return [Orders(push=find_spec("sendoff_fcm") is not None if push is None else push)]


@hookimpl
def sendoff_addresses(channel: str, recipients: Sequence[str], connection: Connection) -> Mapping[str, Sequence[str]]:
    """E-mail addresses and phone numbers, one query for all. A malformed e-mail address is handed on as it is: to
    refuse it with a reason is the channel's part. The push channel knows its devices itself."""
    column = {"email": customer.c.email, "sms": customer.c.phone}.get(channel)
    if column is None:
        return {}
    known = connection.execute(select(customer.c.id, column).where(customer.c.id.in_(recipients), column.is_not(None)))
    return {recipient: [address] for recipient, address in known}
