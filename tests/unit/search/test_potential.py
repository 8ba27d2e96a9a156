"""Potential gains: what the providers' raw means would give, told from private values and the noise known to be in them."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.errors import InvalidInput
from saibot.estimate.lookup import shrink
from saibot.estimate.moments import exact_moments
from saibot.search import Corpus, RequestKey, SearchOptions, SearchRequest, search
from saibot.search.key_maps import view_id
from saibot.search.shard import ShardRows
from saibot.sketch import KeyDomain

D, EACH = 200, 20
DOMAIN = KeyDomain.of_range(1, D)
KEY = RequestKey.product([("k", DOMAIN)])


def provider(rng: np.random.Generator, means: np.ndarray, noise: float):
    """A provider's shrunk values, from EACH rows a key and this noise in sums and counts."""
    counts = np.full(D, float(EACH))
    sums = EACH * means + 0.05 * np.sqrt(EACH) * rng.normal(size=D)
    return shrink(
        counts + noise * rng.normal(size=D),
        sums + noise * rng.normal(size=D),
        count_sigma=noise,
        sum_sigma=noise,
        rows=float(D * EACH),
    )


def corpus_of(folder, found: list) -> Corpus:
    count, ones = len(found), np.ones(len(found))
    rows = ShardRows(
        {
            "digest": np.array([f"{i:064x}" for i in range(count)], object),
            "dataset": np.array([f"t{i}" for i in range(count)], object),
            "feature": np.full(count, "z", object),
            "unit": np.full(count, "", object),
        },
        {
            "mean": np.array([one.prior_mean[0] for one in found]),
            "spread": np.array([one.spread[0] for one in found]),
            "reliability": np.array([one.reliability.mean() for one in found]),
            "offset": 0 * ones,
            "scale": ones,
            "rows": ones,
        },
        np.array([np.append(one.values[0] - one.prior_mean[0], 0.0) for one in found]),
    )
    corpus = Corpus.create(folder)
    corpus.add_rows(view_id([DOMAIN.keys_digest]), rows)
    return corpus


def world(rng: np.random.Generator, rows: int = 8000):
    """A strong table that is noisy, and a weaker one that is not."""
    strong, other = np.clip(0.35 * rng.normal(size=(2, D)), -1, 1)
    weak = 0.6 * strong + 0.5 * other
    keys = rng.integers(0, D, rows)
    x = rng.normal(size=rows)
    y = 0.3 * x + 2.0 * strong[keys] + 0.5 * rng.normal(size=rows)
    request = SearchRequest(exact_moments(("x", "y"), np.column_stack([x, y]), keys, D + 1), None, "y", KEY)
    return request, strong, weak


def true_gain(request: SearchRequest, column: np.ndarray) -> float:
    values = np.append(column - column.mean(), 0.0)
    moments = request.train
    cross = moments.sums[:, 1] @ values - (moments.counts @ values) * moments.means[1]
    square = moments.counts @ values**2 - (moments.counts @ values) ** 2 / moments.count
    tss = moments.products[1, 1] - moments.count * moments.means[1] ** 2
    return float(cross**2 / square / tss)  # x is independent of the key


def test_the_potential_gain_is_what_the_raw_means_would_give(tmp_path):
    rng = np.random.default_rng(1)
    usable, potential, covered = [], [], []
    for run in range(40):
        request, strong, _ = world(rng)
        corpus = corpus_of(tmp_path / f"{run}", [provider(rng, strong, noise=8.0)])
        (found,) = search(request, corpus, SearchOptions(engine="threads", steps=1)).ranked
        truth = true_gain(request, strong)
        usable.append(found.gain / truth)
        potential.append(found.potential / truth)
        covered.append(found.potential_interval[0] <= truth <= found.potential_interval[1])
    assert np.mean(usable) < 0.75  # noise of the provider has cost a third of it
    assert np.mean(potential) == pytest.approx(1.0, abs=0.06)
    assert np.mean(covered) >= 0.85


def test_ranked_by_potential_the_noisy_strong_table_comes_first(tmp_path):
    rng = np.random.default_rng(2)
    request, strong, weak = world(rng)
    corpus = corpus_of(tmp_path / "c", [provider(rng, weak, noise=0.1), provider(rng, strong, noise=8.0)])
    usable = search(request, corpus, SearchOptions(engine="threads"))
    potential = search(request, corpus, SearchOptions(engine="threads", rank="potential"))
    assert [found.dataset for found in usable.ranked] == ["t0", "t1"]
    assert [found.dataset for found in potential.ranked] == ["t1", "t0"] and potential.rank == "potential"
    assert potential.steps[0].found.dataset == "t1"
    whole = search(request, corpus, SearchOptions(engine="threads", rank="potential", whole_datasets=True))
    assert whole.ranked[0].dataset == "t1"


def test_of_values_that_are_all_noise_no_potential_is_told(tmp_path):
    rng = np.random.default_rng(4)
    request, strong, _ = world(rng)
    corpus = corpus_of(tmp_path / "c", [provider(rng, strong, noise=300.0), provider(rng, strong, noise=8.0)])
    noisy, clear = sorted(
        search(request, corpus, SearchOptions(engine="threads", steps=1)).ranked, key=lambda one: one.dataset
    )
    assert (noisy.potential, noisy.potential_interval) == (None, None)
    assert "too little of its values is signal" in noisy.note
    assert clear.potential is not None and "too little" not in clear.note


def test_without_noise_usable_and_potential_are_one(tmp_path):
    rng = np.random.default_rng(3)
    request, strong, _ = world(rng)
    (found,) = search(request, corpus_of(tmp_path / "c", [provider(rng, strong, noise=0.0)])).ranked
    assert found.potential == pytest.approx(found.gain)
    assert found.potential_interval == pytest.approx((found.lower, found.upper), abs=0.02)


def test_another_ranking_is_refused():
    with pytest.raises(InvalidInput, match="usable, potential or expected gain, not by 'best'"):
        SearchOptions(rank="best")
