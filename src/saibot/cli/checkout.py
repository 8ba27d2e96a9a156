"""Finds `research/`: figures, baselines and benchmarks lie beside `src/` in a checkout and are no part of the package."""

from __future__ import annotations

import sys
from pathlib import Path

import saibot
from saibot.errors import SaibotError

PACKAGE = Path(saibot.__file__).resolve().parent


def find_research(command: str) -> None:
    """Make `import research` work, or say what the command needs. Called inside a command, before it imports anything."""
    root = PACKAGE.parents[1]
    if PACKAGE.parent.name != "src" or not (root / "research" / "__init__.py").is_file():
        raise SaibotError(
            f"`{command}` runs research code, which is not part of the installed package.",
            hint="Run it from a checkout of the repository: clone it, `make setup`, then `.venv/bin/saibot` there.",
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))  # first: another installed package may be called `research`, too
