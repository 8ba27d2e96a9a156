"""A task with everything that is known without noise: the request's rows, the candidates' rows, and the true answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from research.judging import r2_with
from research.real.components import LEAST_ROWS, SPREAD, Component, component, measurements, preferred_columns, standardised
from research.real.keys import domain_of, key
from research.real.tables import Tables
from research.real.tasks import Task, to_numbers
from saibot.sketch import KeyDomain


@dataclass(frozen=True)
class ProviderTable:
    """A provider's table: the key of each row as text, its one feature as in the paper, and its preferred columns."""

    name: str
    keys: np.ndarray
    feature: Component
    columns: np.ndarray  # (n, m): what a private preparation would start from


@dataclass(frozen=True)
class World:
    """A task's exact data. The domain is public: the keys of the request. Other keys of a provider are outside it."""

    task: Task
    domain: KeyDomain
    place: np.ndarray  # (n,), of the request's rows
    x: np.ndarray  # (n,), the own features' component, in standard deviations
    y: np.ndarray
    raw: np.ndarray  # (n, 2), the first own feature and the target in their own units
    names: tuple[str, ...]
    places: tuple[np.ndarray, ...]  # of each candidate's rows; the domain's size where outside
    features: tuple[Component, ...]
    columns: tuple[np.ndarray, ...]

    @property
    def rows(self) -> int:
        return len(self.y)

    @property
    def table(self) -> np.ndarray:
        """The request's rows (x, y) at 1.5 standard deviations, within the unit ball."""
        return np.column_stack([self.x, self.y]) / (SPREAD * 2**0.5)

    @property
    def counts(self) -> np.ndarray:
        """Rows per key of each candidate (N, d+1); the last key is outside the domain."""
        size = len(self.domain) + 1
        return np.array([np.bincount(place, minlength=size) for place in self.places], dtype=float)

    def sums(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Per key and candidate (N, d+1), of one value for each of its rows."""
        size = len(self.domain) + 1
        return np.array([np.bincount(place, value, size) for place, value in zip(self.places, values, strict=True)])

    def clipped(self, width: float) -> list[np.ndarray]:
        """Every candidate's feature in [-1, 1], bounds so many standard deviations from its mean (read from the rows)."""
        return [feature.clipped(width) for feature in self.features]

    @cached_property
    def raw_values(self) -> np.ndarray:
        """Each candidate's exact mean per key (N, d) at the paper's bounds; its overall mean where it has no rows."""
        counts, sums = self.counts[:, :-1], self.sums(self.clipped(SPREAD))[:, :-1]
        overall = sums.sum(axis=1, keepdims=True) / counts.sum(axis=1, keepdims=True)
        return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), overall))

    @cached_property
    def own_r2(self) -> float:
        """R2 of the own feature alone."""
        return r2_with(self.table, None)

    def thinned(self, kept: float, rng: np.random.Generator) -> World:
        """The same task with this share of the rows of every table, and so of the rows per key."""
        rows = rng.random(self.rows) < kept
        some = [rng.random(len(place)) < kept for place in self.places]
        cut = [number for number, mask in enumerate(some) if np.any(mask & (self.places[number] < len(self.domain)))]
        return replace(
            self,
            place=self.place[rows],
            x=self.x[rows],
            y=self.y[rows],
            raw=self.raw[rows],
            names=tuple(self.names[i] for i in cut),
            places=tuple(self.places[i][some[i]] for i in cut),
            features=tuple(replace(self.features[i], values=self.features[i].values[some[i]]) for i in cut),
            columns=tuple(self.columns[i][some[i]] for i in cut),
        )

    def with_rows(self, least: int) -> World:
        """The same task among tables of so many rows or more."""
        kept = [number for number, place in enumerate(self.places) if len(place) >= least]
        return replace(
            self,
            names=tuple(self.names[i] for i in kept),
            places=tuple(self.places[i] for i in kept),
            features=tuple(self.features[i] for i in kept),
            columns=tuple(self.columns[i] for i in kept),
        )

    @cached_property
    def lookup_r2(self) -> np.ndarray:
        """R2 with each candidate's exact means looked up: what a selection is worth."""
        return np.array([r2_with(self.table, values[self.place]) for values in self.raw_values])


class Library:
    """Reads and prepares every table once, for all tasks on it."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._candidates: dict[tuple[str, str], ProviderTable | None] = {}

    def candidate(self, name: str, key_name: str) -> ProviderTable | None:
        """A table as a provider would prepare it for this key; None where it has no such key or nothing to measure."""
        if (name, key_name) not in self._candidates:
            self._candidates[name, key_name] = self._prepare(name, key_name)
        return self._candidates[name, key_name]

    def _prepare(self, name: str, key_name: str) -> ProviderTable | None:
        kind = key(key_name)
        table = self.tables.read(name, text=(kind.column,))
        if kind.column not in table:
            return None
        keys = kind.read(table)
        table, keys = table[keys.notna()], keys[keys.notna()]
        columns = measurements(table.drop(columns=[kind.column]))
        if len(table) < LEAST_ROWS or not len(columns.columns):
            return None
        values, names = columns.to_numpy(), tuple(map(str, columns.columns))
        return ProviderTable(name, keys.to_numpy(str), component(values, names), values[:, preferred_columns(names)])

    def world(self, task: Task, among: Sequence[str] | None = None) -> World:
        """The task with all tables that may be candidates, or some of them."""
        kind = key(task.key)
        table = task.kept_rows(self.tables.read(task.table, text=(kind.column,)))
        keys, y = kind.read(table), task.target_of(table)
        own = [to_numbers(table[name]) for name in task.own]
        own = [column for column in own if column.notna().mean() > 0.5]  # a column of words is no feature of a component
        kept = keys.notna() & y.notna()
        for column in own:
            kept &= column.notna() | (column.notna().mean() < 0.95)
        domain = domain_of(kind, sorted(keys[kept].unique()))
        place = keys[kept].map(domain.index).to_numpy(int)
        x = component(np.column_stack([column[kept].to_numpy() for column in own])).values if own else np.zeros(len(place))
        found = []
        for name in self.tables.names() if among is None else among:
            if task.allows(name) and (candidate := self.candidate(name, task.key)) is not None:
                places = np.array([domain.index.get(text, len(domain)) for text in candidate.keys])
                if np.count_nonzero(places < len(domain)) >= LEAST_ROWS:
                    found.append((candidate, places))
        return World(
            task=task,
            domain=domain,
            place=place,
            x=x,
            y=standardised(y[kept].to_numpy()[:, None])[:, 0],
            raw=np.column_stack([(own[0] if own else y * 0.0)[kept].to_numpy(), y[kept].to_numpy()]),
            names=tuple(candidate.name for candidate, _ in found),
            places=tuple(places for _, places in found),
            features=tuple(candidate.feature for candidate, _ in found),
            columns=tuple(candidate.columns for candidate, _ in found),
        )
