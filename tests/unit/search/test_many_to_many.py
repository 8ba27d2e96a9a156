"""Many-to-many joins in the search: whose rows meet, what is refused, what is told, and what noise passes for a gain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import fdtri
from sklearn.linear_model import LinearRegression

from saibot.errors import InvalidInput
from saibot.estimate.many_to_many import joined
from saibot.estimate.moments import exact_moments
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.search import Corpus, SearchOptions, SearchResult, search
from saibot.search.exhaustive import Exhaustive
from saibot.search.from_sketches import search_request
from saibot.search.pairs import wald_statistic
from saibot.sketch import Sketch
from tests.support.noise import simulated

DAYS = [str(day.date()) for day in pd.date_range("2013-01-01", "2013-02-20")]
PAIRS = SearchOptions(join="many-to-many", engine="threads", steps=3)
UNBIASED = SearchOptions(join="many-to-many-unbiased", engine="threads", steps=3)


@pytest.fixture
def sketch(saibot_home: Path) -> Callable[..., Sketch]:
    """sketch(name, frame, ...): a semi-ring sketch by day, exact but for rounding, or with the noise of a seed."""

    def make(
        name: str, frame: pd.DataFrame, *, seed: int | None = None, domain: dict[str, Any] | None = None, **terms: Any
    ) -> Sketch:
        columns = [column for column in frame if column not in ("day", "month")]
        card = {
            "dataset": {"name": name},
            "budget": {"cap": {"epsilon": "10000000", "delta": "1e-4"}},
            "features": {column: {"bounds": [-4, 4]} for column in columns},
            "keys": {"day": {"column": "day", "domain": domain or {"dates": [DAYS[0], DAYS[-1]]}}},
        }
        budget = Budget("100000" if seed is None else "1", "1e-6")
        options = {"key": "day", "layout": "semiring"} | terms
        request = ReleaseRequest(Card.parse(card), budget, Neighbours.REPLACE_ONE, **options)
        return privatize(frame, request, Ledger(saibot_home), noise=simulated(seed)).sketch

    return make


def corpus_of(folder: Path, *sketches: Sketch) -> Corpus:
    corpus = Corpus.create(folder / "corpus")
    assert not corpus.add(sketches)
    return corpus


def asked(train: Sketch, corpus: Corpus, options: SearchOptions = PAIRS, test: Sketch | None = None) -> SearchResult:
    return search(search_request(train, test, target="y"), corpus, options)


def by_day(rng: np.random.Generator, rows: int, effect: np.ndarray, column: str, spread: float = 0.5) -> pd.DataFrame:
    places = rng.integers(0, len(effect), rows)
    values = np.clip(effect[places] + spread * rng.normal(size=rows), -4, 4)
    return pd.DataFrame({"day": np.array(DAYS)[places], column: values})


def r2(joined: pd.DataFrame, *features: str) -> float:
    X, y = joined[list(features)], joined["y"]
    return float(LinearRegression().fit(X, y).score(X, y))


def test_rows_outside_the_key_domain_meet_nobody(tmp_path, sketch):
    """Both tables have rows of other days: these are one catch-all in a sketch, and no key that two rows share."""
    rng = np.random.default_rng(0)
    effect = rng.normal(size=len(DAYS))
    mine, theirs = by_day(rng, 600, effect, "y"), by_day(rng, 500, effect, "z")
    strange = [
        pd.DataFrame({"day": ["1999-01-01"] * 300, name: np.full(300, value)}) for name, value in (("y", 4), ("z", -4))
    ]
    train = sketch("request", pd.concat([mine, strange[0]]))
    found = asked(train, corpus_of(tmp_path, sketch("other", pd.concat([theirs, strange[1]]))))
    assert found.steps[0].train_r2 == pytest.approx(r2(mine.merge(theirs, on="day"), "z"), abs=1e-4)
    assert found.steps[0].found.coverage == pytest.approx(600 / 900, abs=1e-3)


def test_a_provider_by_a_coarser_key_meets_all_rows_of_its_month_and_a_next_step_starts_from_there(tmp_path, sketch):
    rng = np.random.default_rng(1)
    effect, month = rng.normal(size=len(DAYS)), np.array([0 if day < "2013-02" else 1 for day in DAYS])
    mine = by_day(rng, 500, 0.7 * effect + np.where(month, 1.0, -1.0), "y", 0.3)
    daily = by_day(rng, 400, effect, "z", 0.2)
    monthly = pd.DataFrame({"day": np.where(rng.random(200) < 0.5, "2013-01", "2013-02")})
    monthly["w"] = np.where(monthly["day"] == "2013-01", -1.0, 1.0) + 0.1 * rng.normal(size=200)
    months = {"values": ["2013-01", "2013-02"], "id": "months"}
    coarse = sketch("monthly", monthly, domain=months)
    options = SearchOptions(join="many-to-many", engine="threads", steps=2, always_first=True, confidence=0.5)
    found = asked(sketch("request", mine), corpus_of(tmp_path, coarse, sketch("daily", daily)), options)
    gains = {one.dataset: one.gain for one in found.ranked}
    wide = mine.assign(month=mine["day"].str[:7])
    with_month = wide.merge(monthly.rename(columns={"day": "month"}), on="month")
    assert gains["daily"] == pytest.approx(r2(mine.merge(daily, on="day"), "z"), abs=1e-4)
    assert gains["monthly"] == pytest.approx(r2(with_month, "w"), abs=1e-4)
    assert [step.found.dataset for step in found.steps] == ["monthly", "daily"]
    assert found.steps[1].train_r2 == pytest.approx(r2(with_month.merge(daily, on="day"), "w", "z"), abs=1e-4)


def test_the_unbiased_estimate_is_of_the_one_table_and_says_what_it_assumes(tmp_path, sketch):
    """Two columns of one table, and a key that knows nothing of them: the join dilutes what the estimate restores."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=4000)
    y = 0.6 * z + 0.6 * rng.normal(size=4000)
    table = pd.DataFrame({"day": np.array(DAYS)[np.arange(4000) % len(DAYS)], "y": y, "z": z})
    train, corpus = sketch("request", table[["day", "y"]]), corpus_of(tmp_path, sketch("other", table[["day", "z"]]))
    naive, unbiased = (asked(train, corpus, options) for options in (PAIRS, UNBIASED))
    assert naive.ranked[0].gain < 0.05
    assert unbiased.ranked[0].gain == pytest.approx(0.5, abs=0.25)
    assert any("columns of one table" in note for note in unbiased.notes)
    assert not any("columns of one table" in note for note in naive.notes)
    assert unbiased.ranked[0].lower < 0.5 < unbiased.ranked[0].upper


def test_features_of_a_dataset_can_be_taken_together_and_are_judged_on_held_out_rows(tmp_path, sketch):
    rng = np.random.default_rng(3)
    one, two = rng.normal(size=(2, len(DAYS)))
    mine = [by_day(rng, rows, one + two, "y", 0.3) for rows in (600, 300)]
    theirs = by_day(rng, 500, one, "a", 0.2)
    theirs["b"] = two[[DAYS.index(day) for day in theirs["day"]]]
    other = sketch("other", theirs)
    options = SearchOptions(join="many-to-many", engine="threads", steps=1, whole_datasets=True)
    found = asked(sketch("request", mine[0]), corpus_of(tmp_path, other), options, sketch("held-out", mine[1]))
    assert found.candidates == 1 and found.steps[0].found.features == ("a", "b") and found.steps[0].found.feature is None
    train, test = (part.merge(theirs, on="day") for part in mine)
    model = LinearRegression().fit(train[["a", "b"]], train["y"])
    assert found.steps[0].train_r2 == pytest.approx(model.score(train[["a", "b"]], train["y"]), abs=1e-4)
    assert found.steps[0].test_r2 == pytest.approx(model.score(test[["a", "b"]], test["y"]), abs=1e-3)


def test_what_has_no_products_per_key_is_named_and_left_aside_or_refused(tmp_path, sketch):
    rng = np.random.default_rng(4)
    mine, theirs = by_day(rng, 300, np.zeros(len(DAYS)), "y"), by_day(rng, 300, np.zeros(len(DAYS)), "z")
    train, corpus = sketch("request", mine), corpus_of(tmp_path, sketch("other", theirs, layout="lookup"))
    found = asked(train, corpus)
    assert not found.ranked and "no candidate" in found.stopped
    (dropped,) = found.dropped
    assert (dropped.count, dropped.examples) == (1, ("other",)) and "layout semiring" in dropped.reason
    with pytest.raises(InvalidInput, match="products per key"):
        asked(sketch("by-lookup", mine, layout="lookup"), corpus)


def test_what_goes_with_lookup_joins_only_is_refused(tmp_path, sketch):
    rng = np.random.default_rng(5)
    frame = by_day(rng, 100, np.zeros(len(DAYS)), "y")
    request, corpus = search_request(sketch("request", frame), target="y"), corpus_of(tmp_path, sketch("other", frame))
    with pytest.raises(InvalidInput, match="usable gain"):
        search(request, corpus, SearchOptions(join="many-to-many", rank="potential"))
    with pytest.raises(InvalidInput, match="step by step"):
        search(request, corpus, PAIRS, strategy=Exhaustive())
    with pytest.raises(InvalidInput, match="many-to-many-unbiased"):
        SearchOptions(join="outer")  # type: ignore[arg-type]


def test_with_noise_a_useful_table_is_taken_and_useless_ones_seldom_are(tmp_path, sketch):
    rng = np.random.default_rng(6)
    effect, none = rng.normal(size=len(DAYS)), np.zeros(len(DAYS))
    train = sketch("request", by_day(rng, 20_000, effect, "y"), seed=1)
    useless = [sketch(f"useless-{i}", by_day(rng, 5000, none, "z"), seed=i + 2) for i in range(20)]
    corpus = corpus_of(tmp_path, *useless)
    found = asked(train, corpus)
    assert len(found.steps) <= 1 and len(found.ranked) == 20
    corpus.add([sketch("useful", by_day(rng, 20_000, effect, "z"), seed=99)])
    found = asked(train, corpus)
    assert found.steps[0].found.dataset == "useful" and found.steps[0].found.lower > 0.1
    assert 0 < found.steps[0].found.privacy_share <= 1


@pytest.mark.parametrize("estimator", ["naive", "unbiased"])
def test_the_test_of_new_slopes_keeps_its_level_with_few_keys_that_carry_effects(estimator):
    """Both sides vary from key to key, independently: 20 keys, and no relation to be found."""
    rng = np.random.default_rng(7)
    d, n, runs, hits = 20, 400, 600, 0
    for _ in range(runs):
        places, effects = rng.integers(0, d, (2, n)), rng.normal(size=(2, d))
        x, (y, z) = rng.normal(size=n), (effect[place] for effect, place in zip(effects, places, strict=True))
        rows = np.column_stack([x, 0.3 * x + y + rng.normal(size=n)])
        request = exact_moments(("x", "y"), rows, places[0], d)
        whole = joined(request, exact_moments(("z",), (z + rng.normal(size=n))[:, None], places[1], d), estimator=estimator)
        before = request.gram().fit(("x",), "y", ridge=0.0)
        after = whole.gram.fit(("x", "z"), "y", ridge=0.0)
        hits += wald_statistic(whole, before, after, ("z",)) > fdtri(1, d - 3, 0.9)
    assert hits / runs < 0.145  # 10 %, and what chance allows in 600 runs
