"""Releases of tables in memory: the product's, but for who reads the rows.

A whole `privatize()` opens its table with an engine and charges a ledger, a tenth of a second each; figures need hundreds
of thousands of releases. So rows are brought to the grid and summed by numpy here, and a test holds both ways to the same
sketch. Everything else is the product's own: plan, grid, bought bounds and component, noise vector, and the sketch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, cached_property

import numpy as np
import pyarrow as pa

from research.plans import planned, terms
from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import Plan
from saibot.privatize import Card, Prepared, ReleaseRequest
from saibot.privatize.aggregate import ExactStatistics, Rows
from saibot.privatize.assemble import assemble
from saibot.privatize.bounds import QUARTILES, WIDE, Choices, choice_unit, feature_by_ranks, prices, with_quantiles
from saibot.privatize.component import components_of
from saibot.privatize.grid import Grid, box_fits, clip_length
from saibot.privatize.noise import NoiseSource
from saibot.privatize.read import Source, open_table
from saibot.privatize.release import choose_grid, release, value_count
from saibot.privatize.schema import Column, KeyPartColumn, ReleaseKey, resolve_features
from saibot.privatize.shares import Wanted, release_plans
from saibot.semiring import Basis, lift
from saibot.sketch import Feature, KeyDomain, Sketch


@dataclass(frozen=True)
class Release:
    """A table about to be published by `joint` lookup, as often as noise is drawn for it.

    `values` (n, m) are its features in the order of the card, in original units, NaN where missing; `place` is where the key
    of each row stands in the domain, whose size stands for keys outside.
    """

    card: Card
    values: np.ndarray
    place: np.ndarray
    domain: KeyDomain
    budget: Budget
    allocation: str | None = None
    bound_squared: Decimal | None = None
    nonprivate: bool = False  # prepared from its rows without paying, as in the paper: the sketch says so

    def sketch(self, noise: NoiseSource) -> Sketch:
        """Buy what the card leaves open, draw the noise, and seal."""
        rows = self._bought(noise)
        exact = self._fixed if rows is self._rows else self._summed(rows, self.grid, self.domain)
        noisy = release(exact, self.plan, noise, most_rows=self.count)
        return assemble(self._ready, rows, noisy, simulated=noise.simulated, edition=1, standing=None)

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def plan(self) -> Plan:
        return self._plans[0]

    @cached_property
    def grid(self) -> Grid:
        return choose_grid(self.plan, most_rows=self.count)

    # ---------------------------------------------------------------------------------------------- inside

    @cached_property
    def _rows(self) -> Rows:
        columns = with_quantiles(resolve_features(self.card, ()), WIDE if self.card.component else QUARTILES)
        return Rows(_no_source(), columns, (), key_of(self.domain), None, 1)

    @cached_property
    def _shares(self) -> dict[str, Decimal]:
        return prices(self._rows.columns, self.budget)

    @cached_property
    def _plans(self) -> tuple[Plan, Plan | None]:
        component = self.card.component
        features = component.keep if component else len(self._rows.columns)
        main = terms(
            "joint",
            "lookup",
            features=features,
            budget=self.budget,
            bound_squared=self.bound_squared or features,
            allocation=self.allocation,
            sizes=key_of(self.domain).level_sizes,
            rows=self.count,
        )
        if component is None and not self._shares:
            return planned(main), None
        plans = release_plans([Wanted(main)], self._rows.columns, component, self._shares)
        return plans.releases[0], plans.component

    @cached_property
    def _ready(self) -> Prepared:
        request = ReleaseRequest(self.card, self.budget, Neighbours.REPLACE_ONE, paper_preparation=self.nonprivate)
        draws = value_count(self.plan, key_of(self.domain).level_sizes)
        return Prepared(request, self._rows, *self._plans, self._shares, self.count, self.count, self.grid, draws, b"")

    @cached_property
    def _fixed(self) -> ExactStatistics:
        """The same for every draw, where nothing is bought."""
        return self._summed(self._rows, self.grid, self.domain)

    @cached_property
    def _sorted(self) -> list[np.ndarray]:
        """Of every column the values that are there, in order."""
        return [np.sort(column[~np.isnan(column)]) for column in self.values.T]

    def _bought(self, noise: NoiseSource) -> Rows:
        rows = self._rows
        if self._shares:
            rows = replace(rows, columns=[self._with_bounds(i, column, noise) for i, column in enumerate(rows.columns)])
        plan, facts = self._plans[1], self.card.component
        if plan is not None and facts is not None:
            exact = self._summed(rows, choose_grid(plan, most_rows=self.count), None)
            moments = release(exact, plan, noise, most_rows=self.count)
            rows = replace(rows, components=components_of(moments, rows, facts, float(self.count)))
        return rows

    def _with_bounds(self, number: int, column: Column, noise: NoiseSource) -> Column:
        if column.name not in self._shares:
            return column

        def counted(candidates: Sequence[float]) -> tuple[np.ndarray, int]:
            present = self._sorted[number]
            return np.searchsorted(present, candidates, side="left"), len(present)

        unit = choice_unit(self._shares[column.name], self.budget)
        bought = feature_by_ranks(column, Choices(counted, unit, Neighbours.REPLACE_ONE, 1, noise))
        return replace(column, feature=bought.feature)

    def _summed(self, rows: Rows, grid: Grid, domain: KeyDomain | None) -> ExactStatistics:
        scaled = np.column_stack([_scaled(x, column.feature) for x, column in zip(self.values.T, rows.columns, strict=True)])
        if rows.components:
            along = [(scaled @ np.array(list((one.weights or {}).values())), one) for one in rows.components]
            scaled = np.column_stack([_scaled(values, one) for values, one in along])
        return exact_statistics(rows.features, scaled, grid, self.place, domain)


def key_of(domain: KeyDomain) -> ReleaseKey:
    return ReleaseKey(domain.id, (KeyPartColumn(domain.id, domain.id, domain, dates=False),))


def _scaled(values: np.ndarray, feature: Feature | None) -> np.ndarray:
    """A column between its bounds, in [-1, 1]; missing cells at the public value."""
    assert feature is not None
    filled = values if feature.missing is None else np.where(np.isnan(values), feature.missing, values)
    found: np.ndarray = (np.clip(filled, feature.lower, feature.upper) - feature.offset) / feature.scale
    return found


def exact_statistics(
    names: tuple[str, ...], rows: np.ndarray, grid: Grid, place: np.ndarray, domain: KeyDomain | None
) -> ExactStatistics:
    """Sums of monomials of rows (n, m) in scaled units, on the grid; rows beyond the norm bound are shrunk to it."""
    steps, m = rows * grid.one, rows.shape[1]
    if not box_fits(grid, m):
        reach = clip_length(grid, columns=m, card_features=m)
        length = np.sqrt((steps**2).sum(axis=1, keepdims=True))
        steps = steps * np.minimum(1.0, reach / np.maximum(length, 1e-300))
    whole = np.floor(steps + 0.5).astype(np.int64)
    if (whole**2).sum(axis=1).max(initial=0) > grid.norm_squared:
        raise ValueError("a row is longer than its norm bound")
    basis = Basis(names, 2)
    lifted = lift(basis, whole)
    if domain is None:
        return ExactStatistics(basis, grid, (), lifted.sum(axis=0), len(rows))
    levels = [_by_key(lifted, place, len(domain) + 1)]
    for level in range(1, 1 + len(domain.level_names)):
        levels.append(_by_key(levels[0], domain.parent_index(level), len(domain.level_values(level)) + 1))
    return ExactStatistics(basis, grid, tuple(levels), lifted.sum(axis=0), len(rows))


def _by_key(values: np.ndarray, place: np.ndarray, size: int) -> np.ndarray:
    """The grid keeps all sums below 2^53, so floats hold them exactly."""
    return np.column_stack([np.bincount(place, column, size) for column in values.T]).astype(np.int64)


@cache
def _no_source() -> Source:
    """What is released from memory has no table to be opened."""
    return open_table(pa.table({"nothing": pa.array([], pa.float64())}))


# ------------------------------------------------------------------------------------------------ moment matrices


@dataclass(frozen=True)
class MomentRelease:
    """Releases of synthetic tables that exist as moment matrices only: sums of products of [1, features].

    Exact ones are (keys, m+1, m+1) for a plan with a key, (m+1, m+1) without. Rows lie in the plan's ball and not in a box,
    so sums are at most its squared radius times the rows.
    """

    plan: Plan
    rows: int

    @cached_property
    def basis(self) -> Basis:
        return Basis(tuple(f"f{i}" for i in range(self.plan.request.features)), 2)

    @cached_property
    def _most(self) -> int:
        return int(np.ceil(max(float(self.plan.request.bound_squared), 1.0) * self.rows))

    @cached_property
    def _grid(self) -> Grid:
        return choose_grid(self.plan, most_rows=self._most)

    @cached_property
    def _places(self) -> np.ndarray:
        """The column of every entry of a moment matrix."""
        m = len(self.basis.features)
        found = np.zeros((m + 1, m + 1), dtype=np.intp)
        found[0, 1:] = found[1:, 0] = 1 + np.arange(m)
        found[1:, 1:] = self.basis.squares
        return found

    def _packed(self, moments: np.ndarray) -> np.ndarray:
        upper = np.triu_indices(len(self._places))
        found = np.empty((*moments.shape[:-2], self.basis.size))
        found[..., self._places[upper]] = moments[..., upper[0], upper[1]]
        return found

    def _exact(self, packed: np.ndarray) -> ExactStatistics:
        """Sums rounded to the grid, as if their rows had been."""
        order = np.array([monomial.order for monomial in self.basis.monomials])
        whole = np.rint(packed * float(self._grid.one) ** order).astype(np.int64)
        if not self.plan.request.keyed:
            return ExactStatistics(self.basis, self._grid, (), whole, self.rows)
        return ExactStatistics(self.basis, self._grid, (whole,), whole.sum(axis=0), self.rows)

    def matrices(self, tables: np.ndarray, noise: NoiseSource) -> np.ndarray:
        """Any number of tables, one after the other, as moment matrices again; what the plan leaves out stays exact."""
        keyed = self.plan.request.keyed
        batch = tables.reshape(-1, *tables.shape[-3 if keyed else -2 :])
        found = np.empty_like(batch)
        for number, packed in enumerate(self._packed(batch)):
            noisy = release(self._exact(packed), self.plan, noise, most_rows=self._most)
            for order, values in () if keyed else noisy.whole.items():
                packed[self.basis.slice(order)] = values
            found[number] = (noisy.levels[0] if keyed else packed)[..., self._places]
        return found.reshape(tables.shape)

    def sketch(self, moments: np.ndarray, names: tuple[str, ...], noise: NoiseSource) -> Sketch:
        """One keyed table as a sketch; the last key is the catch-all."""
        exact = replace(self._exact(self._packed(moments)), basis=Basis(names, 2))
        noisy = release(exact, self.plan, noise, most_rows=self._most)
        card, key = _synthetic(names), key_of(_numbered(len(moments) - 1))
        rows = Rows(_no_source(), resolve_features(card, ()), (), key, None, 1)
        request = ReleaseRequest(card, self.plan.request.budget, Neighbours.REPLACE_ONE)
        ready = Prepared(request, rows, self.plan, None, {}, self.rows, self._most, self._grid, 0, b"")
        return assemble(ready, rows, noisy, simulated=noise.simulated, edition=1, standing=None)


@cache
def _synthetic(names: tuple[str, ...]) -> Card:
    return Card.parse({"dataset": {"name": "synthetic"}, "features": {name: {"bounds": (-1.0, 1.0)} for name in names}})


@cache
def _numbered(keys: int) -> KeyDomain:
    return KeyDomain.of("keys", [str(number) for number in range(keys)])
