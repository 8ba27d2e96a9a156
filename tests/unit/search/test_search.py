"""Searching: what is found, what is left aside and why, and that noise never breaks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saibot.errors import InvalidInput
from saibot.estimate.moments import exact_moments
from saibot.search import Corpus, RequestKey, SearchOptions, SearchRequest, search
from saibot.search.key_maps import RequestKey as Key
from saibot.search.key_maps import Views, view_id
from saibot.search.scoring import score
from saibot.search.state import State
from saibot.search.sweep import sweep
from saibot.semiring import Moments
from saibot.sketch import KeyDomain

from .conftest import rows_of

D = 40
DOMAIN = KeyDomain.of("keys", [f"k{i}" for i in range(D)], parents={"region": [f"r{i // 8}" for i in range(D)]})


def world(seed: int = 0, n: int = 2000, useful: int = 2, others: int = 30):
    """Two useful tables, the first stronger, among many that are not."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(useful, D))
    values = np.vstack([hidden, rng.normal(size=(others, D))])
    keys = rng.integers(0, D, n)
    x = rng.normal(size=n)
    y = 0.3 * x + 0.9 * hidden[0][keys] + 0.5 * hidden[1][keys] + rng.normal(size=n)
    moments = exact_moments(("x", "y"), np.column_stack([x, y]), keys, D + 1)
    names = [f"useful{i}" for i in range(useful)] + [f"other{i}" for i in range(others)]
    return moments, values, names


def ask(moments: Moments, test: Moments | None = None) -> SearchRequest:
    return SearchRequest(moments, test, "y", RequestKey.product([("k", DOMAIN)]))


def test_the_useful_tables_are_taken_best_first_and_the_search_then_stops(exact_corpus):
    moments, values, names = world()
    result = search(ask(moments), exact_corpus(DOMAIN, values, names), SearchOptions(engine="threads"))
    assert [step.found.dataset for step in result.steps] == ["useful0", "useful1"]
    assert result.stopped == "no further gain is clear of its noise"
    assert result.base_train_r2 < result.steps[0].train_r2 < result.steps[1].train_r2 <= 1
    assert result.ranked[0].dataset == "useful0"
    assert result.ranked[0].lower <= result.ranked[0].gain <= result.ranked[0].upper


def test_useless_tables_are_dropped_with_the_reason(exact_corpus):
    moments, values, names = world()
    result = search(ask(moments), exact_corpus(DOMAIN, values[2:], names[2:]), SearchOptions(engine="threads"))
    assert not result.steps
    assert any("not clear of its noise" in dropped.reason for dropped in result.dropped)


def test_single_dataset_mode_takes_the_best_whatever_its_bound(exact_corpus):
    moments, values, names = world()
    options = SearchOptions(engine="threads", steps=1, always_first=True)
    assert len(search(ask(moments), exact_corpus(DOMAIN, values[2:], names[2:]), options).steps) == 1


def test_candidates_that_are_all_noise_rank_below_the_base_model_with_the_reason(tmp_path):
    from .conftest import rows_of

    moments, values, names = world()
    corpus = Corpus.create(tmp_path / "c")
    padded = np.column_stack([values, np.zeros(len(values))]).astype(np.float32)
    corpus.add_rows(view_id([DOMAIN.keys_digest]), rows_of(0 * padded, names, spread=0.0))
    result = search(ask(moments), corpus, SearchOptions(engine="threads"))
    assert not result.steps
    assert result.ranked[0].gain == 0 and "all noise" in result.ranked[0].note
    assert result.dropped[0].count == len(names)


def test_a_coarser_level_of_the_requests_key_is_joined_too(tmp_path):
    from .conftest import rows_of

    rng = np.random.default_rng(3)
    regions = DOMAIN.with_levels(["region"])
    coarse = KeyDomain.of("regions", regions.level_values(1))
    hidden = rng.normal(size=len(coarse))
    keys = rng.integers(0, D, 3000)
    y = hidden[regions.parent_index(1)[keys]] + 0.3 * rng.normal(size=3000)
    moments = exact_moments(("x", "y"), np.column_stack([rng.normal(size=3000), y]), keys, D + 1)
    corpus = Corpus.create(tmp_path / "c")
    values = np.append(hidden, 0.0)[None, :]
    corpus.add_rows(view_id([coarse.keys_digest]), rows_of(values, ["by-region"]))
    result = search(ask(moments), corpus, SearchOptions(engine="threads"))
    assert [step.found.dataset for step in result.steps] == ["by-region"]
    assert result.steps[0].found.key == (("k", "region"),)


def test_composite_keys_join_providers_of_any_of_their_parts():
    day, origin = KeyDomain.of_range(1, 5), KeyDomain.of("origins", ["a", "b"])
    key = Key.product([("day", day), ("origin", origin)])
    views = Views(key)
    both = views.find(view_id([origin.keys_digest, day.keys_digest]))
    assert both is not None and both.size == 11
    one = views.find(view_id([day.keys_digest]))
    assert one is not None and one.name == "day" and one.index[3] == 1 and one.index[-1] == 5
    assert views.find(view_id([KeyDomain.of_range(1, 6).keys_digest])) is None


def test_a_provider_whose_key_the_request_does_not_have_is_named_as_such(tmp_path, exact_corpus):
    from .conftest import rows_of

    moments, values, names = world()
    corpus = exact_corpus(DOMAIN, values, names)
    foreign = KeyDomain.of("foreign", ["p", "q"])
    corpus.add_rows(view_id([foreign.keys_digest]), rows_of(np.zeros((1, 3)), ["elsewhere"]))
    result = search(ask(moments), corpus, SearchOptions(engine="threads"))
    reasons = {dropped.reason: dropped.examples for dropped in result.dropped}
    assert reasons["its key is no function of the request's key: its keys are not known here"] == ("elsewhere",)


def test_the_requesters_own_dataset_is_no_candidate_and_the_reason_is_told(exact_corpus):
    moments, values, names = world()
    corpus = exact_corpus(DOMAIN, values, names)
    plain = search(ask(moments), corpus, SearchOptions(engine="threads"))
    for own in ("useful0", plain.ranked[0].digest):
        result = search(replace(ask(moments), own=(own,)), corpus, SearchOptions(engine="threads"))
        assert all(found.dataset != "useful0" for found in result.ranked) and result.steps[0].found.dataset == "useful1"
        assert result.candidates == plain.candidates - 1
        assert result.dropped[0].reason == "it is the request's own dataset" and result.dropped[0].count == 1


def test_values_of_which_next_to_nothing_is_signal_are_called_noise(tmp_path):
    from .conftest import rows_of

    moments, values, names = world()
    corpus = Corpus.create(tmp_path / "c")
    rows = rows_of(np.column_stack([1e-4 * values, np.zeros(len(values))]).astype(np.float32), names, spread=1e-6)
    rows.numbers["reliability"][2:] = 0.001
    corpus.add_rows(view_id([DOMAIN.keys_digest]), rows)
    result = search(ask(moments), corpus, SearchOptions(engine="threads"))
    assert next(d for d in result.dropped if "all noise" in d.reason).count == len(names) - 2


def test_an_empty_corpus_and_a_missing_target_are_clear_errors(tmp_path):
    moments, _, _ = world()
    with pytest.raises(InvalidInput, match="the corpus is empty"):
        search(ask(moments), Corpus.create(tmp_path / "empty"))
    with pytest.raises(InvalidInput, match="no feature 'salary'"):
        SearchRequest(moments, None, "salary", None)
    with pytest.raises(InvalidInput, match="is no corpus"):
        Corpus(tmp_path / "nowhere")


def test_withdrawing_a_dataset_removes_it_from_every_file(exact_corpus):
    moments, values, names = world()
    corpus = exact_corpus(DOMAIN, values, names)
    digest = search(ask(moments), corpus, SearchOptions(engine="threads")).ranked[0].digest
    assert corpus.remove(digest)
    again = Corpus(corpus.folder)
    assert digest not in again.digests
    assert all(digest not in file.read_bytes().decode("latin1") for file in corpus.folder.rglob("*") if file.is_file())
    assert search(ask(moments), again, SearchOptions(engine="threads")).ranked[0].dataset != "useful0"


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.floats(0, 12), st.integers(1, 4))
def test_no_noise_however_large_makes_nan_or_r2_above_one(seed, log_noise, features):
    rng = np.random.default_rng(seed)
    noise = 10.0**log_noise
    d, m = 12, features + 1
    products = rng.normal(size=(m, m)) * noise
    moments = Moments(
        features=(*(f"x{i}" for i in range(features)), "y"),
        counts=rng.normal(size=d) * noise,
        sums=rng.normal(size=(d, m)) * noise,
        products=products + products.T,
        count=50.0,
        total=rng.normal(size=m) * noise,
        count_noise=np.full(d, noise),
        sum_noise=np.full(d, noise),
        product_noise=np.full((m, m), noise),
        total_noise=np.full(m, noise),
    )
    state = State.of(moments, "y")
    values = rng.normal(size=(20, d)) * 10.0 ** rng.uniform(-6, 3, size=(20, 1))
    base = state.base(np.arange(d), d)
    scores = score(*sweep(values, base.linear, base.square), base, quantile=2.0)
    assert 0 <= state.r2() <= 1
    for column in (scores.gain, scores.lower, scores.deviation, scores.coefficient):
        assert np.isfinite(column).all()
    assert (scores.gain <= 1).all() and (scores.lower <= scores.gain + 1e-12).all()


def test_how_far_a_search_is_moves_within_a_step_and_never_back(exact_corpus):
    moments, values, names = world(others=20)
    corpus = exact_corpus(DOMAIN, values[:8], names[:8])
    padded = np.column_stack([values[8:], np.zeros(len(values) - 8)])
    corpus.add_rows(view_id([DOMAIN.keys_digest]), rows_of(padded, names[8:]))  # a shard of its own
    told: list[tuple[str, float | None]] = []
    options = SearchOptions(steps=4, engine="threads", rank="usable")
    result = search(ask(moments), corpus, options, progress=lambda *one: told.append(one))
    assert len(result.steps) == 2
    parts = [part for _, part in told if part is not None]
    assert parts == sorted(parts) and parts[0] == 0 and parts[-1] <= 1
    first = [(stage, part) for stage, part in told if stage.startswith("step 1:")]
    assert len({part for stage, part in first if "scoring 22 candidates" in stage}) == 3, "it began, half way, and done"
    assert len({part for stage, part in first if "explaining the first 22" in stage}) == 22
    assert all(part is not None and part <= 0.25 for _, part in first), "a step of four is a quarter of the bar"
