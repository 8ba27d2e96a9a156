"""All features of a dataset as one candidate: scored jointly, taken in one step."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from saibot.estimate.moments import exact_moments
from saibot.search import Corpus, RequestKey, SearchOptions, SearchRequest, search
from saibot.search.engine import Engine
from saibot.search.exhaustive import Exhaustive
from saibot.search.greedy import first_states
from saibot.search.key_maps import view_id
from saibot.search.shard import ShardRows
from saibot.sketch import KeyDomain

from .conftest import ExactCorpus

D = 50
DOMAIN = KeyDomain.of("keys", [f"k{i}" for i in range(D)])
KEY = RequestKey.product([("k", DOMAIN)])
WHOLE = SearchOptions(engine="threads", whole_datasets=True, unions=False)


def datasets(tmp_path, tables: list[np.ndarray]) -> Corpus:
    """One dataset for every array (features, keys)."""
    sizes = [len(table) for table in tables]
    owner = np.repeat(np.arange(len(tables)), sizes)
    ones = np.ones(len(owner))
    features = [f"f{i}" for size in sizes for i in range(size)]
    rows = ShardRows(
        {
            "digest": np.array([f"{i:064x}" for i in owner], object),
            "dataset": np.array([f"d{i}" for i in owner], object),
            "feature": np.array(features, object),
            "unit": np.full(len(owner), "", object),
        },
        {"mean": 0 * ones, "spread": ones, "reliability": ones, "offset": 0 * ones, "scale": ones, "rows": ones},
        np.column_stack([np.vstack(tables), np.zeros(len(owner))]),
    )
    corpus = ExactCorpus.create(tmp_path / f"c{len(list(tmp_path.iterdir()))}")
    corpus.add_rows(view_id([DOMAIN.keys_digest]), rows)
    return corpus


def request(rng: np.random.Generator, effect: np.ndarray, rows: int = 2000, key_effect: float = 0.0):
    keys = rng.integers(0, D, rows)
    x = rng.normal(size=rows)
    y = 0.3 * x + (effect + key_effect * rng.normal(size=D))[keys] + rng.normal(size=rows)
    return keys, x, y, SearchRequest(exact_moments(("x", "y"), np.column_stack([x, y]), keys, D + 1), None, "y", KEY)


def test_joint_gains_equal_scikit_learn_on_the_joined_table(tmp_path):
    rng = np.random.default_rng(1)
    tables = [rng.normal(size=(size, D)) for size in (1, 3, 2, 1, 5)]
    keys, x, y, asked = request(rng, tables[1].sum(axis=0) + tables[4][0])
    engine = Engine(datasets(tmp_path, tables), asked, WHOLE)
    state, _ = first_states(asked)
    board = engine.board(state, quantile=2.0)
    assert len(engine) == 5 and [len(engine.group(i)) for i in range(5)] == [1, 3, 2, 1, 5]
    for number, table in enumerate(tables):
        joined = np.column_stack([x, table[:, keys].T])
        expected = LinearRegression().fit(joined, y).score(joined, y)
        assert state.r2() + board.gain[number] == pytest.approx(expected, abs=1e-8)


def test_with_one_feature_each_whole_datasets_score_as_features_do(tmp_path):
    rng = np.random.default_rng(2)
    tables = [rng.normal(size=(1, D)) for _ in range(8)]
    _, _, _, asked = request(rng, tables[0][0])
    corpus = datasets(tmp_path, tables)
    state, _ = first_states(asked)
    whole = Engine(corpus, asked, WHOLE).board(state, quantile=2.0)
    single = Engine(corpus, asked, SearchOptions(engine="threads")).board(state, quantile=2.0)
    for name in ("gain", "lower", "deviation"):
        np.testing.assert_allclose(getattr(whole, name), getattr(single, name), atol=1e-10)
    np.testing.assert_allclose(whole.wald, single.gain / single.deviation**2, rtol=1e-6)


def test_a_dataset_whose_features_help_only_together_is_one_step(tmp_path):
    rng = np.random.default_rng(3)
    hidden, mask = rng.normal(size=D), 4 * rng.normal(size=D)
    together = np.vstack([hidden + mask, mask])  # each by itself is mostly mask
    tables = [together, *(rng.normal(size=(2, D)) for _ in range(10)), 0.5 * hidden[None, :] + rng.normal(size=(1, D))]
    _, _, _, asked = request(rng, hidden)
    corpus = datasets(tmp_path, tables)
    (step, *_) = search(asked, corpus, WHOLE).steps
    assert step.found.dataset == "d0" and step.found.features == ("f0", "f1") and step.found.feature is None
    assert step.columns == ("d0.f0", "d0.f1") and step.values.shape == (2, D + 1)
    assert step.found.lower < step.found.gain < step.found.upper
    one_by_one = search(asked, corpus, SearchOptions(engine="threads", unions=False)).steps
    assert all(other.found.dataset != "d0" for other in one_by_one[:1])
    (tried, *_) = search(
        asked, corpus, SearchOptions(engine="threads", steps=1, whole_datasets=True), strategy=Exhaustive()
    ).steps
    assert tried.found.features == ("f0", "f1")


def test_useless_datasets_of_many_features_are_seldom_taken(tmp_path):
    """Four features each; a rule for one feature would take four chances at luck for one."""
    rng = np.random.default_rng(4)
    taken = []
    for _ in range(60):
        corpus = datasets(tmp_path, [rng.normal(size=(4, D)) for _ in range(20)])
        _, _, _, asked = request(rng, np.zeros(D), key_effect=0.7)
        engine = Engine(corpus, asked, WHOLE)
        board = engine.board(first_states(asked)[0], quantile=2.0)
        taken.append(bool(board.clear(np.array([np.argmax(board.wald)]), engine.looks.levels(0.1))[0]))
    assert np.mean(taken) <= 0.1 + 0.12  # three standard errors


def test_features_that_repeat_each_other_do_not_break_it(tmp_path):
    rng = np.random.default_rng(5)
    column = rng.normal(size=D)
    _, _, _, asked = request(rng, column)
    found = search(asked, datasets(tmp_path, [np.vstack([column, column, 0 * column])]), WHOLE)
    single = search(asked, datasets(tmp_path, [column[None, :]]), WHOLE)
    assert found.steps[0].train_r2 == pytest.approx(single.steps[0].train_r2, abs=1e-6)
    assert found.steps[0].found.gain == pytest.approx(single.steps[0].found.gain, abs=1e-6)
