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

from benchmarks.workloads import SENDOFF, Figure

__all__ = ["Result", "environment", "results", "show", "write"]

PACKAGES = ("sendoff", "SQLAlchemy", "psycopg", "orjson")


#: Values by subject, one for each run.
Runs = Mapping[str, Sequence[float]]


@frozen
class Result:
    """One figure: the median of its runs. ``ratio_to_raw`` is to what sendoff is measured beside, 1 for that itself."""

    workload: str
    subject: str
    value: float
    unit: str
    ratio_to_raw: float


def results(figure: Figure, baselines: Sequence[str], runs: Runs) -> list[Result]:
    """The medians of one figure, beside the best of the baselines."""
    medians = {subject: statistics.median(values) for subject, values in runs.items()}
    best = (min if figure.less_is_better else max)(medians[baseline] for baseline in baselines)
    return [
        Result(figure.name, subject, round(value, 1), figure.unit, round(value / best, 3))
        for subject, value in sorted(medians.items(), key=lambda one: one[0] != SENDOFF)
    ]


def environment(server: str | None, settings: Mapping[str, Any]) -> list[str]:
    """Versions and settings, so that anyone can repeat the run."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    options = ", ".join(f"{name} {value}" for name, value in settings.items())
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return [
        f"{machine}, Python {platform.python_version()}, {packages}",
        *([f"PostgreSQL: {server}"] if server else []),
        f"measured: {options}",
    ]


def show(console: Console, found: Sequence[Result], runs: Mapping[str, Runs]) -> None:
    """One line for each pair of sendoff and something beside it."""
    table = Table(title="medians; of the ratio also the range over the runs", box=None, padding=(0, 1, 0, 0))
    table.add_column("workload", no_wrap=True)
    table.add_column(SENDOFF, justify="right", no_wrap=True)
    table.add_column("beside", no_wrap=True)
    for heading in ("", "ratio", "range"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    mine = {result.workload: result for result in found if result.subject == SENDOFF}
    for other in found:
        if other.subject == SENDOFF:
            continue
        ours = mine[other.workload]
        ratios = [a / b for a, b in zip(*(runs[other.workload][one.subject] for one in (ours, other)), strict=True)]
        table.add_row(
            other.workload,
            f"{ours.value:,.0f}",
            other.subject,
            f"{other.value:,.0f}",
            f"{ours.value / other.value:.2f}",
            f"{min(ratios):.2f}-{max(ratios):.2f}",
            other.unit,
        )
    console.print(table)


def write(path: Path, found: Sequence[Result]) -> None:
    """A list of ``{workload, subject, value, unit, ratio_to_raw}``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps([asdict(result) for result in found], option=orjson.OPT_INDENT_2) + b"\n")
