"""The stop rule: useless tables are hardly ever taken, useful ones nearly always."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saibot.estimate.moments import exact_moments
from saibot.search import RequestKey, SearchOptions, SearchRequest, greedy, search
from saibot.search.board import Board
from saibot.search.looks_by_provider import LooksByProvider
from saibot.search.scoring import score
from saibot.search.state import State
from saibot.search.sweep import sweep
from saibot.sketch import KeyDomain

D, CANDIDATES, ROWS = 60, 200, 1200


def taken(rng: np.random.Generator, effect: float, key_effect: float, *, looked_at: int = CANDIDATES) -> bool:
    """Whether the first step is taken, among candidates of which the first has the given effect on the target."""
    values = rng.normal(size=(CANDIDATES, D))
    keys = rng.integers(0, D, ROWS)
    x = rng.normal(size=ROWS)
    y = 0.3 * x + effect * values[0][keys] + key_effect * rng.normal(size=D)[keys] + rng.normal(size=ROWS)
    state = State.of(exact_moments(("x", "y"), np.column_stack([x, y]), keys, D), "y")
    base = state.base(np.arange(D), D)
    found = score(*sweep(values, base.linear, base.square), base, quantile=2.0)
    board = Board(found.gain, found.lower, found.deviation, found.coefficient, np.full(CANDIDATES, base.keys))
    return bool(board.clear(board.order(1), LooksByProvider({0: looked_at}).levels(0.1))[0])


def test_useless_tables_are_taken_less_often_than_the_confidence_says():
    rng = np.random.default_rng(1)
    for key_effect in (0.0, 1.0):  # with a key effect, a useless feature gains far more than 1/n by luck
        assert sum(taken(rng, 0.0, key_effect) for _ in range(150)) <= 0.17 * 150  # 0.1 and three standard errors


def test_useful_tables_are_taken():
    rng = np.random.default_rng(2)
    assert sum(taken(rng, 0.8, 0.3) for _ in range(60)) >= 57


def test_a_rule_that_forgot_the_number_of_candidates_would_be_caught():
    rng = np.random.default_rng(3)
    assert sum(taken(rng, 0.0, 1.0, looked_at=1) for _ in range(60)) > 0.5 * 60


def test_a_gain_whose_exact_interval_begins_at_0_is_not_taken_whatever_the_sweep_says(exact_corpus, monkeypatch):
    rng = np.random.default_rng(3)
    domain, values = KeyDomain.of_range(1, D), rng.normal(size=(1, D))
    keys = rng.integers(0, D, ROWS)
    table = np.column_stack([rng.normal(size=ROWS), values[0][keys] + rng.normal(size=ROWS)])
    request = SearchRequest(exact_moments(("x", "y"), table, keys, D + 1), None, "y", RequestKey.product([("k", domain)]))
    corpus, options = exact_corpus(domain, values), SearchOptions(engine="threads")
    assert len(search(request, corpus, options).steps) == 1
    unclear = greedy.describe
    monkeypatch.setattr(greedy, "describe", lambda *a, **more: replace(unclear(*a, **more), lower=0.0))
    found = search(request, corpus, options)
    assert not found.steps and found.stopped == "no further gain is clear of its noise"
