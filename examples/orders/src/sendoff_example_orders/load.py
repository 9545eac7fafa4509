"""From the CSV files into the shop's tables, and an account of every line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path

from attrs import frozen
from sqlalchemy import Connection

from sendoff_example_orders import tables

__all__ = ["LoadReport", "lines", "load", "phone_number"]

_NOTHING = {"", "-", "n/a"}
_DATES = ("%Y-%m-%d", "%d.%m.%Y", "%Y-%m-%dT%H:%M:%S%z")
#: What people put between digits.
_SEPARATORS = re.compile(r"[\s().-]+")
_INTERNATIONAL = re.compile(r"\+[1-9][0-9]{7,14}")


@frozen
class LoadReport:
    """What became of the lines. `problems` names each line that is no order, with the reason."""

    customers: int
    orders: int
    #: Lines that repeat an order; the last line of an order counts.
    repeated: int
    problems: tuple[str, ...]


def load(connection: Connection, folder: Path) -> LoadReport:
    """Create the shop's tables if need be, and fill them from `folder` in the caller's transaction.

    Loading the same files again changes nothing but the order of the rows.
    """
    tables.metadata.create_all(connection)
    customers: dict[str, dict[str, object]] = {}
    for _, line in lines(folder / "customers.csv"):
        row = _customer(line)
        customers[str(row["id"])] = row
    orders: dict[str, dict[str, object]] = {}
    problems: list[str] = []
    repeated = 0
    for number, line in lines(folder / "orders.csv"):
        row = _order(line, number)
        if not row["id"]:
            problems.append(f"orders.csv line {number}: no order id")
            continue
        repeated += row["id"] in orders
        orders[str(row["id"])] = row
    for table, rows in ((tables.customer, customers), (tables.order, orders)):
        connection.execute(table.delete())
        connection.execute(table.insert(), list(rows.values()))
    return LoadReport(len(customers), len(orders), repeated, tuple(problems))


def phone_number(written: str) -> str | None:
    """The international form (+ and digits), or None where what was written is not a whole number with its country."""
    digits = _SEPARATORS.sub("", written)
    if digits.startswith("00"):
        digits = f"+{digits[2:]}"
    return digits if _INTERNATIONAL.fullmatch(digits) else None


def lines(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines that say something, with the number of their last physical line, which is what editors show."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, restval="")
        for line in reader:
            # A line with more fields than the header has them under the key None.
            fields = {key: value for key, value in line.items() if isinstance(key, str)}
            if any(value.strip() for value in fields.values()):
                yield reader.line_num, fields


def _customer(line: dict[str, str]) -> dict[str, object]:
    email = line["email"].strip()
    return {
        "id": line["customer_id"].strip(),
        "name": " ".join(line["name"].split()),
        "email": None if email.lower() in _NOTHING else email,
        "phone": phone_number(line["phone"]),
        "language": line["language"].strip() or None,
    }


def _order(line: dict[str, str], number: int) -> dict[str, object]:
    return {
        "id": line["order_id"].strip().upper(),
        "customer_id": line["customer_id"].strip(),
        "ordered_on": _day(line["ordered_at"].strip()),
        "status": line["status"].strip().lower(),
        "items": line["items"].strip(),
        "total": f"{line['total'].strip()} {line['currency'].strip()}",
        "note": line["note"].strip() or None,
        "line": number,
    }


def _day(written: str) -> str | None:
    """ISO 8601, so that it sorts; None where it is no date we know."""
    for form in _DATES:
        try:
            day: date = datetime.strptime(written, form).date()  # noqa: DTZ007 - only the calendar day is used
        except ValueError:
            continue
        return day.isoformat()
    return None
