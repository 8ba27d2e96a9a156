"""The paper's preparation reads the rows without paying. It is offered for comparison, and never without saying so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.errors import InvalidInput, InvalidTable
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.noise import NoiseSource
from saibot.sketch import Sketch, read_sketch

CARD: dict[str, Any] = {
    "dataset": {"name": "t"},
    "features": {"x": {"bounds": [0, 1]}, "y": {"bounds": [0, 1]}, "o": {"levels": ["a"]}},
    "keys": {"k": {"domain": {"range": [1, 3]}}},
}


def rows(n: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(100, 5, n)
    return pd.DataFrame({"x": x, "y": 3 * x + rng.normal(0, 4, n), "k": rng.integers(1, 4, n), "o": "a"})


def as_in_paper(table: pd.DataFrame, ledger: Ledger, noise: NoiseSource | None = None, **options: Any) -> Sketch:
    terms = {"features": ("x", "y"), "allocation": "equal", "key": "k"} | options
    request = ReleaseRequest(Card.parse(CARD), Budget("1", "1e-6"), Neighbours.REPLACE_ONE, paper_preparation=True, **terms)
    released = privatize(table, request, ledger, noise=noise)
    return read_sketch(released.content)


def by_hand(table: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """The rows within 1.5 standard deviations, scaled by them, and their first principal component."""
    centre, spread = table[["x", "y"]].mean(), 1.5 * table[["x", "y"]].std(ddof=0)
    kept = table[((table[["x", "y"]] - centre).abs() <= spread).all(axis=1)]
    scaled = ((kept[["x", "y"]] - centre) / spread).to_numpy()
    direction = np.linalg.eigh(np.cov(scaled.T))[1][:, -1]
    return kept, scaled, direction


def test_the_sketch_is_marked_nonprivate_with_every_step_named(ledger: Ledger) -> None:
    header = as_in_paper(rows(), ledger).header
    assert header.preparation.kind == "nonprivate" and len(header.preparation.steps) == 3
    assert all("read from the rows" in step for step in header.preparation.steps)
    assert not header.assumptions.bounds_public


def test_without_the_papers_preparation_the_same_release_is_public(ledger: Ledger) -> None:
    request = ReleaseRequest(Card.parse(CARD), Budget("1", "1e-6"), Neighbours.REPLACE_ONE, key="k", allocation="equal")
    header = privatize(rows(), request, ledger).sketch.header
    assert header.preparation.kind == "public" and header.preparation.steps == () and header.assumptions.bounds_public


def test_rows_beyond_the_spread_are_dropped_and_the_rest_is_one_component(ledger: Ledger, no_noise: NoiseSource) -> None:
    table = rows()
    kept, scaled, direction = by_hand(table)
    sketch = as_in_paper(table, ledger, noise=no_noise)
    (feature,) = sketch.header.features
    assert feature.kind == "component" and feature.weights is not None
    found = np.array([feature.weights["x"], feature.weights["y"]])
    assert abs(found @ direction) == pytest.approx(1, abs=1e-9)
    assert sketch.header.rows == len(kept) < len(table)
    along = scaled @ found
    assert feature.upper == -feature.lower == pytest.approx(np.abs(along).max())
    counts, sums = sketch.levels[0].values.T
    assert np.allclose(counts, [(kept.k == k).sum() for k in (1, 2, 3)] + [0])
    assert np.allclose(sums[:3], [along[kept.k == k].sum() / feature.upper for k in (1, 2, 3)], atol=1e-2)


def test_one_feature_is_scaled_and_not_made_a_component(ledger: Ledger, no_noise: NoiseSource) -> None:
    table = rows()
    (feature,) = as_in_paper(table, ledger, noise=no_noise, features=("x",)).header.features
    assert feature.kind == "numeric"
    assert feature.lower == pytest.approx(table.x.mean() - 1.5 * table.x.std(ddof=0))
    assert feature.upper == pytest.approx(table.x.mean() + 1.5 * table.x.std(ddof=0))


def test_missing_cells_are_kept_at_the_mean(ledger: Ledger, no_noise: NoiseSource) -> None:
    table = rows()
    table.loc[:9, "x"] = np.nan
    sketch = as_in_paper(table, ledger, noise=no_noise, features=("x",), key=None)
    inside = table.x.isna() | ((table.x - table.x.mean()).abs() <= 1.5 * table.x.std(ddof=0))
    assert sketch.header.rows == inside.sum()
    assert sketch.header.features[0].missing == pytest.approx(table.x.mean())


@pytest.mark.parametrize("value", [0.1, 1e9 + 0.1, np.nan])
def test_a_column_without_spread_is_no_accident(ledger: Ledger, value: float) -> None:
    sketch = as_in_paper(rows().assign(x=value), ledger)
    assert sketch.header.preparation.kind == "nonprivate"


def test_it_is_charged_like_any_other_release(ledger: Ledger) -> None:
    as_in_paper(rows(), ledger)
    account = ledger.account("t")
    assert account is not None and account.spent_epsilon == pytest.approx(1, abs=1e-6)


def test_what_the_paper_does_not_prepare_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="numeric features"):
        as_in_paper(rows(), ledger, features=("x", "o"))
    with pytest.raises(InvalidTable, match="no rows"):
        as_in_paper(rows()[:0], ledger)
    with pytest.raises(InvalidTable):  # the mean of infinity is no bound
        as_in_paper(rows().assign(x=np.inf), ledger)
    assert ledger.accounts() == []
