"""Processes of our own: each a fork of one that has imported everything and done nothing."""

from __future__ import annotations

import multiprocessing
from functools import cache
from typing import Any

__all__ = ["forks"]


@cache
def forks() -> Any:
    """The multiprocessing context; without it every process would import everything for itself."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.race", "benchmarks.senders"])
    return context
