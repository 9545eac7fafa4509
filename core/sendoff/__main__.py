"""``python -m sendoff`` is the command ``sendoff``."""

from __future__ import annotations

from sendoff.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
