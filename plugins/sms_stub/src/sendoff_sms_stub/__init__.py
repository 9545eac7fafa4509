"""The `sms` channel as a stub: text messages, written as JSON lines instead of sent.

The plugin is :mod:`sendoff_sms_stub.plugin`; importing this package loads nothing.
"""

__all__: list[str] = []
