"""Two results side by side on a terminal, and as one JSON document."""

from __future__ import annotations

from typing import Any

from saibot.report.comparison import SideBySide
from saibot.report.format import plain_text
from saibot.report.terminal import print_table


def show_comparison(comparison: SideBySide, *, shown: int) -> None:
    """Which explains more, what differs between the questions, R² step by step, and the candidates of both."""
    print(plain_text(comparison.headline))
    if comparison.caution:
        print(plain_text(comparison.caution))
    print()
    differing = [row for row in comparison.facts if row[1] != row[2]]
    if differing:
        print_table("where they differ", ["", *comparison.names], differing)
    heads = ["step", comparison.names[0], "R²", comparison.names[1], "R²"]
    print_table("R² step by step", heads, comparison.step_rows, right=(0, 2, 4), whole=(2, 4))
    if comparison.pairs:
        rows = [row[:4] for row in comparison.pair_rows[:shown]]
        heads = ["candidate", *comparison.names, "difference"]
        print_table("candidates by themselves: gain in R²", heads, rows, right=(1, 2, 3), whole=(3,))
        print(plain_text(comparison.pairs_sentence + (" They have a star." if comparison.differing else "")))


def comparison_document(comparison: SideBySide) -> dict[str, Any]:
    """Both answers, what differs between the questions, and every candidate that either ranks."""
    return {
        "headline": comparison.headline,
        "caution": comparison.caution,
        "names": list(comparison.names),
        "r2": [{"before": view.before, "after": view.after, "held_out": view.by_held_out} for view in comparison.views],
        "differences": [
            {"what": name, "first": first, "second": second} for name, first, second in comparison.facts if first != second
        ],
        "candidates": [
            {
                "candidate": pair.label,
                "first": None if pair.first is None else pair.first.entry.to_json() | {"step": pair.first.step},
                "second": None if pair.second is None else pair.second.entry.to_json() | {"step": pair.second.step},
                "difference": pair.difference,
                "intervals_meet": None if pair.difference is None else not pair.differs,
            }
            for pair in comparison.pairs
        ],
    }
