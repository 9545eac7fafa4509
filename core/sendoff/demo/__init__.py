"""``sendoff demo``: a shop's orders through three channels, one worker killed on the way, every order accounted for.

:mod:`~sendoff.demo.run` is the order of events. :mod:`~sendoff.demo.truth` (the CSV), :mod:`~sendoff.demo.evidence`
(the channels) and :mod:`~sendoff.demo.ledger` (the outgoing table) read the three sources, and
:mod:`~sendoff.demo.accounts` compares them.
"""

__all__: list[str] = []
