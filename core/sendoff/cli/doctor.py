"""``sendoff doctor``."""

from __future__ import annotations

import click

from sendoff.cli.failure import fail, one_line
from sendoff.cli.options import Cli, common
from sendoff.cli.text import count
from sendoff.errors import SendoffError
from sendoff.report import CheckItem

__all__ = ["doctor"]


@click.command()
@common
def doctor(cli: Cli) -> None:
    """Check database, plugins and settings, and say what to do.

    Exit code 1 when something is an error; a warning is not.
    """
    items = _items(cli)
    errors = sum(item.level == "error" for item in items)

    def people() -> None:
        from sendoff.cli.tables import lines

        for item in items:
            lines(f"{item.level:<8} {item.name}: {item.message}")
            if item.hint:
                lines(f"{'':<8} -> {item.hint}")

    cli.show(items, people)
    if errors:
        raise fail(f"{count(errors, 'error')} found")


def _items(cli: Cli) -> list[CheckItem]:
    """What the application object says of itself; where there can be none, why."""
    try:
        items = list(cli.app(broken_plugins=True).check())
        settings = cli.app(broken_plugins=True).settings
    except SendoffError as error:
        return [CheckItem(name="settings", level="error", message=one_line(str(error), cli))]
    told = " ".join(item.message for item in items)
    items.extend(
        CheckItem(
            name="environment",
            level="warning",
            message=f"{name} is not a setting and was ignored",
            hint="`sendoff config` lists the settings; a platform may have set it (Kubernetes does)",
        )
        for name in settings.unknown_variables()
        if name not in told
    )
    return items
