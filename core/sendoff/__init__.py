"""sendoff delivers notifications from the database an application already has.

>>> from sendoff import Notification, Sendoff
>>> so = Sendoff("postgresql://localhost/shop")
>>> with Session(engine) as db:                                             # doctest: +SKIP
...     so.enqueue(Notification(recipient="u1", type="order.shipped", title="On its way", channels=["inbox"]), db)
...     db.commit()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sendoff._version import __version__
from sendoff.errors import (
    ConfigurationError,
    InvalidNotification,
    MigrationTimeout,
    NoDatabaseUrl,
    NotFound,
    NotMigrated,
    NotPossible,
    PluginBroken,
    PluginError,
    SecretError,
    SendoffError,
    StoreError,
    StoreUnavailable,
    UnknownChannel,
    UnknownSetting,
)
from sendoff.notification import Delivery, Enqueued, EnqueuedRow, Notification, Priority, Rejected, Step
from sendoff.secret import Secret
from sendoff.verdict import NoTarget, Outage, Permanent, Retryable, Sent, Verdict

if TYPE_CHECKING:
    from sendoff.app import Sendoff

__all__ = [
    "ConfigurationError",
    "Delivery",
    "Enqueued",
    "EnqueuedRow",
    "InvalidNotification",
    "MigrationTimeout",
    "NoDatabaseUrl",
    "NoTarget",
    "NotFound",
    "NotMigrated",
    "NotPossible",
    "Notification",
    "Outage",
    "Permanent",
    "PluginBroken",
    "PluginError",
    "Priority",
    "Rejected",
    "Retryable",
    "Secret",
    "SecretError",
    "Sendoff",
    "SendoffError",
    "Sent",
    "Step",
    "StoreError",
    "StoreUnavailable",
    "UnknownChannel",
    "UnknownSetting",
    "Verdict",
    "__version__",
]


def __getattr__(name: str) -> Any:
    # The engine and its dependencies are imported when somebody asks for them: channels and the command line's help
    # need none of it.
    if name == "Sendoff":
        from sendoff.app import Sendoff

        return Sendoff
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
