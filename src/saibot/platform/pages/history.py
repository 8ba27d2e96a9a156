"""What changed from one version of a dataset to the next, as far as the sketches themselves tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saibot.platform.pages.sketch_facts import SketchFacts, SketchReader
from saibot.report.format import count, delta, epsilon, number

COMPARED = 30  # versions; of earlier ones a page says when they were


def history(versions: Sequence[dict[str, Any]], reader: SketchReader) -> list[dict[str, Any]]:
    """The versions, newest first as they are given, each with what changed since the one before."""
    facts = [reader.read(version["digest"]) for version in versions[: COMPARED + 1]]
    before = [*facts[1:], None]
    told = [
        _first(now) if place == len(versions) - 1 else changes(then, now)
        for place, (now, then) in enumerate(zip(facts, before, strict=True))
    ]
    return [version | {"changes": told[place] if place < COMPARED else []} for place, version in enumerate(versions)]


def changes(then: SketchFacts | None, now: SketchFacts | None) -> list[str]:
    if then is None or now is None:
        return ["one of the two sketches is gone"]
    told = []
    if then.rows != now.rows:
        told.append(f"{_rows(then)} became {_rows(now)}")
    for name in [name for name in now.features if name not in then.features]:
        told.append(f"new feature {name}")
    for name in [name for name in then.features if name not in now.features]:
        told.append(f"without feature {name}")
    for name, (lower, upper) in now.features.items():
        if then.features.get(name, (lower, upper)) != (lower, upper):
            told.append(f"{name} is now within {number(lower)} to {number(upper)}")
    for name, what in now.measured.items():
        if then.measured.get(name, what) != what:
            told.append(f"{name}: {then.measured[name]} became {what}")
    if then.levels != now.levels:
        told.append(f"coarser key levels: {', '.join(now.levels) or 'none'}")
    if then.mechanism != now.mechanism:
        told.append(f"mechanism {then.mechanism} became {now.mechanism}")
    for what, term in now.terms.items():
        if then.terms[what] != term:
            told.append(f"{what}: {then.terms[what] or 'unknown'} became {term or 'unknown'}")
    if then.budget != now.budget:
        told.append(f"{_cost(then)} became {_cost(now)}")
    return told or ["the same shape: fresh rows or fresh noise"]


def _first(now: SketchFacts | None) -> list[str]:
    return ["first version"] if now is None else [f"first version: {_rows(now)}, {_cost(now)}"]


def _rows(facts: SketchFacts) -> str:
    return "a protected number of rows" if facts.rows is None else f"{count(facts.rows)} rows"


def _cost(facts: SketchFacts) -> str:
    return "open" if facts.budget is None else f"ε {epsilon(facts.budget['epsilon'])}, δ {delta(facts.budget['delta'])}"
