"""Neighbouring tables move what the page adds noise to no further than its plan says, whatever their cells are."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.page_script import run_script

# For each pair of tables the distance of the two vectors in units of the noise, beside the mu of their plan.
DISTANCES = """
  const { makePlan } = await page("plan"), { chooseBits, noiseScale, scaledVector } = await page("release");
  const { aggregate } = await page("statistics"), { listedDomain } = await page("key_domain"), n = await page("numbers");
  const { releasedColumns } = await page("grid");
  const table = {
    features: data.features, at: data.features.map((_, i) => i),
    key: data.keys ? { at: data.features.length, domain: listedDomain("k", 1, data.keys), byDay: false } : null,
    id: data.each ? { at: data.features.length + (data.keys ? 1 : 0), most: data.each, secret: "secret" } : null,
  };
  const rowCountPublic = data.neighbours === "replace-one" && !data.each, most = 40;
  const plan = makePlan({
    features: releasedColumns(data.features).length, boundSquared: data.features.length, epsilon: n.decimalOf("1"),
    delta: n.decimalOf("1e-6"), neighbours: data.neighbours, rowCountPublic, rowsPerIndividual: data.each ?? 1,
    rows: rowCountPublic ? data.rows : null, keyed: table.key !== null, keys: data.keys ? data.keys.length + 1 : null,
  });
  const mostRows = rowCountPublic ? data.rows : most, bits = chooseBits(plan, mostRows);
  const scale = noiseScale(plan, bits, mostRows), wanted = [{ part: 0, bits }];
  const vector = async (rows) => {
    const text = [["a", "b", "c", "k", "who"].slice(-rows[0].length), ...rows].map((cells) => cells.join(",")).join("\\n");
    const [sums] = await aggregate(new File([`${text}\\n`], "t.csv"), new Uint8Array(rows.length), wanted, table);
    return scaledVector(plan, bits, mostRows, sums).map(({ scaled }) => scaled);
  };
  const found = [];
  for (const [one, other] of data.pairs) {
    const [u, v] = [await vector(one), await vector(other)];
    const square = u.reduce((total, value, i) => total + (value - v[i]) ** 2n, 0n);
    found.push(Math.sqrt(Number(square)) / scale);
  }
  return [plan.mu, found];"""
NUMBER = {"column": "a", "lower": -5, "upper": 10, "missing": None}
OTHER = {"column": "b", "lower": 0, "upper": 1, "missing": 0.2}
CATEGORY = {"column": "c", "levels": ["f", "m"]}
CELLS = {
    "a": ["-5", "10", "", "x", "inf", "-1e9", "2.5", "1e400"],
    "b": ["0", "1", "nan", "0.3", "true"],
    "c": ["f", "m", "z", ""],
}
KEYS = ["A", "B", "C"]


def row(rng: random.Random, features: list[dict[str, Any]], keyed: bool, who: str | None) -> list[str]:
    cells = [rng.choice(CELLS[feature["column"]]) for feature in features]
    return [*cells, *([rng.choice([*KEYS, "a", "other", ""])] if keyed else []), *([] if who is None else [who])]


def pair(rng: random.Random, case: dict[str, Any]) -> tuple[list[list[str]], list[list[str]]]:
    """A table, and one in which an individual's rows are others, or are gone."""
    make = lambda who: row(rng, case["features"], case["keys"] is not None, who)  # noqa: E731
    if case.get("each"):
        table = [make(f"p{rng.randrange(6)}") for _ in range(20)]
        others = [cells for cells in table if cells[-1] != "p0"]
        changed = [make("p0") for _ in range(rng.randrange(6))] if case["neighbours"] == "replace-one" else []
        return table, rng.sample(others + changed, len(others + changed))
    table = [make(None) for _ in range(case["rows"])]
    at = rng.randrange(len(table))
    replaced = [] if case["neighbours"] == "add-remove" else [make(None)]
    return table, table[:at] + replaced + table[at + 1 :]


CASES = {
    "two numbers by key": {"features": [NUMBER, OTHER], "keys": KEYS, "neighbours": "replace-one", "rows": 12},
    "one number by key": {"features": [NUMBER], "keys": KEYS, "neighbours": "replace-one", "rows": 12},
    "a category": {"features": [NUMBER, OTHER, CATEGORY], "keys": KEYS, "neighbours": "replace-one", "rows": 12},
    "without a key": {"features": [NUMBER, OTHER], "keys": None, "neighbours": "replace-one", "rows": 12},
    "added and removed": {"features": [NUMBER, OTHER], "keys": KEYS, "neighbours": "add-remove", "rows": 12},
    "individuals": {"features": [NUMBER, OTHER], "keys": KEYS, "neighbours": "replace-one", "rows": 20, "each": 2},
    "individuals gone": {"features": [NUMBER], "keys": None, "neighbours": "add-remove", "rows": 20, "each": 3},
}


@pytest.mark.parametrize("name", CASES)
def test_one_individual_moves_the_vector_no_further_than_mu(name: str, full: bool) -> None:
    case, rng = CASES[name], random.Random(name)
    pairs = [pair(rng, case) for _ in range(2000 if full else 150)]
    mu, distances = run_script(DISTANCES, case | {"pairs": pairs})
    assert max(distances) <= mu
    # Not for want of trying: the worst of these pairs comes near, and half of the noise would not be enough.
    assert max(distances) > 0.6 * mu
