"""Every SQL statement of the core, and only here."""

from sendoff.store.engine import make_engine
from sendoff.store.store import Store

__all__ = ["Store", "make_engine"]
