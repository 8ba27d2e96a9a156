"""A synthetic table of a sketch, marked as one, and how far what it teaches differs from what the sketch says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saibot.client.tables import write_augmented
from saibot.domains import KnownDomains
from saibot.domains.finding import imported_domains
from saibot.errors import InvalidInput
from saibot.estimate.profile import Estimate, profile
from saibot.estimate.synthetic import synthetic_rows
from saibot.estimate.totals import totals
from saibot.semiring import Gram
from saibot.sketch import KeyDomain, Sketch

MARK = "synthetic"
MOST_ROWS = 50_000_000


@dataclass(frozen=True)
class ComparedFeature:
    """A feature's mean and spread: in the sketch with the error of its noise, and in the synthetic rows; original units."""

    name: str
    unit: str
    mean: Estimate
    synthetic_mean: float
    deviation: Estimate
    synthetic_deviation: float


@dataclass(frozen=True)
class ComparedModel:
    """Least squares of one feature on the others, from the sketch and from the synthetic rows; slopes in original units.

    R2 is that of either model on the sketch's own moments.
    """

    target: str
    slopes: dict[str, tuple[float, float]]
    r2: float
    synthetic_r2: float


@dataclass(frozen=True)
class Synthesized:
    """The table, where it came from, and its utility."""

    table: pa.Table
    source: dict[str, Any]
    features: tuple[ComparedFeature, ...]
    model: ComparedModel | None

    def write(self, path: Path) -> None:
        """As CSV, Parquet or Arrow. The name has to say what it is; Parquet and Arrow carry it in their metadata, too."""
        if MARK not in path.name.lower():
            raise InvalidInput(
                f"the name {path.name} does not say that its rows are nobody's.",
                hint=f"Put '{MARK}' into it: {path.stem}.{MARK}{path.suffix}.",
            )
        write_augmented(self.table, {}, path)

    def to_json(self) -> dict[str, Any]:
        features = [
            {
                "name": one.name,
                "mean": one.mean.to_json() | {MARK: one.synthetic_mean},
                "deviation": one.deviation.to_json() | {MARK: one.synthetic_deviation},
            }
            for one in self.features
        ]
        model = None
        if self.model is not None:
            slopes = {name: {"sketch": a, MARK: b} for name, (a, b) in self.model.slopes.items()}
            model = {
                "target": self.model.target,
                "slopes": slopes,
                "r2": self.model.r2,
                f"{MARK}_r2": self.model.synthetic_r2,
            }
        return self.source | {"rows": self.table.num_rows, "features": features, "model": model}


def synthesize(
    sketch: Sketch, *, rows: int | None = None, seed: int = 0, target: str | None = None, domain: KeyDomain | None = None
) -> Synthesized:
    """Rows that the sketch could have come from: one draw of what its noise leaves open. Costs no budget.

    `seed` gives another draw. `target` is the feature of the model that is compared; by default the last one. `domain` gives
    the coarser levels of the sketch's key where no list that ships or was imported here does.
    """
    if rows is not None and not 0 < rows <= MOST_ROWS:
        raise InvalidInput(f"a synthetic table has 1 to {MOST_ROWS:,} rows, not {rows:,}.")
    if target is not None and target not in sketch.features:
        raise InvalidInput(f"the sketch has no feature {target!r}.", hint=f"It has {', '.join(sketch.features)}.")
    if rows is None and totals(sketch).count > MOST_ROWS:
        raise InvalidInput(f"the sketch tells of more than {MOST_ROWS:,} rows.", hint="Say how many to make with --rows.")
    drawn = synthetic_rows(sketch, seed=seed, rows=rows, domain_parents=_parents(sketch, domain))
    header = sketch.header
    source = {MARK: True, "dataset": header.dataset.name, "sketch": sketch.digest, "seed": seed}
    columns: dict[str, Any] = {}
    if header.key is not None:
        for part, texts in zip(header.key.parts, sketch.levels[0].keys, strict=True):
            columns[part.name] = pa.array(texts.astype(object)[drawn.keys], pa.string())
    for name, values in zip(sketch.features, drawn.values.T, strict=True):
        columns[name if name not in columns else f"{name} (feature)"] = pa.array(values)
    table = pa.table(columns).replace_schema_metadata({"saibot": json.dumps(source)})
    return Synthesized(table, source, _features(sketch, drawn.values), _model(sketch, drawn.values, target))


def _parents(sketch: Sketch, given: KeyDomain | None) -> list[np.ndarray]:
    key = sketch.header.key
    if key is None or not key.levels:
        return []
    domain = KnownDomains.of(() if given is None else (given,), imported_domains()).find(key.parts[0])
    if domain is None or not set(key.levels) <= set(domain.level_names):
        return []
    levels = domain.with_levels(key.levels)
    return [levels.parent_index(i + 1) for i in range(len(levels.level_names))]


def _features(sketch: Sketch, values: np.ndarray) -> tuple[ComparedFeature, ...]:
    means, deviations = values.mean(axis=0), values.std(axis=0)
    return tuple(
        ComparedFeature(one.name, one.unit, one.mean, float(mean), one.deviation, float(deviation))
        for one, mean, deviation in zip(profile(sketch).features, means, deviations, strict=True)
    )


def _model(sketch: Sketch, values: np.ndarray, target: str | None) -> ComparedModel | None:
    names = sketch.features
    if len(names) < 2:
        return None
    chosen = target or names[-1]
    facts = {feature.name: feature for feature in sketch.header.features}
    others = [
        name
        for name in names
        if name != chosen and (facts[name].column is None or facts[name].column != facts[chosen].column)
    ]
    whole = totals(sketch)
    assert whole.products is not None and whole.products_variance is not None
    matrix = np.block([[np.array([[whole.count]]), whole.sums[None]], [whole.sums[:, None], whole.products]])
    spread = np.sqrt(whole.sums_variance)
    noise = np.block([[np.zeros((1, 1)), spread[None]], [spread[:, None], np.sqrt(whole.products_variance)]])
    released = Gram(names, matrix, noise)
    offset, scale = np.array([(feature.offset, feature.scale) for feature in sketch.header.features]).T
    wide = np.column_stack([np.ones(len(values)), (values - offset) / scale])
    fits = released.fit(others, chosen), Gram.exact(names, wide.T @ wide).fit(others, chosen)
    unit = {name: facts[chosen].scale / facts[name].scale for name in others}
    pairs = zip(*(fit.coefficients.tolist() for fit in fits), strict=True)
    slopes = {name: (a * unit[name], b * unit[name]) for name, (a, b) in zip(others, pairs, strict=True)}
    return ComparedModel(chosen, slopes, released.r2_of(fits[0]), released.r2_of(fits[1]))
