"""The `inbox` channel: one entry per notification, in the application's own database, and the feed that it makes.

The plugin is :mod:`sendoff_inbox.plugin`, its tables :mod:`sendoff_inbox.tables`, and the feed that applications put
behind their endpoints :mod:`sendoff_inbox.inbox`; importing this package loads none of them.
"""

__all__: list[str] = []
