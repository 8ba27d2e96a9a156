"""Scores from statistics alone equal scikit-learn on the table that was never built, to 1e-8."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from saibot.estimate.moments import exact_moments
from saibot.search import Corpus, RequestKey, SearchOptions, SearchRequest
from saibot.search.engine import Engine
from saibot.search.greedy import first_states
from saibot.search.state import State
from saibot.sketch import KeyDomain

D, N = 30, 12
DOMAIN = KeyDomain.of("keys", [f"k{i}" for i in range(D)])
TRANSFORMS = [(0.0, 1.0), (2000.0, 1.0), (0.0, 1e6), (2000.0, 1e-6)]


def request_table(rng: np.random.Generator, offset: float, scale: float, n: int = 800):
    keys = rng.integers(0, D, n)
    hidden = rng.normal(size=D)
    x = rng.normal(size=n)
    y = 0.4 * x + hidden[keys] + 0.5 * rng.normal(size=n)
    values = rng.normal(size=(N, D))
    values[0] = hidden + 0.3 * rng.normal(size=D)
    return keys, scale * (x + offset), scale * (y + offset), values


def centred_moments(names: tuple[str, ...], table: np.ndarray, keys: np.ndarray, size: int = D + 1):
    """What a local request does: moments around the columns' means."""
    return exact_moments(names, table - table.mean(axis=0), keys, size)


def engine_for(exact_corpus, moments, values, test=None):
    corpus = exact_corpus(DOMAIN, values)
    request = SearchRequest(moments, test, "y", RequestKey.product([("k", DOMAIN)]))
    return Engine(corpus, request, SearchOptions(engine="threads")), request


@pytest.mark.parametrize(("offset", "scale"), TRANSFORMS)
def test_a_lookup_joins_r2_is_that_of_the_joined_table(exact_corpus, offset, scale):
    rng = np.random.default_rng(1)
    keys, x, y, values = request_table(rng, offset, scale)
    engine, request = engine_for(exact_corpus, centred_moments(("x", "y"), np.column_stack([x, y]), keys), values)
    state, _ = first_states(request)
    found = state.r2() + engine.board(state, quantile=2.0).gain
    for candidate in range(N):
        joined = np.column_stack([x, values[candidate][keys]])
        expected = LinearRegression(tol=1e-13).fit(joined, y).score(joined, y)
        assert found[candidate] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("offset", "scale"), TRANSFORMS)
def test_from_a_file_which_holds_float32_the_same_is_true_to_a_millionth(exact_corpus, offset, scale):
    """Values are rounded by 6e-8 of themselves, and products are summed in float32 over 1024 keys at most."""
    rng = np.random.default_rng(1)
    keys, x, y, values = request_table(rng, offset, scale)
    exact, request = engine_for(exact_corpus, centred_moments(("x", "y"), np.column_stack([x, y]), keys), values)
    rounded = Engine(Corpus(exact.corpus.folder), request, SearchOptions(engine="threads"))
    assert rounded.candidate(0).shard.values.dtype == np.float32
    state, _ = first_states(request)
    found, expected = (engine.board(state, quantile=2.0) for engine in (rounded, exact))
    for name in ("gain", "lower", "deviation", "coefficient"):  # of the largest: one near 0 is a difference of large sums
        close = 1e-6 * np.abs(getattr(expected, name)).max()
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=close)
    joined = np.column_stack([x, values[0][keys]])
    r2 = LinearRegression(tol=1e-13).fit(joined, y).score(joined, y)
    assert state.r2() + found.gain[0] == pytest.approx(r2, rel=1e-6)


@pytest.mark.parametrize(("offset", "scale"), TRANSFORMS)
def test_several_lookups_one_after_the_other_equal_the_joined_table(exact_corpus, offset, scale):
    rng = np.random.default_rng(2)
    keys, x, y, values = request_table(rng, offset, scale)
    engine, request = engine_for(exact_corpus, centred_moments(("x", "y"), np.column_stack([x, y]), keys), values)
    state, _ = first_states(request)
    taken = [x]
    for chosen in (3, 5, 0):
        column = engine.candidate(chosen).values()
        state = state.with_lookup(f"z{chosen}", column, centre=state.centre_of(column))
        taken.append(values[chosen][keys])
        joined = np.column_stack(taken)
        assert state.r2() == pytest.approx(LinearRegression(tol=1e-13).fit(joined, y).score(joined, y), abs=1e-8)
        gains = engine.board(state, quantile=2.0).gain
        for candidate in (1, 7):
            wider = np.column_stack([*taken, values[candidate][keys]])
            expected = LinearRegression(tol=1e-13).fit(wider, y).score(wider, y)
            assert state.r2() + gains[candidate] == pytest.approx(expected, abs=1e-8)


def test_the_test_tables_r2_is_that_of_the_model_fitted_on_the_training_table(exact_corpus):
    rng = np.random.default_rng(3)
    keys, x, y, values = request_table(rng, 5.0, 2.0)
    cut = len(x) // 2
    table = np.column_stack([x, y])
    origin = table[:cut].mean(axis=0)
    train = exact_moments(("x", "y"), table[:cut] - origin, keys[:cut], D + 1)
    test = exact_moments(("x", "y"), table[cut:] - origin, keys[cut:], D + 1)
    engine, request = engine_for(exact_corpus, train, values, test)
    state, held_out = first_states(request)
    assert held_out is not None
    column = engine.candidate(0).values()
    centre = state.centre_of(column)
    state, held_out = state.with_lookup("z", column, centre=centre), held_out.with_lookup("z", column, centre=centre)
    joined = np.column_stack([x, values[0][keys]])
    model = LinearRegression(tol=1e-13).fit(joined[:cut], y[:cut])
    assert held_out.r2_of(state) == pytest.approx(model.score(joined[cut:], y[cut:]), abs=1e-8)


@pytest.mark.parametrize(("offset", "scale"), TRANSFORMS)
def test_a_union_followed_by_lookups_equals_the_stacked_and_joined_table(exact_corpus, offset, scale):
    """The mixed plan: rows of another table, then two columns looked up, judged on held-out rows."""
    rng = np.random.default_rng(6)
    keys, x, y, values = request_table(rng, offset, scale, n=900)
    table = np.column_stack([x, y])
    mean, parts = table[:300].mean(axis=0), (slice(0, 300), slice(300, 600), slice(600, 900))
    own, other, held = (exact_moments(("x", "y"), table[p] - mean, keys[p], D + 1) for p in parts)
    engine, request = engine_for(exact_corpus, own, values, held)
    _, test = first_states(request)
    state = State.of(own + other, "y")
    columns = [x]
    for chosen in (0, 4):
        column = engine.candidate(chosen).values()
        state = state.with_lookup(f"z{chosen}", column, centre=state.centre_of(column))
        test = test.with_lookup(f"z{chosen}", column, centre=test.centre_of(column))
        columns.append(values[chosen][keys])
    joined = np.column_stack(columns)
    model = LinearRegression(tol=1e-13).fit(joined[:600], y[:600])
    assert state.r2() == pytest.approx(model.score(joined[:600], y[:600]), abs=1e-8)
    assert test.r2_of(state) == pytest.approx(model.score(joined[600:], y[600:]), abs=1e-8)


def test_the_compiled_the_numpy_and_the_float32_sweep_agree(monkeypatch):
    from saibot.search import sweep as module

    rng = np.random.default_rng(5)
    values = rng.normal(size=(1037, 77))
    linear, square = rng.normal(size=(77, 6)), rng.normal(size=(77, 2)) ** 2
    compiled = module.sweep(values, linear, square)
    single = module.sweep(values.astype(np.float32), linear, square)
    monkeypatch.setattr(module, "_kernel", lambda: (module._in_numpy, lambda columns: columns))
    plain = module.sweep(values, linear, square)
    for fast, slow, rough in zip(compiled, plain, single, strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(rough, slow, rtol=1e-3, atol=1e-3)


def test_a_feature_without_finite_units_is_no_candidate(exact_corpus):
    rng = np.random.default_rng(9)
    keys, x, y, values = request_table(rng, 0.0, 1.0)
    corpus = exact_corpus(DOMAIN, values)
    (id,) = corpus.key_ids
    (shard,) = corpus.shards(id)
    for row, (name, number) in enumerate([("scale", 0.0), ("scale", np.inf), ("offset", np.inf), ("mean", np.nan)]):
        column = shard.numbers[name].copy()
        column[row] = number
        shard.numbers[name] = column
    moments = centred_moments(("x", "y"), np.column_stack([x, y]), keys)
    request = SearchRequest(moments, None, "y", RequestKey.product([("k", DOMAIN)]))
    engine = Engine(corpus, request, SearchOptions(engine="threads"))
    assert [engine.candidate(i).dataset for i in range(len(engine))] == [f"d{i}" for i in range(4, N)]
