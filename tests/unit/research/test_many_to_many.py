"""The paper's join search reads R2 off per-key moments: that of the table that was never built."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from research.baselines.many_to_many import joined_with_all, r2_of_grams
from research.baselines.noise import keyed_moment_matrices

D = 30


@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (2000.0, 1.0), (0.0, 1e6), (2000.0, 1e-6)])
def test_a_many_to_many_joins_r2_is_that_of_the_merged_table(offset: float, scale: float) -> None:
    rng = np.random.default_rng(4)
    keys, hidden = rng.integers(0, D, 200), rng.normal(size=D)
    x = rng.normal(size=200)
    own = scale * (np.column_stack([x, 0.4 * x + hidden[keys] + 0.5 * rng.normal(size=200)]) + offset)
    providers = []
    for _ in range(6):
        places = rng.integers(0, D, 150)
        providers.append((places, rng.normal(size=150) + 0.3 * places / D))
    candidates = np.array([keyed_moment_matrices(values[:, None], places, D) for places, values in providers])
    request = keyed_moment_matrices(own - own.mean(axis=0), keys, D)
    found = r2_of_grams(joined_with_all(request, candidates), target=2)
    frame = pd.DataFrame({"k": keys, "x": own[:, 0], "y": own[:, 1]})
    for number, (places, values) in enumerate(providers):
        merged = frame.merge(pd.DataFrame({"k": places, "z": values}), on="k")
        model = LinearRegression(tol=1e-13).fit(merged[["x", "z"]], merged["y"])
        assert found[number] == pytest.approx(model.score(merged[["x", "z"]], merged["y"]), abs=1e-8)


def test_by_the_papers_rule_a_regression_without_positive_definite_moments_is_worth_nothing() -> None:
    gram = np.diag([10.0, 4.0, 5.0, 3.0])
    gram[1, 2] = gram[2, 1] = 1.0
    broken = gram.copy()
    broken[3, 3] = -1.0
    found = r2_of_grams(np.array([gram, broken]), target=2, rule="paper")
    assert found[0] == pytest.approx(0.05) and found[1] == 0.0
