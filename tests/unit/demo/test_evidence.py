"""Reading what the channels wrote: nothing that is whole is overlooked, nothing that is not is counted."""

from __future__ import annotations

import json
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from uuid import UUID

from sqlalchemy import create_engine, text

from sendoff.demo.evidence import newest_entry, read_inbox, read_lines, read_maildir
from sendoff.demo.facts import Writing


def message(order: str, to: str = "Ann@example.org") -> bytes:
    mail = EmailMessage(policy=SMTP)
    mail["To"] = to
    mail["X-Order"] = order
    mail["X-Sendoff-Outgoing-Id"] = "row"
    mail["X-Sendoff-Idempotency-Key"] = "key"
    mail.set_content(f"X-Order: SO-666\n\nDear Ann, {order}")
    return mail.as_bytes()


def test_messages_in_new_and_cur_count_and_drafts_do_not(tmp_path: Path) -> None:
    for folder, order in (("new", "SO-1"), ("cur", "SO-2"), ("tmp", "SO-3")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.eml").write_bytes(message(order))
    found = list(read_maildir(tmp_path, "email"))
    assert found[0] == Writing("SO-1", "email", "Ann@example.org", "row", "key", "new/1.eml")
    assert [writing.order for writing in found] == ["SO-1", "SO-2"]


def test_a_message_without_our_headers_belongs_to_no_order(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "1").write_bytes(b"Subject: hello\r\n\r\nX-Order: SO-1\r\n")
    assert [writing.order for writing in read_maildir(tmp_path, "email")] == [""]


def test_no_maildir_and_no_file_is_nothing_written(tmp_path: Path) -> None:
    assert list(read_maildir(tmp_path / "none", "email")) == []
    assert list(read_lines(tmp_path / "none", "sms")) == []


def test_the_order_of_an_sms_is_the_one_in_its_text(tmp_path: Path) -> None:
    file = tmp_path / "sms.jsonl"
    entry = {"to": "+447700900123", "outgoing_id": "row", "idempotency_key": "key"}
    texts = ["Order SO-10001 is late. Ann, sorry", "Order SO-10002: money back", "No order here"]
    lines = [json.dumps({**entry, "text": text}) for text in texts]
    file.write_text("\n".join([lines[0], '{"to": "+44770', lines[1], lines[2]]) + "\n")
    found = list(read_lines(file, "sms"))
    assert [writing.order for writing in found] == ["SO-10001", "SO-10002", ""]
    assert found[1].place == "sms.jsonl line 3"


def test_the_inbox_is_read_but_for_what_was_there_before() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE sendoff_inbox (id text, outgoing_id text, recipient text, data text)"))
        insert = text("INSERT INTO sendoff_inbox VALUES (:id, :row, 'C-1', :data)")
        assert newest_entry(connection) is None
        connection.execute(insert, {"id": str(UUID(int=1)), "row": "a", "data": '{"order": "SO-1"}'})
        newest = newest_entry(connection)
        connection.execute(insert, {"id": str(UUID(int=2)), "row": "b", "data": None})
        every = list(read_inbox(connection, "inbox", after=None))
        assert list(read_inbox(connection, "inbox", after=newest)) == every[1:]
    engine.dispose()
    assert [(writing.order, writing.row, writing.to) for writing in every] == [("SO-1", "a", "C-1"), ("", "b", "C-1")]
