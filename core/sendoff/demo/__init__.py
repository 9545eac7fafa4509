"""``sendoff demo``: a shop's orders through four channels, one worker killed and FCM down on the way, every order
accounted for.

:mod:`~sendoff.demo.run` is the order of events. :mod:`~sendoff.demo.truth` and :mod:`~sendoff.demo.phones` (the CSV),
:mod:`~sendoff.demo.evidence` (the channels), :mod:`~sendoff.demo.ledger` (the outgoing table) and
:mod:`~sendoff.demo.pushlog` (the local FCM's own log) read the four sources; :mod:`~sendoff.demo.accounts` and
:mod:`~sendoff.demo.devicebook` compare them.
"""

__all__: list[str] = []
