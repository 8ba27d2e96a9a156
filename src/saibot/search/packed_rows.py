"""Sketches as rows of shards: each feature's values, shrunk by what is known of the noise, helped by shared factors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from saibot.errors import InvalidSketch
from saibot.estimate.factors import FactorValues, Readings
from saibot.estimate.lookup import LookupValues, lookup_blocks, lookup_values
from saibot.estimate.value_errors import values_and_errors
from saibot.search.shard import OPEN, TEXT, ShardRows, concatenate
from saibot.search.shared_factors import SharedFactors
from saibot.sketch import KeyDomain, Sketch

READINGS = "readings"  # a further array: what a sketch says of its keys, as `Readings.packed`

Domains = Callable[[Sketch], KeyDomain | None]
"""Finds the domain with the coarser levels of a sketch's key, where it is known."""


@dataclass(frozen=True)
class Loading:
    """One feature of one sketch: the share of its spread over keys that a factor explains, with the sign of the factor."""

    digest: str
    dataset: str
    feature: str
    share: float


def pack(
    sketch: Sketch,
    domain: KeyDomain | None,
    shared: SharedFactors | None = None,
    group: int | None = None,
) -> ShardRows:
    """The rows of one sketch, for everybody or for a group of providers."""
    rows = plain_rows(sketch, domain)
    if shared is None or not shared.rank:
        return rows
    return _improved(rows, shared.improved(shared.readings(sketch, domain), group), shared.name_of(group))


def pack_for_all(
    sketches: Sequence[Sketch], rows: Sequence[ShardRows], domains: Domains, shared: SharedFactors | None
) -> list[ShardRows]:
    """Several sketches of one key domain: for everybody, then for each group of providers. `rows` are their plain ones.

    With everybody's rows are their readings, which the best of them are looked at again by in a search.
    """
    plain = concatenate(rows)
    if shared is None or not shared.rank:
        return [plain]
    readings = Readings.join([shared.readings(sketch, domains(sketch)) for sketch in sketches])
    first, *others = [_improved(plain, shared.improved(readings, group), shared.name_of(group)) for group in shared.groups]
    return [replace(first, extra=first.extra | {READINGS: readings.packed}), *others]


def plain_rows(sketch: Sketch, domain: KeyDomain | None) -> ShardRows:
    """What a sketch says by itself."""
    header, m = sketch.header, len(sketch.header.features)
    blocks = [
        (found.prior_mean, found.spread, found.reliability.mean(axis=1), _deviations(found))
        for found in lookup_blocks(sketch, _parents(sketch, domain))
    ]
    mean, spread, reliability, deviations = blocks[0] if len(blocks) == 1 else map(np.concatenate, zip(*blocks, strict=True))
    text = {
        "digest": [sketch.digest] * m,
        "dataset": [header.dataset.name] * m,
        "feature": [feature.name for feature in header.features],
        "unit": [feature.unit for feature in header.features],
    }
    numbers = {
        "mean": mean,
        "spread": spread,
        "reliability": reliability,
        "offset": np.array([feature.offset for feature in header.features]),
        "scale": np.array([feature.scale for feature in header.features]),
        "rows": np.full(m, float("nan") if header.rows is None else float(header.rows)),
    }
    known = [column for name, column in numbers.items() if name != "rows" or header.rows is not None]
    if not np.isfinite(deviations).all() or not all(np.isfinite(column).all() for column in known):
        raise InvalidSketch("the sketch's numbers give values that are not finite.")
    extra = {OPEN: np.ones((m, 1), np.float32)} if header.open else {}
    return ShardRows({name: np.array(text[name], dtype=object) for name in TEXT}, numbers, deviations, extra)


def own_values(sketch: Sketch, domain: KeyDomain | None) -> LookupValues:
    """The values that a sketch gives by itself, with its coarser key levels where their domain is known."""
    return lookup_values(sketch, _parents(sketch, domain))


def own_values_and_errors(sketch: Sketch, domain: KeyDomain | None) -> tuple[LookupValues, np.ndarray]:
    """The same, with how far each of them may be from the mean of its key's rows."""
    return values_and_errors(sketch, _parents(sketch, domain))


def _parents(sketch: Sketch, domain: KeyDomain | None) -> list[np.ndarray]:
    key = sketch.header.key
    levels = domain.with_levels(key.levels) if domain and key and key.levels else None
    return [levels.parent_index(i + 1) for i in range(len(levels.level_names))] if levels else []


def _deviations(found: LookupValues) -> np.ndarray:
    return np.asarray((found.values - found.prior_mean[:, None]).astype(np.float32))


def shared_rows(shared: SharedFactors, group: int | None, dataset: str) -> ShardRows:
    """The factors themselves as columns to join, numbered from 1, each with a variance of 1 over keys."""
    loadings = shared.of_group(group).loadings
    columns = loadings - loadings.mean(axis=0)
    size = np.maximum(columns.std(axis=0), 1e-12)
    count = columns.shape[1]
    text = {
        "digest": [shared.version] * count,
        "dataset": [dataset] * count,
        "feature": [str(number) for number in range(1, count + 1)],
        "unit": [""] * count,
    }
    numbers = {"mean": 0.0, "spread": 1.0, "reliability": 1.0, "offset": 0.0, "scale": 1.0, "rows": float("nan")}
    values = np.vstack([columns / size, np.zeros(count)]).T.astype(np.float32)
    return ShardRows(
        {name: np.array(text[name], dtype=object) for name in TEXT},
        {name: np.full(count, value) for name, value in numbers.items()},
        np.ascontiguousarray(values),
        factors=shared.name_of(group),
    )


def strongest(shards: Iterable[ShardRows], shared: SharedFactors, *, most: int) -> list[list[Loading]]:
    """For each factor the features that load on it most.

    Factors are orthogonal columns over the keys that the values are of, so the share of a feature's spread over keys that
    one of them explains is their squared correlation.
    """
    columns = _standard(shared.grouped.everyone.loadings.T)
    found: list[list[Loading]] = [[] for _ in range(shared.rank)]
    for shard in shards:
        correlations = _standard(shard.values[:, :-1]) @ columns.T
        for factor, column in enumerate(correlations.T):
            for row in np.argsort(-np.abs(column), kind="stable")[:most]:
                text = {name: str(shard.text[name][row]) for name in ("digest", "dataset", "feature")}
                found[factor].append(Loading(**text, share=float(np.sign(column[row]) * column[row] ** 2)))
    return [sorted(one, key=lambda loading: -abs(loading.share))[:most] for one in found]


def _standard(rows: np.ndarray) -> np.ndarray:
    """Each row with a mean of 0 and a length of 1; a row that is the same for all keys becomes 0."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-12))


def _improved(plain: ShardRows, found: FactorValues, factors: str) -> ShardRows:
    """The same rows with better values; keys outside the domain stay at the mean."""
    numbers = plain.numbers | {"spread": found.tau2, "reliability": found.reliability.mean(axis=1)}
    outside = np.zeros((len(plain), 1))
    values = np.column_stack([found.values - plain.numbers["mean"][:, None], outside]).astype(plain.values.dtype)
    sound = np.isfinite(values).all(axis=1) & np.isfinite(found.tau2) & np.isfinite(numbers["reliability"])
    if not sound.all():  # what factors cannot help stays as it is, and fails no search
        values = np.where(sound[:, None], values, plain.values)
        numbers |= {name: np.where(sound, numbers[name], plain.numbers[name]) for name in ("spread", "reliability")}
    return ShardRows(plain.text, numbers, values, plain.extra, factors)
