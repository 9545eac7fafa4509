"""The command line from end to end on a real database: what each command does, prints and answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.commands import PLUGIN, Ran, run


class Cli:
    """``sendoff`` with a database and the recording plugin."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self.log = log

    def __call__(self, *words: str, stdin: str | None = None) -> Ran:
        env = {"SENDOFF_CHANNELS__PAGER__LOG": str(self.log)}
        return run("--database-url", self.url, "-p", PLUGIN, *words, stdin=stdin, env=env)

    def json(self, *words: str, code: int = 0, stdin: str | None = None) -> Any:
        """The JSON that a command prints, whose exit code is ``code``."""
        ran = self("--json", *words, stdin=stdin)
        assert ran.code == code, ran.err
        return ran.json

    def enqueue(self, recipient: str = "u1", body: str = "hello", *words: str) -> str:
        """Enqueue for the pager; the row's id."""
        answer = self.json("enqueue", recipient, "alert", "-c", "pager", "--body", body, *words)
        row_id: str = answer["rows"][0]["outgoing_id"]
        return row_id

    def calls(self) -> list[dict[str, Any]]:
        """What the pager has sent."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def sendoff(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(sqlite_url, tmp_path / "calls.jsonl")


# --------------------------------------------------------------------------------------------------------- enqueue


def test_a_notification_goes_from_the_command_line_into_the_channel(sendoff: Cli) -> None:
    answer = sendoff.json(
        "enqueue", "u1", "order.shipped", "-c", "pager", "--title", "Unterwegs 🚚", "--body", "ok",
        "--data", '{"order": 17}', "--option", "pager.tone=7", "--option", "pager.led.colour=red",
        "--options", '{"pager": {"volume": "high"}}', "--address", "pager=+491", "--address", "pager=+492",
    )  # fmt: skip
    assert [(row["channel"], row["outcome"]) for row in answer["rows"]] == [("pager", "created")]

    report = sendoff.json("drain")

    assert (report["tries"], report["sent"], report["remaining"]) == (1, 1, 0)
    [call] = sendoff.calls()
    assert (call["recipient"], call["addresses"]) == ("u1", ["+491", "+492"])
    assert {key: value for key, value in call["payload"].items() if not key.startswith("$")} == {
        "title": "Unterwegs 🚚",
        "body": "ok",
        "data": {"order": 17},
        "options": {"tone": 7, "led": {"colour": "red"}, "volume": "high"},
    }


def test_people_are_told_what_became_of_each_channel(sendoff: Cli) -> None:
    words = ("enqueue", "u1", "alert", "-c", "pager", "-c", "siren", "--dedup-key", "k1")

    first, second = sendoff(*words), sendoff(*words)

    assert (first.code, first.err, second.code, second.err) == (0, "", 0, "")
    told = first.out.splitlines()
    assert (told[0][:13], told[1].split(), [line.split()[:2] for line in told[2:]]) == (
        "notification ",
        ["channel", "outcome", "row"],
        [["pager", "created"], ["siren", "created"]],
    )
    assert [line.split()[:2] for line in second.out.splitlines()[2:]] == [
        ["pager", "duplicate"],
        ["siren", "duplicate"],
    ]
    assert first.out.splitlines()[0] == second.out.splitlines()[0]


def test_times_priorities_and_keys_reach_the_row(sendoff: Cli) -> None:
    row_id = sendoff.enqueue(
        "u1", "x", "--not-before", "2099-12-01T09:00:00+01:00", "--ttl", "2h", "--priority", "urgent",
        "--dedup-key", "d", "--collapse-key", "c",
    )  # fmt: skip

    row = sendoff.json("show", row_id)

    names = ("status", "state", "due_at", "expires_at", "priority", "dedup_key", "collapse_key")
    assert [row[name] for name in names] == [
        "pending", "scheduled", "2099-12-01T08:00:00Z", "2099-12-01T10:00:00Z", 0, "d", "c",
    ]  # fmt: skip


def test_common_options_work_on_both_sides_of_the_command(sqlite_url: str, tmp_path: Path) -> None:
    before = run("--json", "--database-url", sqlite_url, "-p", PLUGIN, "dead", "list")
    between = run("dead", "--json", "-p", PLUGIN, "--database-url", sqlite_url, "list")
    after = run("dead", "list", "--json", "-p", PLUGIN, "--database-url", sqlite_url)

    assert [(ran.code, ran.out) for ran in (before, between, after)] == [(0, "[]\n")] * 3


# ------------------------------------------------------------------------------------------------------------ bulk

LINES = """{"recipient": "u1", "type": "alert", "dedup_key": "a"}
{"recipient": "u2", "type": "alert", "channels": ["siren"]}

{"recipient": "", "type": "alert"}
not json
{"recipient": "u3", "type": "alert", "channels": ["pgaer"]}
{"recipient": "u4", "type": "alert", "title": "longer than twenty characters"}
{"recipient": "u1", "type": "alert", "dedup_key": "a"}
"""


def test_good_lines_are_in_and_each_bad_one_is_named_by_its_number(sendoff: Cli) -> None:
    ran = sendoff("enqueue", "--stdin", "-c", "pager", stdin=LINES)

    assert (ran.code, ran.out) == (
        1,
        "lines  created  duplicate  suppressed  rejected\n    7        2          1           0         4\n",
    )
    told = ran.err.splitlines()
    expected = [
        ("sendoff: line 4: ", "recipient: is empty"),
        ("sendoff: line 5: ", "is not JSON"),
        ("sendoff: line 6: ", "did you mean 'pager'?"),
        ("sendoff: line 7: ", "the limit is 20"),
        ("sendoff: 4 of 7 lines", "rejected; the others are in"),
    ]
    assert [(line.startswith(start), words in line) for line, (start, words) in zip(told, expected, strict=True)] == [
        (True, True)
    ] * 5, told
    assert [(row["recipient"], row["channel"]) for row in sendoff.json("list")] == [("u2", "siren"), ("u1", "pager")]


def test_programs_get_one_answer_for_each_line_in_order(sendoff: Cli) -> None:
    ran = sendoff("--json", "enqueue", "--stdin", "-c", "pager", stdin=LINES)

    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert [(answer["line"], answer.get("field")) for answer in answers[2:6]] == [
        (4, "recipient"),
        (5, "line"),
        (6, "channels"),
        (7, "title"),
    ]
    assert [answers[index]["rows"][0]["outcome"] for index in (0, 1, 6)] == ["created", "created", "duplicate"]
    assert (ran.code, ran.error["message"]) == (1, "4 of 7 lines rejected; the others are in")


def test_a_file_is_read_like_a_pipe(sendoff: Cli, tmp_path: Path) -> None:
    source = tmp_path / "lines.jsonl"
    source.write_text("".join(f'{{"recipient": "u{n}", "dedup_key": "k{n}"}}\n' for n in range(1201)), encoding="utf-8")

    ran = sendoff("enqueue", "--file", str(source), "anybody", "news", "-c", "pager")

    assert (ran.code, ran.err, ran.out.split()[5:]) == (0, "", ["1,201", "1,201", "0", "0", "0"])
    status = {channel["name"]: channel["due"] for channel in sendoff.json("status")["channels"]}
    assert status["pager"] == 1201


# ------------------------------------------------------------------------------------------------------------ send


@pytest.mark.parametrize(
    ("body", "code", "state", "words"),
    [
        ("ok", 0, "sent", "nothing: it is done"),
        ("retry", 1, "retrying", "failed, retryable: HTTP 503: busy \ufffd[31mtry later"),
        ("permanent", 1, "dead", "refused for good: 550 no such user"),
        ("no target", 1, "dead", "no target: no pager registered"),
    ],
)
def test_send_prints_the_verdict_and_succeeds_only_when_sent(
    sendoff: Cli, body: str, code: int, state: str, words: str
) -> None:
    ran = sendoff("send", "u1", "alert", "-c", "pager", "--body", body)

    assert (ran.code, ran.out.splitlines()[1].split()[:2], words in ran.out) == (code, ["pager", state], True), ran.out
    assert ran.err == ("" if code == 0 else "sendoff: 1 row of 1 not sent: pager\n")
    assert len(sendoff.calls()) == 1


def test_sending_again_under_the_same_key_sends_nothing(sendoff: Cli) -> None:
    words = ("send", "u1", "alert", "-c", "pager", "--dedup-key", "once")

    first, second = sendoff(*words), sendoff(*words)

    assert (first.code, second.code, len(sendoff.calls())) == (0, 0, 1)


# ------------------------------------------------------------------------------------------------------- looking


def test_status_counts_rows_and_warns_where_nobody_serves(sendoff: Cli) -> None:
    sendoff.enqueue("u1", "ok")
    sendoff.enqueue("u2", "ok", "--not-before", "2h")
    sendoff("send", "u3", "alert", "-c", "pager", "--body", "permanent")
    sendoff("send", "u4", "alert", "-c", "pager", "--body", "retry")
    sendoff("send", "u5", "alert", "-c", "pager")

    found = {channel["name"]: channel for channel in sendoff.json("status")["channels"]}
    ran = sendoff("status")

    names = ("due", "scheduled", "retrying", "leased", "waiting", "sent", "dead", "workers")
    assert [found["pager"][name] for name in names] == [1, 1, 1, 0, 0, 1, 1, 0]
    assert ran.code == 0
    title, *rows = ran.out.splitlines()
    assert title.split() == [*names[:-1], "oldest", "due", "workers", "paused"] or title.split()[0] == "channel"
    [pager] = [row.split() for row in rows if row.startswith("pager")]
    assert pager[:8] == ["pager", "1", "1", "1", "0", "0", "1", "1"]
    assert [line for line in rows if line.startswith("warning: ") and "pager" in line] != []


def test_list_filters_and_pages(sendoff: Cli) -> None:
    ids = [sendoff.enqueue(f"u{n % 2}", "ok") for n in range(5)]
    sendoff("enqueue", "u0", "other", "-c", "siren")

    def listed(*words: str) -> list[str]:
        return [row["id"] for row in sendoff.json("list", *words)]

    assert listed("--channel", "pager") == ids[::-1]
    assert listed("--type", "alert", "--recipient", "u1") == [ids[3], ids[1]]
    assert listed("--channel", "pager", "--limit", "2") == [ids[4], ids[3]]
    assert listed("--channel", "pager", "--limit", "2", "--before", ids[3]) == [ids[2], ids[1]]
    assert listed("--status", "dead") == []
    assert listed("--since", "2099-01-01T00:00:00Z") == []
    assert len(listed("--since", "1h")) == 6
    paged = sendoff("list", "--limit", "2")
    assert (len(paged.out.splitlines()), paged.out.splitlines()[-1]) == (5, f"there may be more: --before {ids[4]}")
    assert sendoff("list", "--recipient", "nobody").out == "no rows\n"


def test_show_tells_the_story_of_a_row(sendoff: Cli) -> None:
    row_id = sendoff.enqueue("u1", "retry", "--dedup-key", "k")
    sendoff("drain")

    ran = sendoff("show", row_id)

    told = ran.out.splitlines()
    facts = dict(re.split(r"  +", line, maxsplit=1) for line in told[: told.index("")])
    assert (ran.code, facts["row"], facts["state"], facts["tries"]) == (0, row_id, "retrying (pending)", "1")
    assert facts["verdict"] == "failed, retryable: HTTP 503: busy \ufffd[31mtry later"
    [after] = [line for line in told if line.startswith("next: ")]
    assert after.startswith("next: try 2 in ")
    events = [line.split("  ")[-1].strip() for line in told if line.startswith("20")]
    assert (events[0], events[1].startswith("failed; will be tried again: HTTP 503: busy")) == ("enqueued", True)
    assert "\x1b" not in ran.out


def test_show_in_json_has_the_events(sendoff: Cli) -> None:
    row_id = sendoff.enqueue("u1", "ok")
    sendoff("drain")

    row = sendoff.json("show", row_id)

    assert (row["status"], row["provider_ref"], [event["kind"] for event in row["events"]]) == (
        "sent",
        "ref-1",
        ["created", "sent"],
    )


# ----------------------------------------------------------------------------------------------------- repairing


def test_dead_rows_are_listed_and_requeued(sendoff: Cli) -> None:
    dead = sendoff.enqueue("u1", "permanent")
    sendoff.enqueue("u2", "ok")
    sendoff("drain")

    assert [row["id"] for row in sendoff.json("dead", "list")] == [dead]
    assert sendoff("requeue", "--channel", "pager", "--dry-run").out == "1 row would be requeued\n"
    assert sendoff("requeue", "--channel", "siren").out == "0 rows requeued\n"
    assert sendoff.json("dead", "requeue", dead) == {"dry_run": False, "requeued": 1}
    again = sendoff("requeue", dead)
    assert (again.code, again.out, again.err) == (
        1,
        "",
        f"sendoff: row {dead} cannot be requeued: it has not ended yet; the next try comes by itself\n",
    )
    assert sendoff.json("show", dead)["requeue_count"] == 1
    sendoff("drain")
    assert sendoff("requeue", "--reason", "550", "--verdict", "permanent", "--since", "1h").out == "1 row requeued\n"
    keys = [call["key"] for call in sendoff.calls() if call["recipient"] == "u1"]
    assert (len(keys), len(set(keys))) == (2, 2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "say which rows: IDs, a filter (--channel, --verdict, --reason, --since), or --all"),
        ((str(uuid4()), "--channel", "pager"), "give IDs or filters, not both"),
        (("--all", "--channel", "pager"), "--all is every dead row; leave the filters or --all away"),
    ],
)
def test_requeue_wants_to_know_which_rows(sendoff: Cli, words: tuple[str, ...], expected: str) -> None:
    ran = sendoff("requeue", *words)

    assert (ran.code, ran.err) == (2, f"sendoff: {expected} (see `sendoff requeue --help`)\n")


def test_all_dead_rows_are_requeued_when_all_are_meant(sendoff: Cli) -> None:
    for recipient in ("u1", "u2"):
        sendoff.enqueue(recipient, "permanent")
    sendoff("drain")

    assert sendoff("requeue", "--all").out == "2 rows requeued\n"


def test_cancel_says_for_each_row_what_became_of_it(sendoff: Cli) -> None:
    row_id = sendoff.enqueue("u1", "ok", "-c", "siren")
    notification = sendoff.json("show", row_id)["notification_id"]

    first, second = sendoff("cancel", notification), sendoff("cancel", notification)

    assert (first.code, first.err, [line.split()[1:] for line in first.out.splitlines()[1:]]) == (
        0,
        "",
        [["pager", "cancelled"], ["siren", "cancelled"]],
    )
    assert (second.code, second.err) == (1, "sendoff: no row could be cancelled\n")
    assert [line.split()[1:3] for line in second.out.splitlines()[1:]] == [["pager", "final:"], ["siren", "final:"]]
    sendoff("drain")
    assert sendoff.calls() == []


def test_what_does_not_exist_is_said_to_be_missing(sendoff: Cli) -> None:
    missing = str(uuid4())

    shown, cancelled = sendoff("show", missing), sendoff("cancel", missing)

    assert [(shown.code, shown.out), (cancelled.code, cancelled.out)] == [(1, ""), (1, "")]
    assert missing in shown.err
    assert cancelled.err == f"sendoff: no notification {missing}\n"


# ------------------------------------------------------------------------------------------ plugins, fetchers, more


def test_plugins_lists_channels_fetchers_and_commands(sendoff: Cli) -> None:
    [mine] = [plugin for plugin in sendoff.json("plugins") if plugin["name"] == PLUGIN]
    ran = sendoff("plugins")

    assert (mine["channels"], mine["fetchers"], mine["error"]) == (["pager", "siren"], ["shop"], None)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "commands of plugins: fcm, ring, status")


def test_a_command_of_a_plugin_is_found_and_replaces_none_of_ours(sendoff: Cli) -> None:
    ring, status = sendoff("ring"), sendoff("status")

    assert (ring.code, ring.out, ring.err) == (0, "ring ring\n", "")
    assert ("replaced" in status.out, status.code) == (False, 0)


def test_a_fetcher_runs_and_names_what_it_rejects(sendoff: Cli) -> None:
    dry = sendoff.json("fetch", "shop", "--dry-run")
    rows_after_dry = sendoff.json("list")
    real = sendoff.json("fetch", "shop")

    assert (dry["enqueued"], rows_after_dry) == (2, [])
    assert (real["ran"], real["pages"], real["enqueued"], real["rejected"]) == (True, 2, 2, 1)
    assert [row["recipient"] for row in sendoff.json("list")] == ["u2", "u1"]


def test_config_masks_and_names_sources(sendoff: Cli, tmp_path: Path) -> None:
    (tmp_path / "sendoff.toml").write_text('[worker]\nlease = "90s"\n[channels.pager]\nlog = "x"\n', encoding="utf-8")

    found = {row["key"]: (row["value"], row["source"]) for row in sendoff.json("config")}

    assert found["worker.lease"] == ("90.0", "sendoff.toml")
    assert found["channels.pager.log"] == (str(sendoff.log), "env SENDOFF_CHANNELS__PAGER__LOG")
    assert found["worker.batch"] == ("500", "default")
    assert found["sendoff.database_url"] == (sendoff.url, "argument")


def test_doctor_is_content_with_a_healthy_installation(sendoff: Cli) -> None:
    ran = sendoff("doctor")

    assert (ran.code, ran.err) == (0, "")
    assert {line.split()[0] for line in ran.out.splitlines()} - {"->"} <= {"ok", "warning"}


def test_migrate_makes_a_database_ready_and_has_nothing_to_do_twice(empty_sqlite_url: str) -> None:
    first = run("migrate", "--database-url", empty_sqlite_url)
    second = run("migrate", "--database-url", empty_sqlite_url)
    status = run("status", "--json", "--database-url", empty_sqlite_url)

    assert (first.code, first.err, first.out.splitlines()[0][:16]) == (0, "", "core: nothing ->")
    assert (second.code, second.out) == (0, "the database is up to date\n")
    assert status.code == 0


def test_migrate_prints_its_sql_without_touching_the_database(empty_sqlite_url: str, tmp_path: Path) -> None:
    ran = run("migrate", "--sql", "--database-url", empty_sqlite_url)

    assert (ran.code, "CREATE TABLE sendoff_outgoing" in ran.out, list(tmp_path.iterdir())) == (0, True, [])


def test_everything_works_on_postgresql_too(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sendoff = Cli(postgres_url, tmp_path / "calls.jsonl")
    dead = sendoff.enqueue("u1", "permanent")
    report = sendoff.json("drain")
    shown = sendoff.json("show", dead)

    assert (report["dead"], shown["status"], UUID(shown["id"])) == (1, "dead", UUID(dead))
    assert sendoff.json("requeue", "--all") == {"dry_run": False, "requeued": 1}
    assert {channel["name"]: channel["due"] for channel in sendoff.json("status")["channels"]}["pager"] == 1
    assert sendoff("doctor").code == 0
