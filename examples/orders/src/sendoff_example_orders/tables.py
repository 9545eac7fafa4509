"""The shop's own tables. sendoff does not know them; the plugin reads them."""

from __future__ import annotations

from sqlalchemy import Column, Integer, MetaData, Table, Text

__all__ = ["customer", "metadata", "order"]

metadata = MetaData()

customer = Table(
    "example_customer",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    #: As the customer wrote it, at most trimmed: what is deliverable is for the channel to say.
    Column("email", Text),
    #: In international form, or null where none could be made of what was written.
    Column("phone", Text),
    Column("language", Text),
)

#: `customer_id` has no foreign key: an export may name customers that it does not contain.
order = Table(
    "example_order",
    metadata,
    Column("id", Text, primary_key=True),
    Column("customer_id", Text, nullable=False),
    Column("ordered_on", Text),
    Column("status", Text, nullable=False),
    Column("items", Text, nullable=False),
    Column("total", Text, nullable=False),
    Column("note", Text),
    Column("line", Integer, nullable=False),
)
