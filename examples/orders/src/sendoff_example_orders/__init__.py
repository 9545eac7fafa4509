"""A made-up shop: its customers and orders, and the plugin that tells customers what happens to their orders."""

from pathlib import Path

__all__ = ["DATA"]

#: The folder of customers.csv, orders.csv and devices.csv.
DATA = Path(__file__).parent / "data"
