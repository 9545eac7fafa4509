"""Logging of a worker: one line each on stderr, for people or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from sendoff.cli.failure import masked
from sendoff.cli.text import plain

__all__ = ["LEVELS", "set_up_logging"]

LEVELS = ("debug", "info", "warning", "error", "critical")
#: What every record has; the rest was handed over with ``extra=``.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _Line(logging.Formatter):
    """``2026-12-01T08:00:00.123Z INFO  sendoff.worker: started``, a traceback on the lines below."""

    def format(self, record: logging.LogRecord) -> str:
        text = f"{_at(record)} {record.levelname:<8}{record.name}: {plain(masked(record.getMessage()))}"
        if record.exc_info:
            text += "\n" + masked(self.formatException(record.exc_info))
        return text


class _Json(logging.Formatter):
    """One JSON object on one line: ``at, level, logger, message``, the record's extras, ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        told |= {key: value for key, value in vars(record).items() if key not in _STANDARD and key not in told}
        if record.exc_info:
            told["exception"] = masked(self.formatException(record.exc_info))
        return json.dumps(told, default=str)


def _at(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def set_up_logging(level: str, style: str) -> None:
    """Send this process's log to stderr; other libraries only from warnings on, unless everything is wanted."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Line())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    wanted = logging.getLevelName(level.upper())
    root.setLevel(wanted if wanted <= logging.DEBUG else max(wanted, logging.WARNING))
    logging.getLogger("sendoff").setLevel(wanted)
    logging.captureWarnings(capture=True)
