"""``sendoff worker`` and ``sendoff drain``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click

from sendoff.cli.options import Cli, common
from sendoff.cli.values import CHANNELS, DURATION, Choice

__all__ = ["drain", "worker"]

#: As in sendoff.cli.logs, which this module does not import: help stays quick.
_LEVELS = ("debug", "info", "warning", "error", "critical")


def _logging(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        level = click.option(
            "--log-level", type=Choice(_LEVELS), metavar="LEVEL", default=default, show_default=True,
            help=f"One of {', '.join(_LEVELS)}.",
        )  # fmt: skip
        style = click.option(
            "--log-format", type=Choice(("line", "json")), metavar="FORMAT", default="line", show_default=True,
            help="line for people, json for programs; on stderr.",
        )  # fmt: skip
        return level(style(function))

    return add


@click.command()
@click.option("--channels", type=CHANNELS, metavar="A,B", help="Only these channels; all that are loaded by default.")
@click.option("--batch", type=click.IntRange(1), metavar="N", help="Rows per claim.")
@click.option("--lease", type=DURATION, metavar="DURATION", help="How long a claimed row stays claimed.")
@click.option("--grace", type=DURATION, metavar="DURATION", help="How long SIGTERM waits for running sends.")
@click.option("--poll", type=DURATION, metavar="DURATION", help="The longest sleep of an idle worker.")
@click.option("--fetchers/--no-fetchers", default=None, help="Run fetchers too, or not.")
@_logging("info")
@common
def worker(
    cli: Cli,
    channels: list[str] | None,
    batch: int | None,
    lease: timedelta | None,
    grace: timedelta | None,
    poll: timedelta | None,
    fetchers: bool | None,
    log_level: str,
    log_format: str,
) -> None:
    """Deliver until told to stop.

    SIGTERM or Ctrl-C finishes what has begun, a second one stops at once. Exit code 0 when every verdict was
    recorded, 1 when one could not be.
    """
    from sendoff.cli.logs import set_up_logging

    set_up_logging(log_level, log_format)
    said = {
        "batch": batch,
        "lease": _seconds(lease),
        "grace": _seconds(grace),
        "poll": _seconds(poll),
        "fetchers": fetchers,
    }
    overrides = {name: value for name, value in said.items() if value is not None}
    code = cli.app(worker=overrides).worker(channels=channels).run()
    click.get_current_context().exit(code)


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


@click.command()
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many tries.")
@click.option("--budget", type=DURATION, metavar="DURATION", help="Start nothing new after this time: 30s, 5m.")
@click.option("--channels", type=CHANNELS, metavar="A,B", help="Only these channels; all that are loaded by default.")
@_logging("error")
@common
def drain(
    cli: Cli,
    limit: int | None,
    budget: timedelta | None,
    channels: list[str] | None,
    log_level: str,
    log_format: str,
) -> None:
    """Deliver what is due now, once, and exit.

    For cron, or a host without a worker. Told to stop by a signal, it gives back what it has not started and exits 0.
    """
    from sendoff.cli.logs import set_up_logging
    from sendoff.cli.output import progress
    from sendoff.cli.tables import facts

    set_up_logging(log_level, log_format)
    with progress(cli, "draining") as shown:
        report = cli.app().drain(
            limit=limit, channels=channels, budget=budget, on_progress=shown.set, handle_signals=True
        )

    def people() -> None:
        counts = [
            ("tries", report.tries),
            ("sent", report.sent),
            ("no target", report.no_target),
            ("to be retried", report.retried),
            ("dead", report.dead),
            ("outage", report.outage),
            ("released", report.released),
            ("cancelled", report.cancelled),
            ("expired", report.expired),
            ("lost", report.lost),
            ("still due", report.remaining),
        ]
        always = {"tries", "sent", "still due"}
        facts((name, number) for name, number in counts if number or name in always)

    cli.show(report, people)
