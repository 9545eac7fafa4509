"""Reading the local FCM's log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sendoff.demo.facts import Request, Row, Writing
from sendoff.demo.fcmoutage import outage_report
from sendoff.demo.pushlog import accepted, read_log


def line(token: str, *, status: int = 200, **changes: Any) -> str:
    message = {"data": {"order": "SO-1", "outgoing_id": "row"}, "android": {"collapse_key": "key"}}
    return json.dumps({"token": token, "status": status, "accepted": status == 200, "message": message, **changes})


def test_every_whole_line_is_a_request_and_what_was_accepted_a_push(tmp_path: Path) -> None:
    log = tmp_path / "fcm.jsonl"
    log.write_text("\n".join([line("a"), line("b", status=404), line("", status=400, message=None), '{"token": "c']))
    requests = list(read_log(log))
    assert requests == [
        Request("a", 200, True, "SO-1", "row", "key", "fcm.jsonl line 1"),
        Request("b", 404, False, "SO-1", "row", "key", "fcm.jsonl line 2"),
        Request("", 400, False, "", "", "", "fcm.jsonl line 3"),
    ]
    assert list(accepted(requests, "fcm")) == [Writing("SO-1", "fcm", "a", "row", "key", "fcm.jsonl line 1")]


def test_no_log_is_no_request(tmp_path: Path) -> None:
    assert list(read_log(tmp_path / "none")) == []


def test_who_met_the_outage_and_who_paid_for_it() -> None:
    requests = [
        Request("a", 503, False, "SO-1", "row-1", "key", ""),
        Request("b", 503, False, "SO-1", "row-1", "key", ""),
        Request("c", 503, False, "SO-2", "row-2", "key", ""),
        Request("d", 200, True, "SO-3", "row-3", "key", ""),
    ]
    rows = [
        Row(f"row-{number}", f"SO-{number}", "fcm", "C-1", "sent", "sent", 2, 1, 2, counted=counted)
        for number, counted in ((1, 0), (2, 1), (3, 1))
    ]
    outage = outage_report(5.04, rows, requests)
    assert (outage.seconds, outage.requests, outage.rows, outage.paid) == (5.0, 3, 2, 1)
