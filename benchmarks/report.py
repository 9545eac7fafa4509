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
    table = Table(title="rows per second (median, and the range of the runs)")
    for heading, justify in (("workload", "left"), (SENDOFF, "right"), (RAW, "right"), ("ratio", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]  # a literal that mypy sees as text
    for name in dict.fromkeys(result.workload for result in found):
        by_subject = {result.subject: result for result in found if result.workload == name}
        cells = [_cell(by_subject[subject].value, runs[name][subject]) for subject in (SENDOFF, RAW)]
        table.add_row(name, *cells, f"{by_subject[SENDOFF].ratio_to_raw:.2f}")
    console.print(table)


def _cell(median: float, values: Sequence[float]) -> str:
    return f"{median:,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def write(path: Path, found: Sequence[Result]) -> None:
    """A list of ``{workload, subject, value, unit, ratio_to_raw}``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps([asdict(result) for result in found], option=orjson.OPT_INDENT_2) + b"\n")
