"""The gain on keys that training never saw: as leaving keys out finds it, and what the ranking goes by."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.client import Domains, SearchOptions, find_augmentation, local_request
from saibot.estimate.intervals import new_key_gain
from saibot.search.board import Board
from saibot.search.scoring import score
from saibot.search.state import State
from saibot.semiring import Moments

KEYS, EACH = 60, 20


def simulated(rng: np.random.Generator, slope: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values by key, an own feature and a target whose keys have an effect of their own beside the candidate's."""
    keys = np.repeat(np.arange(KEYS), EACH)
    z = rng.normal(0, 1, KEYS)
    x = rng.normal(0, 1, len(keys))
    effect = rng.normal(0, 0.3, KEYS)
    return z, x, 0.5 * x + slope * z[keys] + effect[keys] + rng.normal(0, 1, len(keys))


def left_out(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """What the column gains on each key when the model is fitted on all others: the slow truth."""
    keys = np.repeat(np.arange(KEYS), EACH)
    base, full = np.column_stack([np.ones(len(y)), x]), np.column_stack([np.ones(len(y)), x, z[keys]])
    gain = 0.0
    for key in range(KEYS):
        out = keys == key
        for table, sign in ((base, 1), (full, -1)):
            theta = np.linalg.lstsq(table[~out], y[~out], rcond=None)[0]
            gain += sign * float(np.sum((y[out] - table[out] @ theta) ** 2))
    return gain / float(np.sum((y - y.mean()) ** 2))


@pytest.mark.parametrize("slope", [0.0, 0.1, 0.3])
def test_gains_on_new_keys_are_what_leaving_keys_out_finds(slope):
    """Of all candidates nearly so, and never more; of those that are shown, in the exact form."""
    rng = np.random.default_rng(8)
    swept, shown, slow, here = [], [], [], []
    for _ in range(60):
        z, x, y = simulated(rng, slope)
        moments = Moments.of_rows(("x", "y"), np.column_stack([x, y]), np.repeat(np.arange(KEYS), EACH), KEYS)
        base = State.of(moments, "y").base(np.arange(KEYS), KEYS)
        scores = score(z[None] @ base.linear, z[None] ** 2 @ base.square, base, quantile=2.0)
        board = Board(scores.gain, scores.lower, scores.deviation, scores.coefficient, np.array([KEYS]))
        swept.append(float(scores.gain[0] - board.flattery(np.array([0]))[0]))
        narrow = moments.gram().fit(("x",), "y", ridge=0.0)
        wide = moments.gram(z[:, None], ["z"]).fit(("x", "z"), "y", ridge=0.0)
        models = {"base": np.append(narrow.theta, 0.0), "full": wide.theta}
        shown.append(new_key_gain(moments, own=("x",), target="y", values=z[:, None], **models))
        slow.append(left_out(z, x, y))
        here.append(float(scores.gain[0]))
    truth = float(np.mean(slow))
    # A strong column also steadies the intercept on new keys, by 2 b^2/KEYS of the loss, which the formula leaves out.
    assert np.mean(shown) == pytest.approx(truth, abs=0.0005 + 2 * slope**2 / KEYS)
    assert truth - 0.002 - 0.05 * truth < np.mean(swept) < truth + 0.002
    assert np.mean(here) - truth > 0.001, "the gain on these very keys flatters"


def test_a_ranking_for_new_keys_puts_a_gain_that_few_keys_flatter_behind_a_surer_one():
    """Two candidates with the same gain here: one by five keys, the other by hundreds."""
    board = Board(
        gain=np.array([0.05, 0.049]),
        lower=np.array([0.0, 0.0]),
        deviation=np.array([0.15, 0.02]),
        coefficient=np.ones(2),
        keys=np.array([5, 300]),
    )
    assert board.order().tolist() == [0, 1]
    assert board.of_new_keys().order().tolist() == [1, 0]


@pytest.fixture
def asked(rows, corpus):
    return local_request(rows, target="sales", features=["price"], keys=["shop", "day"], domains=Domains(corpus))


def test_results_tell_the_gain_on_new_keys_of_every_candidate(asked, corpus):
    for entry in find_augmentation(asked, corpus, SearchOptions(engine="threads")).result.ranked:
        assert entry.new_keys is not None and entry.new_keys < entry.gain


def test_for_known_keys_a_column_must_add_to_the_own_averages(asked, corpus, rows):
    here = find_augmentation(asked, corpus, SearchOptions(engine="threads"))
    beyond = find_augmentation(asked, corpus, SearchOptions(engine="threads", gain="known"))
    assert any("beyond your own average" in note for note in beyond.notes)
    assert beyond.result.base.train_r2 > here.result.base.train_r2 + 0.1, "the averages are in the base"
    assert max(one.gain for one in beyond.result.ranked) < max(one.gain for one in here.result.ranked) / 2
    # The model itself is one of own features and columns: it predicts for any row.
    assert np.isfinite(beyond.model().predict(rows)).all()
    assert {*beyond.model().feature_names_in_} == {"price", *beyond.columns}
