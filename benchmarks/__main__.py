"""The command: ``python -m benchmarks``."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

from benchmarks.databases import CALL, Databases, SqliteFiles, embedded
from benchmarks.report import environment, results, show, write
from benchmarks.workloads import NAMES, Bench, workloads

RESULTS = Path(__file__).with_name("results.json")


@click.command()
@click.option("--database-url", help="A PostgreSQL server whose user may create databases; without it, one is started.")
@click.option("--rows", type=click.IntRange(1), default=20_000, show_default=True, help="Rows to enqueue and to drain.")
@click.option("--singles", type=click.IntRange(1), default=2_000, show_default=True, help="Rows enqueued one by one.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Runs; the median counts.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(NAMES),
    metavar="WORKLOAD",
    help=f"Repeatable; one of {', '.join(NAMES)}.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=RESULTS, help="Where the JSON goes.")
def main(database_url: str | None, rows: int, singles: int, repeats: int, only: tuple[str, ...], output: Path) -> None:
    """Measure sendoff beside the same SQL issued raw. Slow figures are no failure."""
    console = Console()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sendoff-bench-")))
        url = database_url or stack.enter_context(embedded())
        databases = stack.enter_context(Databases(url, rows))
        bench = Bench(databases, SqliteFiles(folder, rows), rows, singles)
        chosen = [workload for workload in workloads(bench) if not only or workload.name in only]
        runs: dict[str, dict[str, list[float]]] = {}
        for workload in chosen:
            mine = runs[workload.name] = {subject: [] for subject in workload.subjects}
            for turn in range(repeats):
                # In turns, so that whatever else the machine does hits all subjects alike.
                for subject in sorted(mine, reverse=bool(turn % 2)):
                    with console.status(f"{workload.name}: {subject}, run {turn + 1} of {repeats}"):
                        mine[subject].append(workload.subjects[subject]())
        found = [result for workload in chosen for result in results(workload, runs[workload.name])]
        show(console, found, runs)
        options = {"rows": rows, "single rows": singles, "rows a call": CALL, "runs": repeats}
        for line in environment(databases.version, options):
            console.print(line, highlight=False)
    write(output, found)
    console.print(f"written to {output}", highlight=False)


if __name__ == "__main__":
    main()
