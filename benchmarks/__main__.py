"""The command: ``python -m benchmarks``."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

from benchmarks import push
from benchmarks.databases import CALL, Databases, SqliteFiles, embedded
from benchmarks.report import environment, results, show, write
from benchmarks.workloads import NAMES, Bench, Workload, workloads

RESULTS = Path(__file__).with_name("results.json")
ALL = (*NAMES, *push.NAMES)


@click.command()
@click.option("--database-url", help="A PostgreSQL server whose user may create databases; without it, one is started.")
@click.option("--rows", type=click.IntRange(1), default=20_000, show_default=True, help="Rows to enqueue and to drain.")
@click.option("--singles", type=click.IntRange(1), default=2_000, show_default=True, help="Rows enqueued one by one.")
@click.option("--messages", type=click.IntRange(2), default=5_000, show_default=True, help="Push messages.")
@click.option(
    "--sends",
    type=click.IntRange(2),
    default=50_000,
    show_default=True,
    help="Push messages over which memory is flat.",
)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Runs; the median counts.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(ALL),
    metavar="WORKLOAD",
    help=f"Repeatable; one of {', '.join(ALL)}.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=RESULTS, help="Where the JSON goes.")
def main(
    database_url: str | None,
    rows: int,
    singles: int,
    messages: int,
    sends: int,
    repeats: int,
    only: tuple[str, ...],
    output: Path,
) -> None:
    """Measure sendoff beside the same SQL issued raw, and push beside Firebase's SDK. Slow figures are no failure."""
    console = Console()
    wanted = only or ALL
    runs: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sendoff-bench-")))
        made: list[Workload] = []
        version = None
        if set(wanted) & set(NAMES):
            url = database_url or stack.enter_context(embedded())
            databases = stack.enter_context(Databases(url, rows))
            version = databases.version
            made += workloads(Bench(databases, SqliteFiles(folder, rows), rows, singles))
        if set(wanted) & set(push.NAMES):
            local = stack.enter_context(push.LocalPush(folder, messages))
            made += push.push_workloads(local, messages, sends)
        chosen = [workload for workload in made if workload.name in wanted]
        for workload in chosen:
            for turn in range(repeats):
                # In turns, so that whatever else the machine does hits all subjects alike.
                for subject in sorted(workload.subjects, reverse=bool(turn % 2)):
                    with console.status(f"{workload.name}: {subject}, run {turn + 1} of {repeats}"):
                        _add(runs, workload.subjects[subject]())
    found = [
        result
        for workload in chosen
        for figure in workload.figures
        for result in results(figure, workload.baselines, runs[figure.name])
    ]
    show(console, found, runs)
    options = {"rows": rows, "single rows": singles, "rows a call": CALL, "messages": messages, "sends": sends}
    for line in environment(version, {**options, "runs": repeats}):
        console.print(line, highlight=False)
    write(output, found)
    console.print(f"written to {output}", highlight=False)


def _add(runs: dict[str, dict[str, list[float]]], values: Mapping[str, Mapping[str, float]]) -> None:
    for figure, by_subject in values.items():
        for subject, value in by_subject.items():
            runs.setdefault(figure, {}).setdefault(subject, []).append(value)


if __name__ == "__main__":
    main()
