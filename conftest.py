"""Here, above tests/ and plugins/*/tests/, so that both have the fixtures."""

pytest_plugins = ["tests.support.fixtures", "tests.support.worker_fixtures"]
