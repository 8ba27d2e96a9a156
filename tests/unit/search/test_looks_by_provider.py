"""The correction for many looks is by provider: one provider's candidates cost the others one share, however many."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from saibot.errors import InvalidInput
from saibot.estimate.moments import exact_moments
from saibot.search import Corpus, RequestKey, SearchOptions, SearchRequest, search
from saibot.search.board import Board
from saibot.search.index import SketchEntry
from saibot.search.key_maps import view_id
from saibot.search.looks_by_provider import LooksByProvider, spread_out
from saibot.search.shard import ShardRows
from saibot.sketch import KeyDomain

D, ROWS = 60, 1200
DOMAIN = KeyDomain.of_range(1, D)
KEY = RequestKey.product([("k", DOMAIN)])
OPTIONS = SearchOptions(engine="threads", rank="usable", unions=False, steps=1)


def test_levels_add_up_to_what_may_be_accepted_by_luck():
    for looks in (
        LooksByProvider({0: 1}),
        LooksByProvider({0: 200}),
        LooksByProvider({1: 5, 2: 500, 3: 1}),
        LooksByProvider({0: 7, 1: 5, 2: 500}, frozenset({1})),
        LooksByProvider({1: 5, 2: 3}, frozenset({1, 2, 9})),
    ):
        levels = looks.levels(0.1)
        assert sum(levels[provider] * count for provider, count in looks.candidates.items()) == pytest.approx(0.1)


def test_without_providers_it_is_the_correction_for_all_candidates():
    assert LooksByProvider({0: 200}).levels(0.1) == {0: pytest.approx(0.1 / 200)}


def test_what_one_provider_publishes_leaves_the_levels_of_others_alone():
    few, many = (LooksByProvider({1: 5, 2: 4, 3: fakes}).levels(0.1) for fakes in (1, 10_000))
    assert few[1] == many[1] == pytest.approx(0.1 / 3 / 5) and few[3] == pytest.approx(10_000 * many[3])


def test_accounts_without_end_cost_verified_providers_a_factor_of_two():
    alone = LooksByProvider({1: 5, 2: 4}, frozenset({1, 2})).levels(0.1)
    beside = LooksByProvider({1: 5, 2: 4} | {fake: 1 for fake in range(3, 5000)}, frozenset({1, 2})).levels(0.1)
    assert beside[1] == pytest.approx(alone[1] / 2)


def test_a_provider_without_candidates_takes_no_share():
    assert LooksByProvider({1: 5, 2: 0}).levels(0.1) == {1: pytest.approx(0.1 / 5)}


def test_every_candidate_is_held_to_the_level_of_its_provider():
    rng = np.random.default_rng(0)
    count = 4000
    board = Board(
        *(np.abs(rng.normal(0, 3, count)) ** 2, np.zeros(count), np.ones(count), np.zeros(count), np.full(count, 40)),
        providers=rng.integers(0, 4, count),
    )
    levels = LooksByProvider({0: 900, 1: 10, 2: 2000}, frozenset({1})).levels(0.1)
    clear = board.clear(np.arange(count), levels)
    for number in range(count):
        level = levels.get(int(board.providers[number]))
        p = 2 * t.sf(np.sqrt(board.gain[number]), 38)
        assert clear[number] == (level is not None and p < level)
    without = np.flatnonzero(clear)[:5]
    first = board.first_clear(levels, 30, without=without)
    key = board.sort_key()
    wanted = sorted(set(np.flatnonzero(clear)) - set(without), key=lambda number: (-key[number], number))
    assert first.tolist() == wanted[:30]
    assert board.first_clear(levels, count, without=without).tolist() == wanted


# ------------------------------------------------------------------------------------------------ the list


def test_unclear_candidates_of_one_provider_take_every_other_place_at_most():
    providers, clear = [1] * 10 + [2, 3, 4, 5], [False] * 14
    order = spread_out(range(14), providers, clear, 8)
    assert order == [0, 10, 1, 11, 2, 12, 3, 13]
    assert spread_out(range(14), providers, clear, 14)[8:] == [4, 5, 6, 7, 8, 9], "where there is nobody else, all of them"


def test_clear_candidates_and_those_of_nobody_stay_where_they_are():
    assert spread_out(range(6), [1] * 6, [True] * 6, 6) == [*range(6)]
    assert spread_out(range(6), [0] * 6, [False] * 6, 4) == [*range(4)]
    assert spread_out(range(5), [1, 1, 1, 2, 1], [True, False, True, False, True], 5) == [0, 1, 2, 3, 4]


def test_a_clear_candidate_is_first_where_there_is_one():
    assert spread_out(range(4), [1, 1, 2, 2], [False, False, False, True], 4) == [3, 0, 1, 2]
    assert spread_out(range(4), [0, 1, 2, 2], [False, False, False, True], 4)[0] == 0, "nobody's is not moved"


# ------------------------------------------------------------------------------------------------ searches


def corpus_of(folder, tables: dict[str, np.ndarray]) -> Corpus:
    """One dataset for every provider, with these values (features, keys)."""
    corpus = Corpus.create(folder)
    numbers = corpus._index.numbered(tables)
    for provider, values in tables.items():
        count = len(values)
        text = {"digest": provider, "dataset": f"{provider}-table", "unit": ""}
        columns = {name: np.full(count, value, dtype=object) for name, value in text.items()}
        columns["feature"] = np.array([f"f{i}" for i in range(count)], dtype=object)
        facts = {"mean": 0.0, "spread": 1.0, "reliability": 1.0, "offset": 0.0, "scale": 1.0, "rows": 1000.0}
        rows = ShardRows(
            columns,
            {name: np.full(count, value) for name, value in facts.items()},
            np.column_stack([values, np.zeros(count)]).astype(np.float32),
        )
        corpus._change(
            [(view_id([DOMAIN.keys_digest]), rows.of_provider(numbers[provider]))],
            sketches={provider: SketchEntry(f"{provider}-table", provider)},
        )
    return Corpus(folder)


def request(rng: np.random.Generator, helps: np.ndarray, effect: float) -> SearchRequest:
    """A table whose target follows a column, and differs from key to key besides."""
    keys = rng.integers(0, D, ROWS)
    y = effect * helps[keys] + 0.5 * rng.normal(size=D)[keys] + rng.normal(size=ROWS)
    return SearchRequest(exact_moments(("x", "y"), np.column_stack([rng.normal(size=ROWS), y]), keys, D + 1), None, "y", KEY)


def attack(folder, seed: int) -> tuple[SearchRequest, Corpus]:
    """Ten honest providers with three columns each, the first of which says something, and one with 500 made-up ones."""
    rng = np.random.default_rng(seed)
    tables = {f"honest{i}": rng.normal(size=(3, D)) for i in range(10)}
    asked = request(rng, tables["honest0"][0], 0.31)
    return asked, corpus_of(folder, tables | {"fake": rng.normal(size=(500, D))})


@pytest.fixture
def attacked(tmp_path):
    return attack(tmp_path / "corpus", 2)


def test_made_up_features_of_one_provider_do_not_stop_an_honest_gain(attacked, monkeypatch):
    asked, corpus = attacked
    (step,) = search(asked, corpus, OPTIONS).steps
    assert (step.found.provider, step.found.feature) == ("honest0", "f0")
    monkeypatch.setattr(LooksByProvider, "levels", lambda looks, alpha: dict.fromkeys(looks.candidates, alpha / len(looks)))
    assert search(asked, corpus, OPTIONS).steps == (), "alpha over all candidates, as it was before"


def test_made_up_features_take_no_more_than_half_of_the_list(attacked):
    asked, corpus = attacked
    ranked = search(asked, corpus, OPTIONS.but(shown=10)).ranked
    for shown in range(1, 11):
        assert sum(one.provider == "fake" for one in ranked[:shown]) <= (shown + 1) // 2
    assert "honest0-table" in {one.dataset for one in ranked}


def test_what_is_clear_is_taken_even_where_made_up_features_stand_before_it(tmp_path, monkeypatch):
    asked, corpus = attack(tmp_path / "corpus", 11)
    corpus, options = corpus.with_verified({"honest0", "honest1"}), OPTIONS.but(shown=1, ranking_quantile=0.0)
    found = search(asked, corpus, options)
    assert [one.provider for one in found.ranked] == ["honest0"] and found.steps[0].found.provider == "honest0"
    monkeypatch.setattr(Board, "first_clear", lambda *_, **__: np.zeros(0, np.intp))
    without = search(asked, corpus, options)
    assert without.steps == () and without.ranked[0].provider == "fake", "a list of the first alone does not have it"


def test_a_search_can_be_limited_to_chosen_or_verified_providers(attacked):
    asked, corpus = attacked
    chosen = search(asked, corpus, OPTIONS.but(providers=("honest3", "honest0")))
    assert {one.provider for one in chosen.ranked} == {"honest0", "honest3"} and chosen.candidates == 6
    assert "only datasets of the providers honest3, honest0 were looked at" in chosen.notes
    assert [one.count for one in chosen.dropped if "not one of those asked for" in one.reason] == [524]
    known = corpus.with_verified({"honest1", "honest2", "gone"})
    verified = search(asked, known, OPTIONS.but(verified=True))
    assert {one.provider for one in verified.ranked} == {"honest1", "honest2"}
    both = search(asked, known, OPTIONS.but(verified=True, providers=("honest1", "honest0")))
    assert {one.provider for one in both.ranked} == {"honest1"}
    tried = search(asked, corpus, OPTIONS.but(strategy="exhaustive", providers=("honest0",)))
    assert {one.provider for one in tried.ranked} == {step.found.provider for step in tried.steps} == {"honest0"}


def test_a_provider_that_is_not_there_is_named_with_those_that_are(attacked):
    asked, corpus = attacked
    with pytest.raises(InvalidInput, match="no provider is called 'hospital'") as caught:
        search(asked, corpus, OPTIONS.but(providers=("hospital",)))
    assert "honest0" in str(caught.value.hint)
    with pytest.raises(InvalidInput, match="no provider is verified here"):
        search(asked, corpus, OPTIONS.but(verified=True))
    hidden = corpus.without({"honest4"})
    with pytest.raises(InvalidInput, match="no provider is called 'honest4'"):
        search(asked, hidden, OPTIONS.but(providers=("honest4",)))


def test_verified_providers_keep_half_of_what_may_be_accepted(attacked):
    asked, corpus = attacked
    (step,) = search(asked, corpus.with_verified({"honest0", "honest1"}), OPTIONS).steps
    assert step.found.provider == "honest0"
