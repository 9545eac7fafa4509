"""The `inbox` channel: one entry per notification, in the application's own database.

The plugin is :mod:`sendoff_inbox.plugin`, its table :mod:`sendoff_inbox.tables`; importing this package loads neither.
"""

__all__: list[str] = []
