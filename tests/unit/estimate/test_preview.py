"""The preview: what it promises is what the values then are, and its advice fits the case."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest

from saibot.errors import InvalidInput
from saibot.estimate.lookup import shrink
from saibot.estimate.preview import EVEN, SHARES, preview
from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import PlanRequest, make_plan


def request_for(
    keys: tuple[int, ...],
    rows: int,
    *,
    features: int = 1,
    epsilon: str = "1",
    layout: str = "lookup",
    mechanism: str = "joint",
) -> PlanRequest:
    return PlanRequest(
        mechanism=mechanism,
        layout=layout,
        features=features,
        bound_squared=Decimal(features),
        order=2,
        budget=Budget(epsilon, "1e-6"),
        neighbours=Neighbours.REPLACE_ONE,
        row_count_public=True,
        allocation="alg2" if mechanism == "joint" else None,
        levels=max(len(keys), 1),
        rows=rows,
        keys=keys if layout == "lookup" else (),
    )


@pytest.mark.parametrize("keys,per_key", [((300,), 100), ((300,), 60), ((600, 20), 30), ((600, 60, 6), 30)])
def test_the_predicted_reliability_is_what_the_values_reach(keys, per_key):
    rows = per_key * keys[0]
    request = request_for(keys, rows)
    promised = preview(request, rows=rows, keys=keys)
    plan = make_plan(request)
    sigma = [[plan.block("key", order, level).sigma for level in range(len(keys))] for order in (0, 1)]
    parents = [np.arange(finer) * coarser // finer for finer, coarser in pairwise(keys)]
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(30):
        z = np.zeros(1)
        for level in range(len(keys) - 1, -1, -1):
            above = z[parents[level]] if level < len(keys) - 1 else z
            z = above + np.sqrt(SHARES["moderate"] * EVEN / len(keys)) * rng.normal(size=keys[level])
        counts = rng.poisson(per_key, keys[0]).astype(float)
        c, s = [counts], [counts * z]
        for index in parents:
            c, s = [*c, np.bincount(index, c[-1])], [*s, np.bincount(index, s[-1])]
        c = [level + noise * rng.normal(size=len(level)) for level, noise in zip(c, sigma[0], strict=True)]
        s = [(level + noise * rng.normal(size=len(level)))[None] for level, noise in zip(s, sigma[1], strict=True)]
        found = shrink(c, s, count_sigma=sigma[0], sum_sigma=sigma[1], rows=counts.sum(), parents=parents)
        shares.append(np.corrcoef(found.values[0], z)[0, 1] ** 2)
    assert promised.usable_share == pytest.approx(np.mean(shares), abs=0.08)


def test_more_of_everything_helps():
    base = preview(request_for((200,), 4000), rows=4000, keys=(200,))
    for better in (
        preview(request_for((200,), 4000, epsilon="3"), rows=4000, keys=(200,)),
        preview(request_for((200,), 20_000), rows=20_000, keys=(200,)),
        preview(request_for((200, 10), 4000), rows=4000, keys=(200, 10)),
    ):
        assert better.usable_share > base.usable_share
    wider = preview(request_for((200,), 4000, features=4), rows=4000, keys=(200,))
    assert wider.usable_share < base.usable_share and wider.value_error > base.value_error
    assert base.reliability["weak"] < base.reliability["moderate"] < base.reliability["strong"]


def test_advice_names_what_would_help():
    poor = preview(request_for((1000,), 5000, features=3), rows=5000, keys=(1000,))
    words = " ".join(poor.advice)
    assert words.startswith("Poor") and "rows per key" in words and "epsilon" in words and "levels" in words
    good = preview(request_for((50,), 100_000), rows=100_000, keys=(50,))
    assert good.usable_share > 0.9 and good.advice[0].startswith("Good")


def test_a_union_needs_no_key_and_previews_means():
    found = preview(request_for((), 1000, layout="union"), rows=1000)
    assert found.usable_share is None and 0 < found.mean_error < 0.1 and found.deviation_error > 0
    hopeless = preview(request_for((), 20, layout="union", epsilon="0.1"), rows=20)
    assert "overall mean" in hopeless.advice[0]


@pytest.mark.parametrize(
    "mechanism,layout", [("fpm", "join"), ("fpm-opt", "join"), ("joint", "semiring"), ("joint", "lookup")]
)
def test_every_mechanism_has_a_preview_that_fits_into_json(mechanism, layout):
    found = preview(request_for((100,), 3000, mechanism=mechanism, layout=layout), rows=3000, keys=(100,))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["keys"] == [100] and set(document["reliability"]) == set(SHARES)


def test_a_preview_that_does_not_fit_its_plan_is_refused():
    with pytest.raises(InvalidInput, match="number of keys"):
        preview(request_for((100,), 3000), rows=3000)
    with pytest.raises(InvalidInput, match="1 key levels, not 2"):
        preview(request_for((100,), 3000), rows=3000, keys=(100, 10))
    with pytest.raises(InvalidInput, match="at least one row"):
        preview(request_for((100,), 3000), rows=0, keys=(100,))
    with pytest.raises(InvalidInput, match="no key"):
        preview(request_for((), 1000, layout="union"), rows=1000, keys=(5,))
