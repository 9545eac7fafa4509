"""The demo's settings file, which its workers read as any worker does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen
from sqlalchemy.engine import URL

from sendoff.settings import Settings

__all__ = ["CHANNELS", "FETCHER", "LEASE", "PUSH", "Places"]

#: In the order of the table.
CHANNELS = ("inbox", "email", "sms")
#: The channel that comes last there, where it is installed.
PUSH = "fcm"
FETCHER = "orders"
#: Seconds. Short, so that the dead worker's rows come back while somebody is watching.
LEASE = 5.0

TEMPLATE = """\
# What `sendoff demo` ran with. Every key is explained by `sendoff config` and the README.
[sendoff]
{database}plugins = {plugins}

[worker]
channels = {channels}
lease = "{lease}s"          # a killed worker's rows come back after this
margin = "500ms"
grace = "5s"
batch = 50                  # small claims, so that both workers have something to do
poll = "250ms"

[channels.inbox.limits]
timeout = "3s"

[channels.email]
directory = {maildir}
from_address = "orders@shop.example"
from_name = "The Example Shop"
latency = "30ms"            # what a mail server takes
on_no_target = "sent"       # without an address the inbox has to do: no dead letter that somebody must look at
seed = {seed}
rules = [
  {{ match = "*", verdict = "retryable", share = 0.2, first_tries = 3, reason = "451 4.3.2 try again later" }},
]

[channels.email.limits]
concurrency = 6
timeout = "3s"

[channels.email.retry]
delays = ["300ms", "600ms", "1s", "2s"]

[channels.sms]
file = {lines}
latency = "20ms"
on_no_target = "sent"
seed = {seed}

[channels.sms.limits]
concurrency = 4
timeout = "3s"

[plugins.orders]
push = {push}
"""
#: A second, all workers together.
PUSH_RATE = 240
PUSH_TEMPLATE = """
[channels.fcm]
endpoint = {endpoint}       # the local FCM; without it, Google's
credentials = {{ file = {credentials} }}
success = "all"             # every phone of a customer, not just one of them

[channels.fcm.limits]
concurrency = 16
rate = {rate:<20} # a second, each worker: slow enough to be in the middle of it when FCM goes down
timeout = "3s"

[channels.fcm.retry]
delays = ["2s", "3s"]
"""


@frozen
class Places:
    """Where the demo keeps what."""

    folder: Path

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.folder / "sendoff.toml"

    @property
    def database(self) -> Path:
        """The SQLite file, where that is the database."""
        return self.folder / "demo.db"

    @property
    def sqlite_url(self) -> str:
        """The URL of that file, whatever characters its path has."""
        return URL.create("sqlite", database=str(self.database)).render_as_string()

    @property
    def maildir(self) -> Path:
        """What the e-mail channel writes."""
        return self.folder / "email"

    @property
    def lines(self) -> Path:
        """What the SMS channel writes."""
        return self.folder / "sms.jsonl"

    @property
    def requests(self) -> Path:
        """What the local FCM was asked, in its own words."""
        return self.folder / "fcm.jsonl"

    @property
    def credentials(self) -> Path:
        """The service account that the local FCM takes."""
        return self.folder / "service-account.json"

    def write(
        self,
        database_url: str | None,
        *,
        plugins: Sequence[str],
        seed: int,
        workers: int = 2,
        push_endpoint: str | None = None,
    ) -> None:
        """Write the settings file. A URL that may hold a password is left out of it; it goes by the environment.

        ``push_endpoint``: there is a push channel, and its FCM is here.
        """
        push = push_endpoint is not None
        text = TEMPLATE.format(
            database="" if database_url is None else f"database_url = {_quoted(database_url)}\n",
            plugins=json.dumps(list(plugins), ensure_ascii=False),
            channels=json.dumps([*CHANNELS, PUSH] if push else CHANNELS),
            push=json.dumps(push),
            lease=f"{LEASE:g}",
            maildir=_quoted(self.maildir),
            lines=_quoted(self.lines),
            seed=seed,
        )
        if push:
            text += PUSH_TEMPLATE.format(
                endpoint=_quoted(push_endpoint), credentials=_quoted(self.credentials), rate=PUSH_RATE // workers
            )
        self.config.write_text(text, encoding="utf-8")

    def settings(self, database_url: str) -> Settings:
        """The same settings for this process, the user's own environment left out."""
        said: Mapping[str, Mapping[str, str]] = {"sendoff": {"database_url": database_url}}
        return Settings.load(said, config=self.config, environ={})


def _quoted(value: object) -> str:
    """A TOML string: JSON's escapes are TOML's too."""
    return json.dumps(str(value), ensure_ascii=False)
