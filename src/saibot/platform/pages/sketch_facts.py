"""What a dataset page shows of the sketch itself beyond its catalogue entry: plan, assumptions, and how the keys fill."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from saibot.errors import InvalidSketch
from saibot.platform.errors import NotFound
from saibot.platform.shown_sketches import (
    TooLargeToShow,
    is_whole,
    shown_feature,
    shown_sketch,
    stored_budget,
    stored_header,
)
from saibot.platform.storage.files import FileStore
from saibot.report.words import plan_rows
from saibot.sketch import Header, Sketch
from saibot.sketch.header import Feature

REMEMBERED = 100  # one may have a thousand features
BUDGETS = 20_000
CLEAR = 3.0  # noisy counts above this many standard deviations of their noise belong to keys that do have rows


@dataclass(frozen=True)
class Coverage:
    """How the rows lie over the public keys, as far as the noise lets anyone see."""

    keys: int
    filled: int  # keys whose count is clear of its noise: at least so many have rows
    inside: float | None  # share of the rows whose key is in the domain
    inside_error: float | None
    per_key: float | None  # rows per key of the domain
    count_noise: float


@dataclass(frozen=True)
class SketchFacts:
    plan: list[list[str]]  # see `words.PLAN_HEADS`; none of an open sketch
    noise: str
    mu: float | None
    bound: float
    rows_per_individual: int
    budget: dict[str, str] | None  # none of an open sketch
    preparation: str
    preparation_steps: tuple[str, ...]
    model: str
    simulation: bool
    created: str
    rows: int | None
    mechanism: str  # with its layout
    features: dict[str, tuple[float, float]]  # their public bounds
    measured: dict[str, str]  # what each feature is counted in, or that it is a level or a component
    levels: tuple[str, ...]
    terms: dict[str, str]  # what else the numbers rest on, by what it is called
    coverage: Coverage | None


class SketchReader:
    """Reads stored sketches and remembers what pages need of them. Sketches never change, so neither do their facts."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self.read = lru_cache(REMEMBERED)(self._read)
        self.budget = lru_cache(BUDGETS)(self._budget)

    def _read(self, digest: str) -> SketchFacts | None:
        try:
            if is_whole(self._files, digest):
                return facts_of(shown_sketch(self._files, digest))
            facts = facts_of(Sketch(stored_header(self._files, digest), ()))
            with suppress(TooLargeToShow):
                facts = replace(facts, coverage=_coverage(shown_feature(self._files, digest, None)))
            return facts
        except (NotFound, InvalidSketch):
            return None  # withdrawn a moment ago

    def _budget(self, digest: str) -> dict[str, str] | None:
        try:
            return stored_budget(self._files, digest)
        except NotFound:
            return None


def facts_of(sketch: Sketch) -> SketchFacts:
    header, plan = sketch.header, sketch.plan
    return SketchFacts(
        plan=plan_rows(plan.to_json()) if plan else [],
        noise=plan.noise if plan else "no",
        mu=plan.mu if plan else None,
        bound=plan.request.bound if plan else len(header.features) ** 0.5,
        rows_per_individual=header.assumptions.rows_per_individual,
        budget=None if header.open else {"epsilon": header.budget["epsilon"], "delta": header.budget["delta"]},
        preparation=header.preparation.kind,
        preparation_steps=header.preparation.steps,
        model=header.model,
        simulation=header.simulation,
        created=header.created,
        rows=header.rows,
        mechanism=f"{plan.request.mechanism}, {plan.request.layout}" if plan else "exact",
        features={feature.name: (feature.lower, feature.upper) for feature in header.features},
        measured={feature.name: _measured(feature) for feature in header.features},
        levels=header.key.levels if header.key else (),
        terms=_terms(header),
        coverage=_coverage(sketch),
    )


def _measured(feature: Feature) -> str:
    if feature.kind == "indicator":
        return f"whether {feature.column or feature.name} is {feature.level or feature.name}"
    return feature.kind if feature.kind == "component" else feature.unit or "no unit"


def _terms(header: Header) -> dict[str, str]:
    """Without what has a place of its own in `SketchFacts`. Lists of keys are told by their version, too."""
    parts = header.key.parts if header.key else ()
    missing = [f"{feature.name} {feature.missing:g}" for feature in header.features if feature.missing is not None]
    return {
        "an individual": header.dataset.individual,
        "neighbours": header.neighbours,
        "rows of an individual at most": str(header.assumptions.rows_per_individual),
        "keys": ", ".join(f"{part.domain}, version {part.version} ({part.digest[:8]})" for part in parts) or "none",
        "preparation": "; ".join((header.preparation.kind, *header.preparation.steps)),
        "missing cells": ", ".join(missing) or "none is filled in",
        "source": header.source or "not stated",
    }


def _coverage(sketch: Sketch) -> Coverage | None:
    sigma = sketch.sigma("key", 0)
    if not sketch.levels or sigma is None:
        return None
    counts = sketch.levels[0].values[:, 0]  # the order-0 monomial comes first; the last row is the catch-all
    keys = len(counts) - 1
    rows = float(sketch.header.rows) if sketch.header.rows is not None else float(counts.sum())
    inside = error = None
    if rows > 0:
        inside = float(np.clip(1 - counts[-1] / rows, 0, 1))
        error = sigma / rows
    return Coverage(keys, int((counts[:-1] > CLEAR * sigma).sum()), inside, error, rows / keys if rows > 0 else None, sigma)
