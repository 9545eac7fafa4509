"""The `fcm` channel: push through Firebase Cloud Messaging, and the table of devices that it sends to.

The plugin is :mod:`sendoff_fcm.plugin`, applications register devices with :mod:`sendoff_fcm.devices`. Importing this
package loads neither, and nothing of it loads Firebase before the first message is sent.
"""

__all__: list[str] = []
