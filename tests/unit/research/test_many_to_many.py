"""The paper's join search reads R2 off per-key moments: that of the table that was never built."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from research.baselines.many_to_many import KeyedStatistics, many_to_many_r2
from saibot.estimate.moments import exact_moments

D = 30


@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (2000.0, 1.0), (0.0, 1e6), (2000.0, 1e-6)])
def test_a_many_to_many_joins_r2_is_that_of_the_merged_table(offset, scale):
    rng = np.random.default_rng(4)
    keys, hidden, x = rng.integers(0, D, 200), rng.normal(size=D), rng.normal(size=200)
    y = scale * (0.4 * x + hidden[keys] + 0.5 * rng.normal(size=200) + offset)
    x = scale * (x + offset)
    table = np.column_stack([x, y])
    moments = exact_moments(("x", "y"), table - table.mean(axis=0), keys, D)
    providers = []
    for _ in range(6):
        places = rng.integers(0, D, 150)
        providers.append((places, rng.normal(size=150) + 0.3 * places / D))
    columns = [[np.bincount(places, values**power, D) for power in (0, 1, 2)] for places, values in providers]
    counts, sums, squares = (np.array(column) for column in zip(*columns, strict=True))
    found = many_to_many_r2(moments, KeyedStatistics(counts, sums, squares), "y")
    own = pd.DataFrame({"k": keys, "x": x, "y": y})
    for number, (places, values) in enumerate(providers):
        merged = own.merge(pd.DataFrame({"k": places, "z": values}), on="k")
        model = LinearRegression(tol=1e-13).fit(merged[["x", "z"]], merged["y"])
        assert found[number] == pytest.approx(model.score(merged[["x", "z"]], merged["y"]), abs=1e-8)
