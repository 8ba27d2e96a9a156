"""What a figure is: it runs to a table of numbers, is drawn from that table alone, and checked against what it should show.

The three steps are apart so that numbers can be kept, read and drawn again without running anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

Progress = Callable[[str, float | None], None]


def silent(stage: str, part: float | None) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class RunConfig:
    """How to run a figure. `quick` is for tests: the same code on small sizes, so its numbers mean little."""

    seed: int = 0
    quick: bool = False
    tables: Path | None = None  # a folder of real tables; None: a small corpus of our own
    progress: Progress = field(default=silent, compare=False)


@dataclass(frozen=True)
class Check:
    """One thing a figure should show, whether ours does, and the numbers or the cause."""

    name: str
    passed: bool
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "passed": self.passed, "reason": self.reason}


@dataclass(frozen=True)
class Figure:
    """A figure of the paper or of ours.

    `run` gives a long table, one row per run and point, with the mechanism's id in the column `method`. `settings` are the
    parameters it runs with, as JSON values: they go into the configuration hash, so change them and it runs anew.
    """

    name: str
    title: str
    shows: str
    run: Callable[[RunConfig], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Drawing]
    check: Callable[[pd.DataFrame], list[Check]]
    settings: Callable[[RunConfig], dict[str, Any]]
    uses_tables: bool = False


def verdict(checks: list[Check]) -> str:
    return "pass" if all(check.passed for check in checks) else "differ"
