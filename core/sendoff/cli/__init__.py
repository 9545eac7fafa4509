"""The command line: ``sendoff`` and ``python -m sendoff`` are both :func:`main`."""

from __future__ import annotations

from sendoff.cli.root import cli, main

__all__ = ["cli", "main"]
