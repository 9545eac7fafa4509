"""Here, above tests/ and plugins/*/tests/, so that both have the fixtures."""

import signal

pytest_plugins = ["tests.support.fixtures", "tests.support.worker_fixtures"]

# A shell starts what it runs in the background with SIGINT ignored, and a program that finds it so cannot be
# interrupted. Tests interrupt programs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
