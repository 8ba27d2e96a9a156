"""Lookup values: exact without noise, better than the ratio with it, and never out of bounds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.errors import InvalidInput
from saibot.estimate.lookup import lookup_values, ratio_values, shrink
from saibot.estimate.tree import KeyGroups, smooth
from saibot.sketch import KeyDomain

CARD = {
    "dataset": {"name": "pupils"},
    "features": {"score": {"bounds": [0, 100]}, "kind": {"levels": ["a", "b"]}},
    "keys": {"day": {"column": "day", "domain": {"dates": ["2013-01-25", "2013-02-10"]}, "levels": ["month"]}},
}


def rows(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = pd.date_range("2013-01-25", "2013-02-10").astype(str)[:-1]  # the last day has no rows
    return pd.DataFrame(
        {"day": rng.choice([*days, "1999-09-09"], n), "score": rng.uniform(0, 100, n), "kind": rng.choice(["a", "b"], n)}
    )


def parents_of(sketch) -> list[np.ndarray]:
    assert sketch.header.key is not None and sketch.header.key.parts[0].domain.startswith("dates:")
    from datetime import date

    domain = KeyDomain.of_dates(date(2013, 1, 25), date(2013, 2, 10)).with_levels(sketch.header.key.levels)
    return [domain.parent_index(i + 1) for i in range(len(domain.level_names))]


def tree(children: tuple[int, ...], top: int) -> list[np.ndarray]:
    """Parents of every level, finest first, for `children` below each key (coarsest step first)."""
    steps, size = [], top
    for number in children:
        steps.insert(0, np.repeat(np.arange(size), number))
        size *= number
    return steps


def up(values: np.ndarray, parents: list[np.ndarray]) -> list[np.ndarray]:
    levels = [values]
    for index in parents:
        levels.append(np.bincount(index, levels[-1]))
    return levels


# -------------------------------------------------------------------------------------------- without noise


def test_without_noise_a_value_is_the_mean_of_its_key(sketch_of):
    frame = rows()
    sketch = sketch_of(frame, CARD, "day")
    found = lookup_values(sketch, parents_of(sketch))
    table = sketch.levels[0].values
    filled = table[:, 0] > 0
    filled[-1] = False
    expected = table[:, 1:4] / np.where(filled, table[:, 0], 1)[:, None]
    np.testing.assert_allclose(found.values.T[filled], expected[filled], rtol=0, atol=1e-12)
    by_day = frame.groupby("day").score.mean()
    original = 50 + 50 * found.values[0]
    for day, value in zip(sketch.levels[0].keys[0][filled], original[filled], strict=True):
        assert value == pytest.approx(by_day[day], abs=1e-2)  # the grid of the release
    assert found.reliability[:, :-1].min() == 1 and found.posterior_variance[:, :-1].max() == 0


def test_the_catch_all_and_empty_keys_take_the_prior_mean(sketch_of):
    sketch = sketch_of(rows(), CARD, "day")
    found = lookup_values(sketch)  # without levels
    whole = sketch.levels[0].values[:, 1:4].sum(axis=0) / 400
    np.testing.assert_allclose(found.prior_mean, whole, atol=1e-12)
    np.testing.assert_allclose(found.values[:, -1], whole, atol=1e-12)
    np.testing.assert_allclose(found.values[:, -2], whole, atol=1e-12)
    assert found.counts.sum() == pytest.approx(400)
    assert (found.reliability[:, -1] == 0).all()


def test_an_empty_key_takes_its_parents_mean_where_levels_are_known(sketch_of):
    sketch = sketch_of(rows(), CARD, "day")
    found = lookup_values(sketch, parents_of(sketch))
    month = sketch.levels[1].values
    np.testing.assert_allclose(found.values[:, -2], month[1, 1:4] / month[1, 0], atol=1e-12)


@pytest.mark.parametrize("mechanism,layout", [("joint", "semiring"), ("fpm", "join"), ("fpm-opt", "join")])
def test_every_keyed_layout_can_be_looked_up(sketch_of, mechanism, layout):
    card = CARD | {"keys": {"day": {"column": "day", "domain": {"dates": ["2013-01-25", "2013-02-10"]}}}}
    exact = lookup_values(sketch_of(rows(), card, "day", mechanism=mechanism, layout=layout))
    noisy = lookup_values(sketch_of(rows(), card, "day", mechanism=mechanism, layout=layout, seed=1))
    assert exact.values.shape == noisy.values.shape == (3, 18)
    assert np.isfinite(noisy.values).all() and np.abs(noisy.values).max() <= 1


def test_a_sketch_without_key_is_refused(sketch_of):
    with pytest.raises(InvalidInput, match="no key"):
        lookup_values(sketch_of(rows(), CARD, None))


def test_the_levels_of_another_domain_are_refused(sketch_of):
    sketch = sketch_of(rows(), CARD, "day")
    with pytest.raises(InvalidInput, match="not those of the sketch"):
        lookup_values(sketch, [np.zeros(5, dtype=int)])


def test_with_all_noise_the_values_stay_within_the_public_bounds(sketch_of):
    sketch = sketch_of(rows(), CARD, "day", epsilon="0.001", seed=3)
    found = lookup_values(sketch, parents_of(sketch))
    assert np.isfinite(found.values).all()
    assert found.values[0].min() >= -1 and found.values.max() <= 1
    assert found.values[1:].min() >= 0  # indicators
    assert found.reliability.max() < 0.5


# ------------------------------------------------------------------------------------------------ with noise


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_the_posterior_on_the_tree_is_the_dense_gaussian_posterior(levels):
    rng = np.random.default_rng(levels)
    parents = tree(((), (4,), (3, 4))[levels - 1], 5)
    d = len(parents[0]) if parents else 5
    weight = rng.uniform(0, 3, d)
    spread = [0.3, 0.2, 0.5][:levels]
    rows_at = [np.arange(d)]
    for index in parents:
        rows_at.append(index[rows_at[-1]])
    sizes = [row.max() + 1 for row in rows_at]
    noise = [rng.uniform(0.5, 2, size) for size in sizes]
    readings = [rng.normal(size=size) for size in sizes]
    up_groups = [KeyGroups(index, size) for index, size in zip(parents, sizes[1:], strict=True)]
    found = smooth(
        [reading[None] for reading in readings],
        weight[None],
        [n[None] for n in noise],
        up_groups,
        [np.full((1, 1), t) for t in spread],
    )
    K = sum(t * (row[:, None] == row[None, :]) for t, row in zip(spread, rows_at, strict=True))
    H = np.vstack([weight * (row[None, :] == np.arange(size)[:, None]) for row, size in zip(rows_at, sizes, strict=True)])
    gain = K @ H.T @ np.linalg.inv(H @ K @ H.T + np.diag(np.concatenate(noise)))
    np.testing.assert_allclose(found.mean[0], gain @ np.concatenate(readings), atol=1e-12)
    np.testing.assert_allclose(found.variance[0], np.diag(K - gain @ H @ K), atol=1e-12)
    sums = weight * found.mean[0]
    np.testing.assert_allclose(found.sums[0][0][0], sums, atol=1e-12)
    for level in range(levels):
        np.testing.assert_allclose(found.sums[level][0][0], np.bincount(rows_at[level], sums), atol=1e-12)


def mean_errors(
    seed: int, *, sigma: float, per_key: float, skew: float, children: tuple[int, ...], spread: float = 0.09
) -> tuple[float, float]:
    """Mean squared error of shrunk values and of raw ratios, over 400 tables of 120 keys."""
    rng = np.random.default_rng(seed)
    parents = tree(children, 120 // int(np.prod(children, dtype=int)))
    groups = [KeyGroups(index, int(index.max()) + 1) for index in parents]
    levels, tables, d = 1 + len(parents), 400, 120
    z = 0.2 + np.zeros((tables, 1))
    for size, group in zip([int(p.max()) + 1 for p in parents[::-1]] + [d], [None, *groups[::-1]], strict=True):
        z = (z if group is None else z[:, group.index]) + np.sqrt(spread / levels) * rng.normal(size=(tables, size))
    z = np.clip(z, -1, 1)
    counts = np.rint(per_key * np.exp(skew * rng.normal(size=(tables, d)) - skew**2 / 2))
    c, s = [counts], [counts * z]
    for group in groups:
        c, s = [*c, group.sum(c[-1])], [*s, group.sum(s[-1])]
    noise = sigma * np.sqrt(levels)
    c = [level + noise * rng.normal(size=level.shape) for level in c]
    s = [level + noise * rng.normal(size=level.shape) for level in s]
    sigmas = {"count_sigma": [noise] * levels, "sum_sigma": [noise] * levels}
    found = shrink(c, s, rows=counts.sum(axis=1), parents=parents, **sigmas)
    ratio = np.clip(ratio_values(c[0], s[0], prior=found.prior_mean), -1, 1)
    here = counts > 0
    return float(np.mean((found.values - z)[here] ** 2)), float(np.mean((ratio - z)[here] ** 2))


@pytest.mark.parametrize("children", [(), (10,), (5, 6)], ids=["1-level", "2-levels", "3-levels"])
@pytest.mark.parametrize("skew", [0.0, 1.0])
@pytest.mark.parametrize("per_key", [5, 30, 200])
@pytest.mark.parametrize("sigma", [0.3, 2.0, 9.0, 60.0])
def test_shrinkage_beats_the_raw_ratio_at_every_noise_level(sigma, per_key, skew, children):
    """The ratio is even helped: it is clipped to the public bounds."""
    shrunk, raw = mean_errors(7, sigma=sigma, per_key=per_key, skew=skew, children=children)
    assert shrunk < raw


def test_levels_help_most_where_rows_per_key_are_few():
    flat, _ = mean_errors(1, sigma=9.0, per_key=10, skew=0.0, children=())
    levels, _ = mean_errors(1, sigma=9.0, per_key=10, skew=0.0, children=(10,))
    assert levels < 0.85 * flat


def test_a_feature_that_is_all_noise_keeps_to_the_prior_mean():
    rng = np.random.default_rng(5)
    counts = np.full(300, 20.0)
    sums = 0.3 * counts + 9 * rng.normal(size=(50, 300))
    found = shrink(counts + 8 * rng.normal(size=300), sums, count_sigma=8, sum_sigma=9, rows=6000)
    assert np.median(found.spread) < 0.005
    assert np.mean((found.values - 0.3) ** 2) < 0.002  # the ratio's is above 0.2


def test_reliability_and_posterior_variance_tell_the_error_of_the_values():
    rng = np.random.default_rng(6)
    z = 0.1 + 0.3 * rng.normal(size=(40, 300)).clip(-2.5, 2.5)
    counts = rng.poisson(40, 300).astype(float)
    sums = counts * z + 9 * rng.normal(size=z.shape)
    found = shrink(counts + 8 * rng.normal(size=300), sums, count_sigma=8, sum_sigma=9, rows=counts.sum())
    assert np.mean((found.values - z) ** 2) == pytest.approx(found.posterior_variance.mean(), rel=0.1)
    share = 1 - np.mean((found.values - z) ** 2) / z.var()
    assert found.reliability.mean() == pytest.approx(share, abs=0.05)
    assert found.spread.mean() == pytest.approx(z.var(), rel=0.1)


def test_rows_of_a_batch_do_not_touch_each_other():
    rng = np.random.default_rng(8)
    counts, sums = rng.poisson(20, (6, 80)) + 0.0, 10 * rng.normal(size=(6, 80))
    rows_in = counts.sum(axis=1)
    together = shrink(counts, sums, count_sigma=3, sum_sigma=4, rows=rows_in)
    for i in range(6):
        alone = shrink(counts[i], sums[i : i + 1], count_sigma=3, sum_sigma=4, rows=rows_in[i])
        # Iterations stop when all rows have converged, so a row may get a round or two more than alone.
        np.testing.assert_allclose(alone.values[0], together.values[i], atol=2e-4)
        np.testing.assert_allclose(alone.counts, together.counts[i], atol=2e-2)


def test_shrunk_counts_are_positive_and_add_up():
    rng = np.random.default_rng(9)
    parents = tree((8,), 10)
    counts = rng.poisson(3, 80).astype(float)
    c = [level + 9 * rng.normal(size=len(level)) for level in up(counts, parents)]
    found = shrink(
        c, [np.zeros((1, 80)), np.zeros((1, 10))], count_sigma=[9, 9], sum_sigma=[9, 9], rows=240, parents=parents
    )
    assert found.counts.min() >= 0 and found.counts.sum() == pytest.approx(240)
    assert np.mean((found.counts - counts) ** 2) < 0.5 * np.mean((c[0] - counts) ** 2)


@given(
    st.floats(0, 1e150),
    st.floats(0, 1e150),
    st.floats(0, 1e9),
    st.integers(1, 40),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_no_noise_however_large_gives_a_value_out_of_bounds(count_sigma, sum_sigma, n, d, levels, seed):
    rng = np.random.default_rng(seed)
    counts, sums = [rng.poisson(5, d) * 1.0], [rng.normal(size=(2, d))]
    parents = []
    if levels:
        parents = [rng.integers(0, 3, d)]
        counts.append(np.bincount(parents[0], counts[0], 3))
        sums.append(np.array([np.bincount(parents[0], row, 3) for row in sums[0]]))
    sigmas = {"count_sigma": [count_sigma] * len(counts), "sum_sigma": [sum_sigma] * len(counts)}
    c = [level + count_sigma * rng.normal(size=level.shape) for level in counts]
    s = [level + sum_sigma * rng.normal(size=level.shape) for level in sums]
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = shrink(c, s, rows=n, parents=parents, **sigmas)
    for array in (found.values, found.reliability, found.posterior_variance, found.spread, found.counts):
        assert np.isfinite(array).all()
    assert np.abs(found.values).max() <= 1 and found.posterior_variance.min() >= 0
    assert 0 <= found.reliability.min() <= found.reliability.max() <= 1


def test_ten_thousand_keys_in_three_levels_are_not_a_loop_over_keys():
    """A hundred times the keys may not take anything like a hundred times as long: ratios in one run."""
    import time

    def seconds(groups: int) -> float:
        rng = np.random.default_rng(0)
        parents = tree((10, 20), groups)
        c, s = up(rng.poisson(10, 200 * groups) + 0.0, parents), up(rng.normal(size=200 * groups) * 3, parents)
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            shrink(c, [x[None] for x in s], count_sigma=[8] * 3, sum_sigma=[9] * 3, rows=100_000, parents=parents)
            best = min(best, time.perf_counter() - start)
        return best

    assert seconds(50) < 40 * seconds(1)
