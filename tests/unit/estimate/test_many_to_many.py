"""Many-to-many joins: exactly the materialised join, or, unbiased, the one table that both sides come from."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from saibot.errors import InvalidInput
from saibot.estimate.many_to_many import join_gram, joined, paper_weights
from saibot.estimate.moments import exact_moments


def one_table(
    rng: np.random.Generator, n: int, d: int, *, skewed: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (x, y) with slope 0.6, and a key that knows nothing of them."""
    if skewed:
        share = 1 / np.arange(1, d + 1)
        keys = rng.choice(d, n, p=share / share.sum())
    else:
        keys = np.arange(n) % d
    x = 1 + rng.normal(size=n)
    return keys, x, 0.5 + 0.6 * x + 0.5 * rng.normal(size=n)


def slope_error(rng: np.random.Generator, n: int, d: int, estimator: str, *, skewed: bool = False) -> float:
    keys, x, y = one_table(rng, n, d, skewed=skewed)
    left, right = exact_moments(("x",), x[:, None], keys, d), exact_moments(("y",), y[:, None], keys, d)
    fit = join_gram(left, right, estimator=estimator).fit(("x",), "y", ridge=0.0)
    return abs(float(fit.coefficients[0]) - float(np.polyfit(x, y, 1)[0]))


def median_error(seed: int, n: int, d: int, estimator: str, *, runs: int = 60, skewed: bool = False) -> float:
    rng = np.random.default_rng(seed)
    return float(np.median([slope_error(rng, n, d, estimator, skewed=skewed) for _ in range(runs)]))


@pytest.mark.parametrize("offset,scale", [(0.0, 1.0), (2000.0, 1.0), (0.0, 1e6)])
def test_the_naive_join_equals_the_materialised_join(offset, scale):
    rng = np.random.default_rng(0)
    k1, k2 = rng.integers(0, 7, 60), rng.integers(0, 8, 50)
    X, Z = rng.normal(size=(60, 2)) * [scale, 1] + offset, rng.normal(size=(50, 2)) + offset
    pairs = [(i, j) for i in range(60) for j in range(50) if k1[i] == k2[j]]
    rows = np.array([[1, *X[i], *Z[j]] for i, j in pairs])
    gram = join_gram(exact_moments(("x", "y"), X, k1, 8), exact_moments(("a", "x"), Z, k2, 8))
    assert gram.features == ("x", "y", "a", "x.2")
    np.testing.assert_allclose(gram.matrix, rows.T @ rows, rtol=1e-12, atol=1e-9)
    fit = gram.fit(("x", "a", "x.2"), "y", ridge=0.0)
    rows = rows.astype(np.longdouble)
    centred = rows[:, [1, 3, 4, 2]] - rows[:, [1, 3, 4, 2]].mean(axis=0)
    centred = (centred / centred.std(axis=0)).astype(float)
    theta, residual, *_ = np.linalg.lstsq(centred[:, :3], centred[:, 3], rcond=None)
    assert fit.r2 == pytest.approx(1 - residual[0] / len(rows), abs=1e-8)
    unit = rows[:, [1, 3, 4, 2]].std(axis=0).astype(float)
    np.testing.assert_allclose(fit.coefficients, theta * unit[3] / unit[:3], rtol=1e-6)


def test_joins_and_unions_together_equal_their_materialisation():
    """(A union B) joined with C joined with D, all on one key."""
    rng = np.random.default_rng(1)
    sizes = {"A": 12, "B": 9, "C": 10, "D": 8}
    keys = {name: rng.integers(0, 4, n) for name, n in sizes.items()}
    data = {name: rng.normal(size=(n, 1)) for name, n in sizes.items()}
    sides = {
        name: exact_moments((feature,), data[name], keys[name], 4)
        for name, feature in (("A", "x"), ("B", "x"), ("C", "y"), ("D", "z"))
    }
    gram = join_gram(sides["A"] + sides["B"], sides["C"], sides["D"])
    x, kx = np.concatenate([data["A"], data["B"]])[:, 0], np.concatenate([keys["A"], keys["B"]])
    rows = np.array(
        [
            [1, x[i], data["C"][j, 0], data["D"][k, 0]]
            for i in range(21)
            for j in range(10)
            for k in range(8)
            if kx[i] == keys["C"][j] == keys["D"][k]
        ]
    )
    np.testing.assert_allclose(gram.matrix, rows.T @ rows, rtol=1e-12, atol=1e-12)


def test_a_chain_over_two_keys_equals_its_materialisation():
    """Left by j, a middle table by (j, l), right by l: each side is looked up for the middle's keys."""
    rng = np.random.default_rng(2)
    places = {name: rng.integers(0, size, n) for name, size, n in (("left", 3, 15), ("right", 4, 16))}
    data = {name: rng.normal(size=(n, 1)) for name, n in (("left", 15), ("right", 16), ("middle", 20))}
    j, k = rng.integers(0, 3, 20), rng.integers(0, 4, 20)
    left = exact_moments(("x",), data["left"], places["left"], 3)
    right = exact_moments(("z",), data["right"], places["right"], 4)
    middle = exact_moments(("y",), data["middle"], 4 * j + k, 12)
    gram = (left.at(np.arange(12) // 4) * middle * right.at(np.arange(12) % 4)).gram()
    rows = np.array(
        [
            [1, data["left"][a, 0], data["middle"][b, 0], data["right"][c, 0]]
            for a in range(15)
            for b in range(20)
            for c in range(16)
            if places["left"][a] == j[b] and places["right"][c] == k[b]
        ]
    )
    assert gram.features == ("x", "y", "z")
    np.testing.assert_allclose(gram.matrix, rows.T @ rows, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("estimator", ["naive", "unbiased"])
def test_what_keys_add_is_the_scatter_of_the_whole(estimator):
    rng = np.random.default_rng(11)
    keys, x, y = one_table(rng, 300, 10, skewed=True)
    left, right = exact_moments(("x",), x[:, None], keys, 10), exact_moments(("y",), y[:, None], keys, 10)
    found = joined(left, right, estimator=estimator)
    matrix = found.gram.matrix
    whole = matrix[1:, 1:] - np.outer(matrix[0, 1:], matrix[0, 1:]) / matrix[0, 0]
    np.testing.assert_allclose(found.scatter.sum(axis=0), whole, rtol=1e-9, atol=1e-9)


def test_the_unbiased_error_falls_with_the_number_of_keys_and_the_naive_does_not():
    """Fig. 12, left: n = 10,000 rows and 10 to 200 keys."""
    unbiased = [median_error(3, 10_000, d, "unbiased") for d in (10, 50, 100, 200)]
    naive = [median_error(3, 10_000, d, "naive", runs=10) for d in (10, 50, 100, 200)]
    assert all(later < earlier for earlier, later in pairwise(unbiased))
    assert unbiased[-1] < 0.4 * unbiased[0]
    assert min(naive) > 0.9 * max(naive) and min(naive) > 0.5


def test_by_rows_both_are_exact_at_one_row_per_key_and_then_part():
    """Fig. 12, right: 100 keys and 100 to 10,000 rows."""
    assert median_error(4, 100, 100, "naive", runs=5) < 1e-9
    assert median_error(4, 100, 100, "unbiased", runs=5) < 1e-9
    for n in (1000, 5000, 10_000):
        assert median_error(4, n, 100, "unbiased", runs=40) < 0.15
        assert median_error(4, n, 100, "naive", runs=10) > 0.5


def test_the_estimator_is_unbiased_also_for_skewed_keys_where_the_papers_form_is_not():
    rng = np.random.default_rng(5)
    moments: dict[str, list[float]] = {"unbiased": [], "paper": []}
    for _ in range(3000):
        keys, x, y = one_table(rng, 200, 12, skewed=True)
        left, right = exact_moments(("x",), x[:, None], keys, 12), exact_moments(("y",), y[:, None], keys, 12)
        for name, found in moments.items():
            found.append(join_gram(left, right, estimator=name).matrix[1, 2] / 200)
    truth = 0.6 * 2 + 0.5  # E[xy] = 0.6 E[x^2] + 0.5 E[x]
    error = np.std(moments["unbiased"]) / np.sqrt(3000)
    assert abs(np.mean(moments["unbiased"]) - truth) < 4 * error
    assert abs(np.mean(moments["paper"]) - truth) > 4 * error
    assert median_error(6, 5000, 100, "unbiased", skewed=True) < 0.5 * median_error(6, 5000, 100, "paper", skewed=True)


def test_for_equal_keys_the_estimator_is_the_papers():
    assert paper_weights(rows=1000, keys=20) == pytest.approx((999 / 19, -980 / 19))
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(2, 1000, 1)) + 3
    sides = exact_moments(("x",), x, np.arange(1000) % 20, 20), exact_moments(("y",), y, np.arange(1000) % 20, 20)
    own, papers = (join_gram(*sides, estimator=name).matrix for name in ("unbiased", "paper"))
    np.testing.assert_allclose(own, papers, rtol=1e-9)


def test_more_than_two_projections_are_estimated_pair_by_pair():
    rng = np.random.default_rng(7)
    n, d = 20_000, 500
    keys = np.arange(n) % d
    rows = rng.multivariate_normal([0, 0, 0], [[1, 0.5, 0.3], [0.5, 1, 0.4], [0.3, 0.4, 1]], n)
    sides = [exact_moments((name,), rows[:, i : i + 1], keys, d) for i, name in enumerate("abc")]
    gram = join_gram(*sides, estimator="unbiased")
    np.testing.assert_allclose(gram.matrix[1:, 1:] / n, np.cov(rows.T), atol=0.2)
    assert gram.count == n


def test_stated_noise_is_the_noise(noisy):
    """Standard deviations of naive and unbiased moments from noisy sides, against 400 draws."""
    rng = np.random.default_rng(8)
    keys, x, y = one_table(rng, 3000, 40)
    left, right = exact_moments(("x",), x[:, None], keys, 40), exact_moments(("y",), y[:, None], keys, 40)

    def draw(side):
        moved = noisy(side, rng, counts=2.0, sums=3.0, products=0.0)
        products = side.key_products + 4 * rng.normal(size=(40, 1, 1))
        return type(side)(**{**moved.__dict__, "key_products": products, "key_product_noise": np.full((1, 1), 4.0)})

    for estimator in ("naive", "unbiased"):
        grams = [join_gram(draw(left), draw(right), estimator=estimator) for _ in range(400)]
        measured = np.std([gram.matrix for gram in grams], axis=0)
        stated = np.median([gram.noise for gram in grams], axis=0)
        entries = [(0, 0), (0, 1), (1, 1), (1, 2)] if estimator == "naive" else [(1, 2)]
        for entry in entries:
            assert stated[entry] == pytest.approx(measured[entry], rel=0.25), (estimator, entry)


def test_what_cannot_be_joined_is_refused_with_a_hint(noisy):
    rng = np.random.default_rng(9)
    keys, x, y = one_table(rng, 100, 10)
    left, right = exact_moments(("x",), x[:, None], keys, 10), exact_moments(("y",), y[:, None], keys % 5, 5)
    with pytest.raises(InvalidInput, match="one key domain"):
        join_gram(left, right)
    with pytest.raises(InvalidInput, match="products per key"):
        join_gram(left, noisy(left, rng, counts=1, sums=1, products=1))
    with pytest.raises(InvalidInput, match="two tables"):
        join_gram(left)
    with pytest.raises(InvalidInput, match="two keys"):
        paper_weights(rows=10, keys=1)


@pytest.mark.parametrize("estimator", ["naive", "unbiased", "paper"])
@pytest.mark.parametrize("size", [10.0, 1e6, 1e40])
def test_huge_noise_never_gives_r2_above_1(noisy, estimator, size):
    rng = np.random.default_rng(10)
    keys, x, y = one_table(rng, 300, 10)
    left, right = exact_moments(("x",), x[:, None], keys, 10), exact_moments(("y",), y[:, None], keys, 10)
    for _ in range(30):
        sides = []
        for side in (left, right):
            moved = noisy(side, rng, counts=size, sums=size, products=size)
            keyed = side.key_products + size * rng.normal(size=(10, 1, 1))
            sides.append(type(side)(**{**moved.__dict__, "key_products": keyed, "key_product_noise": np.full((1, 1), size)}))
        gram = join_gram(*sides, estimator=estimator)
        assert np.isfinite(gram.matrix).all() and np.isfinite(gram.noise).all()
        fit = gram.fit(("x",), "y")
        assert np.isfinite(fit.r2) and 0 <= fit.r2 <= 1
