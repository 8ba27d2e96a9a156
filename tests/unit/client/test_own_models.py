"""Any model and any target: what explains its residuals is found, what helps a linear model only is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression

from saibot.client import Corpus, Domains, SearchOptions, find_augmentation, local_request
from saibot.client.judging import RequestRows
from saibot.client.own_model import own_model
from saibot.client.privatizing import release_request
from saibot.client.working import RowModelling
from saibot.errors import InvalidInput, InvalidTable
from saibot.privatize import Card
from saibot.search.scoring import score
from saibot.search.state import State

from .conftest import card, provider_rows

CPU = SearchOptions(engine="threads", unions=False)
PLACES = tuple(f"p{i:03d}" for i in range(150))


@pytest.fixture
def world(sketch_of, tmp_path) -> tuple[Corpus, dict[str, np.ndarray]]:
    """Three providers by place: one has news, one has the square of what the requester knows, one has chance."""
    rng = np.random.default_rng(3)
    size = rng.choice(np.linspace(-1.7, 1.7, 9), len(PLACES))  # what many places share, trees learn of other places
    truth = {"size": size, "news": rng.normal(0, 1, len(PLACES)), "square": size**2, "chance": rng.normal(0, 1, len(PLACES))}
    corpus = Corpus.create(tmp_path / "places")
    keys = {"place": {"column": "place", "domain": {"values": list(PLACES), "id": "places"}}}
    for name in ("news", "square", "chance"):
        levels = dict(zip(PLACES, 40 + 8 * truth[name], strict=True))
        assert corpus.add([sketch_of(provider_rows(levels, "place"), card(name, keys=keys), "place")]) == []
    return corpus, truth


def asked(truth: dict[str, np.ndarray], linear: np.ndarray, family: str) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    place = np.repeat(np.arange(len(PLACES)), 20)
    eta = linear[place]
    draws = {
        "gaussian": lambda: rng.normal(eta, 1),
        "binomial": lambda: rng.random(len(eta)) < 1 / (1 + np.exp(-eta)),
        "poisson": lambda: rng.poisson(np.exp(eta)),
    }
    return pd.DataFrame({"place": np.array(PLACES)[place], "size": truth["size"][place], "y": draws[family]().astype(float)})


def test_a_candidate_that_only_helps_a_linear_model_is_not_taken_for_boosted_trees(world):
    corpus, truth = world
    table = asked(truth, 0.8 * truth["size"] ** 2 + 0.5 * truth["news"], "gaussian")
    question = {"target": "y", "features": ["size"], "keys": ["place"], "domains": Domains(corpus)}
    line = find_augmentation(local_request(table, **question), corpus, CPU)
    trees = find_augmentation(local_request(table, model="gbm", **question), corpus, CPU)
    assert {"square.level", "news.level"} <= {*line.columns}
    assert trees.columns == ("news.level",)
    assert trees.worth.model == "gbm" and trees.worth.new.gain.clear
    assert trees.worth.new.own.score > line.worth.new.own.score + 0.2, "trees need no column for a curve"


def test_any_estimator_is_refitted_and_predicts(world):
    corpus, truth = world
    table = asked(truth, 0.8 * truth["size"] ** 2 + 0.9 * truth["news"], "gaussian")
    model = HistGradientBoostingRegressor(max_iter=40, random_state=0)
    request = local_request(
        table, target="y", features=["size"], keys=["place"], domains=Domains(corpus), model=model, test=table[:400]
    )
    found = find_augmentation(request, corpus, CPU)
    assert found.worth.model == "HistGradientBoostingRegressor" and found.result.model is None
    assert found.path().train_r2.is_monotonic_increasing and found.path().test_r2.notna().all()
    wide = found.augment(table)
    slow = HistGradientBoostingRegressor(max_iter=40, random_state=0).fit(wide[["size", *found.columns]].to_numpy(), table.y)
    predicted = found.model().predict(table)
    assert np.corrcoef(predicted, slow.predict(wide[["size", *found.columns]].to_numpy()))[0, 1] > 0.99


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_a_familys_search_finds_what_its_score_says_and_fits_the_augmented_rows(world, family):
    corpus, truth = world
    table = asked(truth, 0.3 * truth["size"] + 0.5 * truth["news"], family)
    request = local_request(
        table, target="y", features=["size"], keys=["place"], domains=Domains(corpus), family=family, test=table[:600]
    )
    found = find_augmentation(request, corpus, CPU)
    assert found.columns == ("news.level",)
    assert found.worth.measure == "deviance explained" and len(found.worth.calibration) == 10
    first, last = found.path().train_r2.iloc[[0, -1]]
    entry = found.result.ranked[0]
    assert entry.gain == pytest.approx(last - first, rel=0.2), "the score's gain is about that of the refit"
    predicted = found.model().predict(table)
    if family == "binomial":
        wide = found.augment(table)
        X = wide[["size", *found.columns]].to_numpy()
        slow = LogisticRegression(C=1e9, max_iter=5000, tol=1e-10).fit((X - X.mean(0)) / X.std(0), table.y)
        np.testing.assert_allclose(predicted, slow.predict_proba((X - X.mean(0)) / X.std(0))[:, 1], atol=2e-3)
        assert found.worth.new.private.auc > found.worth.new.own.auc + 0.05
        assert found.worth.new.private.log_loss < found.worth.new.own.log_loss
    else:
        assert predicted.mean() == pytest.approx(table.y.mean(), rel=1e-3)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_useless_columns_are_as_rarely_clear_of_chance_as_they_should_be(family):
    """Keys without any effect, 4,000 columns of chance: one in ten is beyond 1.645 errors, one in a hundred beyond 2.576."""
    beyond = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        keys = np.repeat(np.arange(150), 20)
        x = rng.uniform(-1.7, 1.7, 150)[keys]
        y = {
            "gaussian": rng.normal(0.3 * x, 1),
            "binomial": (rng.random(len(x)) < 1 / (1 + np.exp(-0.3 * x))).astype(float),
            "poisson": rng.poisson(np.exp(0.3 * x)).astype(float),
        }[family]
        rows = RequestRows(("x",), x[:, None], y, keys, np.zeros(len(y), bool))
        working = RowModelling(rows, own_model("linear", family), "y", 150).working([])
        base = replace(State.of(working.moments, "y"), scale=working.scale).base(np.arange(150), 150)
        z = rng.normal(0, 1, (400, 150))
        found = score(z @ base.linear, z**2 @ base.square, base, quantile=2.0)
        beyond += list(np.sqrt(found.gain) / found.deviation)
    assert np.mean(np.array(beyond) > 1.645) == pytest.approx(0.10, abs=0.025)
    assert np.mean(np.array(beyond) > 2.576) == pytest.approx(0.01, abs=0.006)


def test_moments_that_nothing_reads_are_refused_before_they_are_paid_for():
    facts = Card.parse(card("mine"))
    with pytest.raises(InvalidInput, match="reads moments beyond order 2"):
        release_request(facts, epsilon="1", delta="1e-6", key="shop", neighbours="replace-one", order=3)


def test_a_target_of_another_kind_and_options_that_do_not_go_with_a_model_are_refused(world):
    corpus, truth = world
    table = asked(truth, truth["news"], "gaussian")
    question = {"target": "y", "keys": ["place"], "domains": Domains(corpus)}
    for family in ("binomial", "poisson"):
        with pytest.raises(InvalidTable, match="holds 0"):
            local_request(table, family=family, **question)
    request = local_request(table, model="gbm", **question)
    with pytest.raises(InvalidInput, match="step by step"):
        find_augmentation(request, corpus, SearchOptions(gain="known"))
