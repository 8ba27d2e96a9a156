"""Exhaustive search is the yardstick for greedy search."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.errors import InvalidInput
from saibot.search import SearchOptions, search
from saibot.search.exhaustive import Exhaustive

from .test_search import DOMAIN, ask, world


def test_greedy_is_never_better_than_trying_everything_and_seldom_much_worse(exact_corpus):
    ratios = []
    for seed in range(5):
        moments, values, names = world(seed, useful=2, others=5)
        corpus = exact_corpus(DOMAIN, values, names)
        options = SearchOptions(engine="threads", steps=2)
        best = search(ask(moments), corpus, options, strategy=Exhaustive())
        greedy = search(ask(moments), corpus, options)
        assert greedy.steps[-1].train_r2 <= best.steps[-1].train_r2 + 1e-9
        ratios.append(greedy.steps[-1].train_r2 / best.steps[-1].train_r2)
    assert np.median(ratios) > 0.99


def test_too_many_combinations_are_refused(exact_corpus):
    moments, values, names = world(0, others=80)
    with pytest.raises(InvalidInput, match="combinations"):
        search(ask(moments), exact_corpus(DOMAIN, values, names), SearchOptions(engine="threads"), strategy=Exhaustive())
