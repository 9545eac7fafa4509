"""A local FCM for tests and demos: the v1 endpoint and Google's token endpoint on loopback.

In a test: :class:`LocalFCM`, or the fixture of :mod:`sendoff_fcm.testing.fixtures`. In a process of its own:
``python -m sendoff_fcm.testing --port N [--log FILE]``, driven by ``/_control/...`` or by the tokens' names.
"""

from sendoff_fcm.testing.answers import Answer, Fault
from sendoff_fcm.testing.cases import CASES, NAMES, Case, case
from sendoff_fcm.testing.local import LocalFCM
from sendoff_fcm.testing.records import Counters, Request

__all__ = ["CASES", "NAMES", "Answer", "Case", "Counters", "Fault", "LocalFCM", "Request", "case"]
