"""The README's code is run as it stands there."""

from __future__ import annotations

import asyncio
import re
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest
import sqlalchemy as sa

import sendoff_inbox.plugin
from plugins.inbox.tests.helpers import Feed, arrive, titles
from sendoff import Notification, Sendoff
from sendoff_inbox import inbox
from sendoff_inbox.plugin import InboxChannel

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
CODE = dict(re.findall(r"^<!-- runs: (\w+) -->\n```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL))


@pytest.fixture
def so(database: sa.Engine) -> Sendoff:
    return Sendoff("sqlite:///not-opened.db", engine=database, plugins=[sendoff_inbox.plugin], entry_points=False)


def run(name: str, **names: Any) -> dict[str, Any]:
    exec(compile(CODE[name], f"README: {name}", "exec"), names)
    return names


def test_send(so: Sendoff, database: sa.Engine) -> None:
    code = CODE["send"].replace(', "fcm"]', "]")
    assert code != CODE["send"]
    with database.begin() as db:
        exec(code, {"so": so, "db": db, "Notification": Notification})
    so.drain()
    [entry] = Feed(database, "u1").list()
    assert ("On its way", "/orders/17", {"order": 17}) == (entry.title, entry.link, entry.data)
    assert {"icon": "box", "actions": [{"label": "Track", "link": "/track/17"}]} == entry.options


def test_the_feed(worker: InboxChannel, database: sa.Engine, feed: Feed) -> None:
    arrive(worker, *map(str, range(45)))
    with database.begin() as db:
        names = run("feed", db=db, attrs=attrs, orjson=orjson)
    assert [str(number) for number in range(44, 24, -1)] == titles(names["page"])
    assert [str(number) for number in range(24, 4, -1)] == titles(names["more"])
    assert (45, 0, 44) == (names["badge"], feed.unread_count(), len(feed.list()))
    assert [str(entry.id) for entry in names["page"]] == [entry["id"] for entry in orjson.loads(names["answer"])]


def test_the_stream(worker: InboxChannel, database: sa.Engine, so: Sendoff, feed: Feed) -> None:
    code = CODE["stream"].replace("wait_async(15)", "wait_async(0.05)")
    assert code != CODE["stream"]
    names: dict[str, Any] = {"inbox": inbox, "so": so, "attrs": attrs, "orjson": orjson, "AsyncIterator": AsyncIterator}
    exec(textwrap.dedent(code), names)
    arrive(worker, "1", "2")
    newest, older = feed.list()

    async def scenario() -> list[str]:
        lines = names["events"]("u1", str(older.id))
        found = [await anext(lines), await anext(lines)]
        await lines.aclose()
        return found

    first, second = asyncio.run(scenario())
    assert first.startswith(f"id: {newest.id}\ndata: {{")
    assert ("2", ": still here\n\n") == (orjson.loads(first.partition("data: ")[2])["title"], second)
