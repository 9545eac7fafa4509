"""The figures as a table for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
from attrs import asdict, frozen
from rich.console import Console
from rich.table import Table

from benchmarks.workloads import RAW, SENDOFF, Workload

__all__ = ["Result", "environment", "results", "show", "write"]

PACKAGES = ("sendoff", "SQLAlchemy", "psycopg", "orjson")


@frozen
class Result:
    """One figure: the median of its runs. ``ratio_to_raw`` is 1 for raw itself."""

    workload: str
    subject: str
    value: float
    unit: str
    ratio_to_raw: float


def results(workload: Workload, runs: Mapping[str, Sequence[float]]) -> list[Result]:
    """The medians of one workload."""
    medians = {subject: statistics.median(values) for subject, values in runs.items()}
    return [
        Result(workload.name, subject, round(value, 1), workload.unit, round(value / medians[RAW], 3))
        for subject, value in medians.items()
    ]


def environment(server: str, settings: Mapping[str, Any]) -> list[str]:
    """Versions and settings, so that anyone can repeat the run."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    options = ", ".join(f"{name} {value}" for name, value in settings.items())
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return [
        f"{machine}, Python {platform.python_version()}, {packages}",
        f"PostgreSQL: {server}",
        f"measured: {options}",
    ]


def show(console: Console, found: Sequence[Result], runs: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """One line a workload."""
    table = Table(title="rows per second, medians; of the ratio also the range over the runs")
    table.add_column("workload")
    for heading in (SENDOFF, RAW, "ratio", "range"):
        table.add_column(heading, justify="right")
    for name in dict.fromkeys(result.workload for result in found):
        by_subject = {result.subject: result for result in found if result.workload == name}
        medians = [f"{by_subject[subject].value:,.0f}" for subject in (SENDOFF, RAW)]
        ratios = [mine / limit for mine, limit in zip(runs[name][SENDOFF], runs[name][RAW], strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        table.add_row(name, *medians, f"{by_subject[SENDOFF].ratio_to_raw:.2f}", spread)
    console.print(table)


def write(path: Path, found: Sequence[Result]) -> None:
    """A list of ``{workload, subject, value, unit, ratio_to_raw}``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps([asdict(result) for result in found], option=orjson.OPT_INDENT_2) + b"\n")
