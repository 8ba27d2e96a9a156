"""What columns are worth to a requester: its own averages, known and new keys, and one sentence that is right."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

from saibot.client.families import BINOMIAL, GAUSSIAN, POISSON, fit_family
from saibot.client.folds import of_known_keys, of_new_keys
from saibot.client.judging import RequestRows, judge
from saibot.client.own_means import own_means, shrunk_means
from saibot.client.own_model import OwnModel, own_model
from saibot.errors import InvalidInput
from saibot.wire import Worth

KEYS = 120


def rows_of(seed: int, *, effect: float, each: int, held_out_keys: int = 0) -> tuple[RequestRows, np.ndarray]:
    """Rows of every key, whose target is an own feature, the key's effect and chance; and the effects themselves."""
    rng = np.random.default_rng(seed)
    keys = np.repeat(np.arange(KEYS), each)
    effects = rng.normal(0, 1, KEYS)
    training = effects[: KEYS - held_out_keys]
    effects = effect * (effects - training.mean()) / training.std()  # the truth below is of this very sample
    x = rng.normal(0, 1, len(keys))
    y = 0.5 * x + effects[keys] + rng.normal(0, 1, len(keys))
    return RequestRows(("x",), x[:, None], y, keys, keys >= KEYS - held_out_keys), effects


def told(rows: RequestRows, values: np.ndarray, model: OwnModel | None = None) -> Worth:
    return judge(rows, values.reshape(KEYS, -1), np.arange(KEYS), model or OwnModel(), key="day", confidence=0.9)


# ------------------------------------------------------------------------------------------------ the conclusion


@pytest.mark.parametrize("seed", range(5))
def test_columns_that_own_averages_replace_are_useless_for_known_keys_and_useful_for_new_ones(seed):
    rows, effects = rows_of(seed, effect=0.7, each=80)
    noisy = effects + np.random.default_rng(seed + 100).normal(0, 0.4, KEYS)
    worth = told(rows, noisy)
    assert (
        "own averages do as well" in worth.sentence and "for a new day, the private columns take R² from" in worth.sentence
    )
    # The truth: 0.25 of x, 0.49 of the key, 1 of chance; a noisy column keeps 0.49/0.65 of the key's part.
    assert worth.new.own.score == pytest.approx(0.25 / 1.74, abs=0.06)
    assert worth.new.private.score == pytest.approx((0.25 + 0.49 * 0.49 / 0.65) / 1.74, abs=0.06)
    assert worth.known.means.score == pytest.approx(0.74 / 1.74, abs=0.06)
    assert worth.new.means is None, "a key without rows has no own average"


@pytest.mark.parametrize("seed", range(5))
def test_columns_that_say_nothing_of_new_keys_are_useful_for_known_keys_alone(seed):
    """The reverse: a few rows per key tell little, and the provider does not list the keys that are new."""
    rows, effects = rows_of(seed, effect=0.7, each=8, held_out_keys=40)
    values = np.where(np.arange(KEYS) < KEYS - 40, effects, 0.0)
    worth = told(rows, values)
    assert "the private columns add to your own averages" in worth.sentence
    assert "the private columns do not clearly help" in worth.sentence
    assert worth.new.held_out and worth.new.keys == 40


@pytest.mark.parametrize("seed", range(5))
def test_where_a_key_means_nothing_neither_averages_nor_columns_help(seed):
    rows, _ = rows_of(seed, effect=0.0, each=20)
    worth = told(rows, np.random.default_rng(seed).normal(0, 1, KEYS))
    assert "neither your own averages nor the private columns help" in worth.sentence
    assert "the private columns do not clearly help" in worth.sentence


def test_without_private_columns_the_own_averages_are_told_all_the_same():
    rows, _ = rows_of(1, effect=0.7, each=40)
    worth = told(rows, np.zeros((KEYS, 0)))
    assert worth.known.private is None and worth.new.gain is None
    assert "no published column was found to help" in worth.sentence
    assert worth.known.free.clear


def test_one_row_per_key_leaves_no_known_keys_to_judge():
    rows, effects = rows_of(1, effect=0.7, each=1)
    worth = told(rows, effects)
    assert worth.known is None and worth.new is not None
    assert worth.sentence.startswith("For a new day")


def test_the_interval_of_the_gain_holds_the_truth_in_most_runs():
    """The gain on new keys is known: 0.49/1.74 of the loss, less what fitting on 96 keys costs."""
    hits = 0
    for seed in range(30):
        rows, effects = rows_of(seed, effect=0.7, each=10)
        low, high = told(rows, effects).new.gain.interval
        hits += low < 0.49 / 1.74 < high
    assert hits >= 23, f"90 % intervals held the truth {hits} times of 30"


# ------------------------------------------------------------------------------------------------ own averages


def test_own_averages_never_hold_the_rows_own_target():
    """Of a target that is chance alone, an average that held the row itself would explain 1/each of it."""
    rows, _ = rows_of(3, effect=0.0, each=4)
    rng = np.random.default_rng(0)
    column = own_means(rows.own, rows.target, rows.codes, KEYS, np.ones(len(rows.target), bool), GAUSSIAN, rng)
    left = rows.target - 0.5 * rows.own[:, 0]
    naive = np.bincount(rows.codes, left, KEYS)[rows.codes] / 4
    assert np.corrcoef(naive, left)[0, 1] > 0.4, "what a leak would look like"
    assert abs(np.corrcoef(column, left)[0, 1]) < 0.15 or column.std() < 1e-9


def test_averages_are_shrunk_by_as_much_as_their_rows_deserve():
    rng = np.random.default_rng(5)
    keys = np.repeat(np.arange(2000), 4)
    effects = rng.normal(0, 1, 2000)
    residuals = effects[keys] + rng.normal(0, 2, len(keys))
    means = np.bincount(keys, residuals, 2000) / 4
    assert shrunk_means(residuals, keys, 2001)[:2000] == pytest.approx(means * 0.5, rel=0.15)  # 4/(4 + 4)
    assert shrunk_means(residuals, keys, 2001)[2000] == 0


# ------------------------------------------------------------------------------------------------ folds


def test_known_and_new_keys_are_told_apart_in_every_fold():
    rng = np.random.default_rng(2)
    keys = rng.integers(0, 50, 400)
    none = np.zeros(400, bool)
    for fold in of_known_keys(keys, none, rng).folds:
        assert not (fold.fit & fold.judged).any() and set(keys[fold.judged]) <= set(keys[fold.fit])
    whole = of_new_keys(keys, none, rng)
    for fold in whole.folds:
        assert not set(keys[fold.judged]) & set(keys[fold.fit])
    assert whole.judged.all()


# ------------------------------------------------------------------------------------------------ families


@pytest.mark.parametrize(
    ("family", "other"),
    [
        (GAUSSIAN, LinearRegression()),
        (BINOMIAL, LogisticRegression(C=1e8, max_iter=1000, tol=1e-9)),
        (POISSON, PoissonRegressor(alpha=0, max_iter=2000, tol=1e-8)),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_a_familys_regression_is_what_scikit_learn_finds(family, other):
    rng = np.random.default_rng(4)
    X = rng.normal(3, [1, 5], (2000, 2))
    eta = 0.4 * (X[:, 0] - 3) - 0.1 * (X[:, 1] - 3)
    draws = {"gaussian": rng.normal(eta, 1), "binomial": rng.random(2000) < 1 / (1 + np.exp(-eta))}
    y = draws.get(family.name, rng.poisson(np.exp(eta))).astype(float)
    other.fit(X, y)
    expected = np.append(np.ravel(other.intercept_), np.ravel(other.coef_))
    assert fit_family(X, y, family) == pytest.approx(expected, abs=2e-3)


def test_columns_that_split_yes_from_no_exactly_still_have_a_fit():
    x = np.linspace(-1, 1, 60)[:, None]
    theta = fit_family(x, (x[:, 0] > 0).astype(float), BINOMIAL)
    assert np.isfinite(theta).all() and theta[1] > 5


def test_a_model_is_named_or_given():
    assert own_model("gbm", "binomial").family is BINOMIAL
    assert own_model(LogisticRegression()).family is BINOMIAL
    assert own_model(PoissonRegressor(), "poisson").name == "PoissonRegressor"
    for model, family in (("magic", None), (object(), None), (LogisticRegression(), "poisson"), ("linear", "gamma")):
        with pytest.raises(InvalidInput):
            own_model(model, family)
