"""The benchmarks run: every workload does its work with tiny sizes. How fast is not a test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.report import Result, results
from benchmarks.workloads import Figure

ROOT = Path(__file__).parents[2]
WORKLOADS = [
    "single-enqueue",
    "bulk-enqueue",
    "drain-1",
    "drain-2",
    "drain-1-batch-channel",
    "sqlite-drain-1",
]
PUSH = {"fcm-send": "messages/s", "fcm-cpu": "us/message", "fcm-threads": "threads", "fcm-connections": "open"}
EXPECTED = [
    *((workload, subject, "rows/s") for workload in WORKLOADS for subject in ("sendoff", "raw")),
    *(("inbox-drain", subject, "rows/s") for subject in ("sendoff", "noop batch")),
    *(
        (figure, subject, unit)
        for figure, unit in PUSH.items()
        for subject in ("sendoff", "send_each", "send_each_async")
    ),
    *(("fcm-memory", subject, "MiB") for subject in ("sendoff", "after a fifth")),
]


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)


def test_every_workload_does_its_work_and_is_written_down(postgres_url: str, tmp_path: Path) -> None:
    output = tmp_path / "new" / "results.json"
    sizes = ["--rows", "60", "--singles", "3", "--messages", "20", "--sends", "40", "--repeats", "1"]
    ran = benchmarks("--database-url", postgres_url, "--output", str(output), *sizes)
    assert ran.returncode == 0, ran.stderr
    assert "server_version" in ran.stdout
    assert "rows 60" in ran.stdout
    found = json.loads(output.read_text())
    assert [(one["workload"], one["subject"], one["unit"]) for one in found] == EXPECTED
    for one in found:
        assert set(one) == {"workload", "subject", "value", "unit", "ratio_to_raw"}
        assert one["value"] > 0
        assert one["subject"] not in {"raw", "noop batch", "after a fifth"} or one["ratio_to_raw"] == 1


def test_an_unknown_workload_is_wrong_usage() -> None:
    ran = benchmarks("--only", "drain-3", "--rows", "1")
    assert ran.returncode == 2
    assert "drain-3" in ran.stderr
    assert "drain-1" in ran.stderr


def test_the_median_of_the_runs_counts() -> None:
    figure = Figure("drain-1", "rows/s")
    assert results(figure, ["raw"], {"sendoff": [9.0, 30.0, 1.0], "raw": [20.0, 18.0, 100.0]}) == [
        Result("drain-1", "sendoff", 9.0, "rows/s", 0.45),
        Result("drain-1", "raw", 20.0, "rows/s", 1.0),
    ]


def test_a_ratio_is_to_the_better_of_two() -> None:
    runs = {"sendoff": [10.0], "one": [20.0], "other": [40.0]}
    fast = results(Figure("speed", "messages/s"), ["one", "other"], runs)
    cheap = results(Figure("cost", "us", less_is_better=True), ["one", "other"], runs)
    assert [one.ratio_to_raw for one in fast] == [0.25, 0.5, 1.0]
    assert [one.ratio_to_raw for one in cheap] == [0.5, 1.0, 2.0]
