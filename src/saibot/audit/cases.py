"""Random cases: a table about several individuals, its card, a release, and one individual in several versions.

Any two versions make a neighbouring pair: everybody else's rows are the same. All of it is drawn from a seed, so that what
was found is found again. The seed makes test tables, never noise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from saibot.audit.cells import CATEGORICAL, IDS, KEYS, NESTED, NUMERIC, Cell, ColumnKind
from saibot.privacy import Budget, Neighbours, mechanisms
from saibot.privacy.mechanisms import MECHANISMS, Layout, Mechanism, mechanism_named
from saibot.privatize import Card, ReleaseRequest
from saibot.privatize.engines import DEFAULT_ENGINE, BackendName
from saibot.privatize.privatize import by_keys

Row = dict[str, Cell]
LAYOUTS = tuple((mechanism, layout) for mechanism, layouts in mechanisms.LAYOUTS.items() for layout in layouts)
BUYING = "2000"  # epsilon with which the few rows of a case are enough to buy bounds


@dataclass(frozen=True)
class Case:
    """A table with one individual in several versions, and what is released of it."""

    name: str
    columns: dict[str, ColumnKind]  # of the table, by name: features f0.., key parts k0.., id
    card: dict[str, Any]
    asked: dict[str, Any]  # arguments of ReleaseRequest: mechanism, layout, key, order, allocation, ...
    budget: Budget
    others: tuple[Row, ...]
    versions: tuple[tuple[Row, ...], ...]
    place: int = 0  # where among the others the individual's rows stand
    keys: tuple[str, ...] = ()  # released by these in one go, where there are several; `asked` then names no key

    @property
    def neighbours(self) -> Neighbours:
        return Neighbours(self.card["dataset"]["neighbours"])

    @property
    def group(self) -> str:
        law = "Laplace" if self.budget.pure else "Gaussian"
        return f"{self.asked['mechanism']} {self.asked['layout']} {law}"

    def rows(self, version: int) -> list[Row]:
        return [*self.others[: self.place], *self.versions[version], *self.others[self.place :]]

    def pairs(self) -> list[tuple[int, int]]:
        """Which versions are neighbours: under add-remove, those with the individual and those without."""
        count = len(self.versions)
        every = [(one, other) for one in range(count) for other in range(one + 1, count)]
        if self.neighbours is Neighbours.REPLACE_ONE:
            return every
        return [(one, other) for one, other in every if bool(self.versions[one]) != bool(self.versions[other])]

    def request(self, backend: BackendName = DEFAULT_ENGINE) -> ReleaseRequest:
        return ReleaseRequest(Card.parse(self.card), self.budget, self.neighbours, backend=backend, **self.asked)

    def requests(self, backend: BackendName = DEFAULT_ENGINE) -> tuple[ReleaseRequest, ...]:
        """The request by each of the keys, all of one release."""
        request = self.request(backend)
        return by_keys(request, self.keys) if self.keys else (request,)

    def only(self, one: int, other: int) -> Case:
        """The same case with these two versions."""
        return replace(self, versions=(self.versions[one], self.versions[other]))

    def told(self) -> str:
        """The card and the release in one line each, as JSON."""
        asked = {name: str(value) if isinstance(value, Decimal) else value for name, value in self.asked.items()}
        asked |= {"keys": self.keys} if self.keys else {}
        return json.dumps(self.card) + "\n" + json.dumps(asked | {"budget": str(self.budget)})


def random_case(seed: int, number: int) -> Case:
    """Case `number` of a seed; the same whatever was drawn before."""
    return _Drawing(np.random.default_rng([seed, number])).case(f"{seed}-{number}")


def tight_cases() -> list[Case]:
    """For every mechanism, layout and law, an individual in all corners of the box and at both ends of the keys.

    Among these pairs is one that nearly reaches the claim: noise that is too small by 30 % cannot pass. Where a mechanism
    adds up what its orders can move one by one, that is so for a release of order 1 only, which is tried, too.
    """
    every = [(mechanism, layout) for mechanism in MECHANISMS.values() for layout in mechanism.layouts]
    asked = [(*one, 2) for one in every] + [(*one, 1) for one in every if not (one[1].keyed or one[1].scatter)]
    return [_tight(mechanism, layout, order, delta) for mechanism, layout, order in asked for delta in ("1e-6", "0")]


def _tight(mechanism: Mechanism, layout: Layout, order: int, delta: str) -> Case:
    number, key = NUMERIC[1], KEYS[0]
    keyed = layout.keyed
    names = [f"f{feature}" for feature in range(layout.tightest)]
    corners = [[(number.low, 5.0, number.high)[sign] for sign in signs] for signs in np.ndindex(*(3,) * len(names))]
    if keyed:
        corners = [corner for corner in corners if 5.0 not in corner]  # with another key, the middle is never the worst
    places = [{"k0": key.low}, {"k0": key.high}] if keyed else [{}]
    versions = tuple((dict(zip(names, corner, strict=True)) | place,) for corner in corners for place in places)
    usual: Row = dict.fromkeys(names, 9.0) | ({"k0": 2} if keyed else {})
    asked: dict[str, Any] = {"mechanism": mechanism.name, "layout": layout.name, "order": order}
    asked |= {"key": "k0" if keyed else None, "calibration": None if delta == "0" else "analytic"}
    asked |= {"allocation": mechanism.allocations[0] if mechanism.allocations else None}
    card = {
        "dataset": {"name": "audited", "neighbours": "replace-one"},
        "features": {name: dict(number.facts) for name in names},
        "keys": {"k0": dict(key.facts)} if keyed else {},
    }
    columns = dict.fromkeys(names, number) | ({"k0": key} if keyed else {})
    name = f"tight {mechanism.name} {layout.name} of order {order}"
    return Case(name, columns, card, asked, Budget("1", delta), (usual,) * 7, versions)


@dataclass(frozen=True)
class _Drawing:
    rng: np.random.Generator

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one_of(self, things: tuple[Any, ...] | list[Any]) -> Any:
        return things[int(self.rng.integers(len(things)))]

    def case(self, name: str) -> Case:
        mechanism = mechanism_named((chosen := self.one_of(LAYOUTS))[0])
        layout = mechanism.layout(chosen[1])
        pure = self.chance(0.25)
        columns: dict[str, ColumnKind] = {}
        card: dict[str, Any] = {"dataset": {"name": "audited"}, "features": {}, "keys": {}}
        asked: dict[str, Any] = {"mechanism": mechanism.name, "layout": layout.name, "key": None, "order": 2}
        scatter = layout.scatter  # of two features or more, whose row count is public
        if not scatter and layout.only_order is None:
            asked["order"] = self.one_of((1, 2, 2, 2, 3))
        self._features(columns, card, least=2 if scatter else 1)
        if layout.keyed:
            asked["key"] = self._key(columns, card, nested=layout.levels and self.chance(0.4))
        by_id = not scatter and self.chance(0.3)
        adding = not scatter and self.chance(0.25)
        card["dataset"]["neighbours"] = "add-remove" if adding else "replace-one"
        if by_id:
            columns["id"] = self.one_of(IDS)
            card["dataset"] |= {"id": "id", "rows_per_individual": self.one_of((1, 1, 2, 3))}
        if by_id or adding:
            card["dataset"]["max_rows"] = 1000
        if mechanism.allocations:
            asked["allocation"] = "auto" if self.chance(0.1) else self.one_of(("alg2", "equal"))
            if self.chance(0.15):
                self._component(card)
        elif not pure:
            asked["calibration"] = self.one_of(sorted(mechanism.calibrations))
        if self.chance(0.15) and "component" not in card:
            asked["bound"] = Decimal("0.8")
        columns = self._shuffled(columns)
        others = self._others(columns)
        bought = any("buy" in facts.get("bounds", ()) for facts in card["features"].values())
        if bought and "calibration" in asked:
            asked["calibration"] = "analytic"
        if bought and asked["key"] is not None:
            asked["coverage"] = "0.01"
        budget = Budget(BUYING if bought else "1", "0" if pure else "1e-6")
        versions = self._versions(columns, adding=adding, by_id=by_id)
        place = int(self.rng.integers(len(others) + 1))
        # Drawn last, so that cases are what they were before keys could be found, and several components and keys released.
        if asked["key"] == "k0" and "levels" not in card["keys"]["k0"] and not pure and self.chance(0.2):
            card["keys"]["k0"] = {"domain": {"find": "things", "buy": "0.3"}}
            budget = Budget(BUYING, "1e-6")  # with which the few rows of a case are enough
            asked |= {"calibration": "analytic"} if "calibration" in asked else {}
        if "component" in card:
            card["component"]["keep"] = 1 + int(self.rng.integers(len(card["component"]["of"])))
        keys: tuple[str, ...] = ()
        if asked["key"] == "both" and self.chance(0.5):
            asked["key"], keys = None, ("k0", "k1")
        return Case(name, columns, card, asked, budget, others, versions, place, keys)

    def _features(self, columns: dict[str, ColumnKind], card: dict[str, Any], *, least: int) -> None:
        for number in range(int(self.rng.integers(least, 4))):
            kind = self.one_of(CATEGORICAL) if self.chance(0.4) else self.one_of(NUMERIC)
            facts = dict(kind.facts)
            if "bounds" in facts and self.chance(0.1):
                facts["bounds"] = {"buy": "0.1"}
            elif "bounds" in facts and self.chance(0.3):
                facts["missing"] = float(self.one_of(facts["bounds"]))
            columns[f"f{number}"], card["features"][f"f{number}"] = kind, facts

    def _key(self, columns: dict[str, ColumnKind], card: dict[str, Any], *, nested: bool) -> str:
        if nested:
            columns["k0"], card["keys"]["k0"] = NESTED, dict(NESTED.facts)
            return "k0"
        parts = ["k0", "k1"] if self.chance(0.25) else ["k0"]
        for part in parts:
            columns[part] = self.one_of(KEYS)
            card["keys"][part] = dict(columns[part].facts)
        if len(parts) == 1:
            return "k0"
        card["keys"]["both"] = {"parts": parts}
        return "both"

    def _component(self, card: dict[str, Any]) -> None:
        """A bought principal component, where there are two numeric features to make it of."""
        numeric = [name for name, facts in card["features"].items() if "levels" not in facts]
        if len(numeric) == len(card["features"]) >= 2:
            card["component"] = {"of": numeric, "buy": "0.3"}

    def _shuffled(self, columns: dict[str, ColumnKind]) -> dict[str, ColumnKind]:
        names = list(columns)
        return {names[i]: columns[names[i]] for i in self.rng.permutation(len(names))}

    # -------------------------------------------------------------------------------------------- rows

    def _others(self, columns: dict[str, ColumnKind]) -> tuple[Row, ...]:
        # In most cases none: the individual's odd cell is then the first of its column, and changes most.
        odd = self.one_of((0.0, 0.0, 0.0, 0.1))
        count = int(self.rng.integers(5, 40))
        rows = []
        for number in range(count):
            row = {name: self._cell(kind, odd=odd) for name, kind in columns.items() if name != "id"}
            if "id" in columns:
                ids = columns["id"].usual
                row["id"] = ids[number % min(max(count // 4, 1), len(ids))]
            rows.append({name: row[name] for name in columns})
        return tuple(rows)

    def _cell(self, kind: ColumnKind, *, odd: float = 0.0) -> Cell:
        return self.one_of(kind.odd if self.chance(odd) else kind.usual)

    def _versions(self, columns: dict[str, ColumnKind], *, adding: bool, by_id: bool) -> tuple[tuple[Row, ...], ...]:
        """Usual rows, two opposite extremes, and rows with an odd cell or two."""

        def several(make: Any) -> tuple[Row, ...]:
            return tuple(make() for _ in range(int(self.rng.integers(1, 5)) if by_id else 1))

        def nasty() -> tuple[Row, ...]:
            rows = several(lambda: self._nasty(columns))
            if not (by_id and self.chance(0.5)):
                return rows
            called = self.one_of(columns["id"].odd)  # all of the rows: they are still one individual's
            return tuple(row | {"id": called} for row in rows)

        low, high = self._extremes(columns)
        versions = [
            several(lambda: self._usual(columns)),
            several(lambda: low),
            several(lambda: high),
            *(nasty() for _ in range(3)),
        ]
        return ((), *versions) if adding else tuple(versions)

    def _usual(self, columns: dict[str, ColumnKind]) -> Row:
        return {name: kind.low if name == "id" else self._cell(kind) for name, kind in columns.items()}

    def _extremes(self, columns: dict[str, ColumnKind]) -> tuple[Row, Row]:
        """Rows in opposite corners, with keys at opposite ends or at the same one."""
        low: Row = {}
        high: Row = {}
        stays = self.chance(0.3)
        for name, kind in columns.items():
            if name == "id":
                low[name] = high[name] = kind.low
            else:
                ends = (kind.low, kind.high) if self.chance(0.5) else (kind.high, kind.low)
                low[name], high[name] = ends if not (stays and name.startswith("k")) else (kind.low, kind.low)
        return low, high

    def _nasty(self, columns: dict[str, ColumnKind]) -> Row:
        row = self._usual(columns)
        # Keys and levels are compared letter by letter, so another spelling of them shows more than that of a number does.
        names = [name for name, kind in columns.items() if name != "id" for _ in range(1 if "bounds" in kind.facts else 3)]
        for _ in range(1 + self.chance(0.3)):
            name = self.one_of(names)
            row[name] = self.one_of(columns[name].odd)
        if "id" in columns and self.chance(0.1):
            row["id"] = None
        return row
