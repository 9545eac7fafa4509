"""The `email` channel as a stub: correct messages, written into a maildir instead of sent.

The plugin is :mod:`sendoff_email_stub.plugin`; importing this package loads nothing.
"""

__all__: list[str] = []
