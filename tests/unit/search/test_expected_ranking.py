"""`rank="expected"` on real sketches: levels are read from them, and the better table with few rows is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from research.seeded import Seeded
from saibot.estimate.moments import exact_moments
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.search import Corpus, RequestKey, SearchOptions, SearchRequest, expected, search
from saibot.sketch import KeyDomain, Sketch

KEYS, GROUPS, ROWS = 60, 6, 3000
NAMES = [f"p{i:02d}" for i in range(KEYS)]
DOMAIN = KeyDomain.of("places", NAMES, parents={"region": [f"r{i * GROUPS // KEYS}" for i in range(KEYS)]})
OPTIONS = SearchOptions(rank="expected", steps=1, engine="threads", unions=False)
TERMS: dict[str, Any] = {"budget": Budget("1", "1e-6"), "key": "k", "neighbours": Neighbours.REPLACE_ONE}


@pytest.fixture(scope="module")
def hidden() -> np.ndarray:
    return np.random.default_rng(3).normal(size=KEYS)


@pytest.fixture(scope="module")
def request_of(hidden) -> SearchRequest:
    rng = np.random.default_rng(4)
    place = rng.integers(0, KEYS, ROWS)
    y = np.clip(0.5 * hidden[place] + 0.5 * rng.normal(size=ROWS), -1.5, 1.5)
    table = np.column_stack([rng.normal(size=ROWS) * 0.3, y])
    return SearchRequest(exact_moments(("x", "y"), table, place, KEYS + 1), None, "y", RequestKey.product([("k", DOMAIN)]))


def sketch(
    folder: Path, name: str, means: np.ndarray, each: int, levels: tuple[str, ...] = ("region",), seed: int = 0
) -> Sketch:
    """`each` rows a key around these means, at epsilon 1, with the same noise in every run."""
    pd.DataFrame({"key": NAMES, "region": DOMAIN.parents[0][1]}).to_csv(folder / "places.csv", index=False)
    rng = np.random.default_rng(each)
    place = np.repeat(np.arange(KEYS), each)
    rows = pd.DataFrame({"k": np.array(NAMES)[place], "v": 0.4 * means[place] + 0.2 * rng.normal(size=len(place))})
    facts = {"column": "k", "domain": {"file": str(folder / "places.csv"), "id": "places"}, "levels": list(levels)}
    request, ledger = ReleaseRequest(card(name, facts), **TERMS), Ledger(folder / f"ledger-{name}")
    return privatize(rows, request, ledger, noise=Seeded((seed, each))).sketch


def card(name: str, key: dict[str, Any]) -> Card:
    return Card.parse(
        {
            "dataset": {"name": name},
            "budget": {"cap": {"epsilon": "10", "delta": "1e-3"}},
            "features": {"v": {"bounds": [-1, 1]}},
            "keys": {"k": key},
        }
    )


def packed(folder: Path, *sketches: Sketch) -> Corpus:
    corpus = Corpus.create(folder / "corpus")
    assert not corpus.add(sketches, {DOMAIN.digest: DOMAIN})
    return corpus


def test_the_better_table_with_few_rows_is_found_more_often_than_by_usable_gains(tmp_path, hidden, request_of):
    first = {"usable": 0, "expected": 0}
    for run in range(20):
        folder = tmp_path / str(run)
        folder.mkdir()
        worse = 0.6 * hidden + 0.8 * np.random.default_rng(run).normal(size=KEYS)
        corpus = packed(folder, sketch(folder, "few", hidden, 15, seed=run), sketch(folder, "many", worse, 150, seed=run))
        for rank in first:
            found = search(request_of, corpus, OPTIONS.but(rank=rank))
            first[rank] += found.ranked[0].dataset == "few"
            assert all((entry.expected is not None) == (rank == "expected") for entry in found.ranked)
    print(first)
    assert first["expected"] >= first["usable"] + 3


def test_without_noise_to_speak_of_the_expected_gain_is_the_gain(tmp_path, hidden, request_of):
    corpus = packed(tmp_path, sketch(tmp_path, "many", hidden, 1000))
    (found,) = search(request_of, corpus, OPTIONS).ranked
    assert found.expected == pytest.approx(found.gain, rel=0.2) and found.gain > 0.3


def test_levels_that_only_the_domain_knows_are_not_looked_for_in_the_sketch(tmp_path, hidden, request_of):
    corpus = packed(tmp_path, sketch(tmp_path, "flat", hidden, 200, levels=()))
    (found,) = search(request_of, corpus, OPTIONS).ranked
    assert 0 < found.expected <= 1


def test_a_corpus_of_bare_values_is_ranked_by_what_is_there(exact_corpus, hidden, request_of):
    values = np.array([0.3 * hidden, np.random.default_rng(1).normal(size=KEYS)])
    found = search(request_of, exact_corpus(DOMAIN, values, ["good", "none"]), OPTIONS).ranked
    assert [entry.dataset for entry in found] == ["good", "none"]
    assert found[0].expected == pytest.approx(found[0].gain, rel=1e-6)


def test_a_sketch_is_read_once_in_a_search(tmp_path, hidden, request_of, monkeypatch):
    corpus = packed(tmp_path, sketch(tmp_path, "few", hidden, 20), sketch(tmp_path, "other", hidden[::-1].copy(), 20))
    read: list[str] = []
    monkeypatch.setattr(
        type(corpus), "sketch", lambda self, digest, of=Corpus.sketch: read.append(digest) or of(self, digest)
    )
    search(request_of, corpus, OPTIONS.but(steps=3, confidence=0.5))
    assert sorted(read) == sorted(corpus.digests)


def test_a_provider_by_a_coarser_key_is_compared_on_its_own_keys(tmp_path, hidden, request_of):
    """The request has places, the provider regions: as if the request had been made of regions."""
    coarse = DOMAIN.with_levels(["region"])
    regions, index = KeyDomain.of("regions", coarse.level_values(1)), coarse.parent_index(1)
    means = np.bincount(index[:KEYS], hidden, GROUPS) / np.bincount(index[:KEYS])
    place = np.repeat(np.arange(GROUPS), 500)
    rows = pd.DataFrame({"k": np.array(regions.values)[place], "v": 0.4 * means[place]})
    facts = {"column": "k", "domain": {"values": list(regions.values), "id": "regions"}}
    released = privatize(rows, ReleaseRequest(card("coarse", facts), **TERMS), Ledger(tmp_path / "ledger")).sketch
    corpus = Corpus.create(tmp_path / "corpus")
    assert not corpus.add([released])
    finer = request_of.train
    none = np.zeros(GROUPS + 1)
    whole = replace(
        finer,
        counts=np.bincount(index, finer.counts),
        sums=np.column_stack([np.bincount(index, column) for column in finer.sums.T]),
        count_noise=none,
        sum_noise=none,
        key_products=None,
        key_product_noise=None,
    )
    same = SearchRequest(whole, None, "y", RequestKey.product([("r", regions)]))
    (found,), (again,) = (search(request, corpus, OPTIONS).ranked for request in (request_of, same))
    assert found.key == (("k", "region"),) and again.key == (("r", None),)
    assert found.expected == pytest.approx(again.expected, rel=1e-9)


@pytest.mark.parametrize("limit", ["LONGEST", "MOST_KEYS"])
def test_of_long_lists_the_usable_gain_stands_for_both(tmp_path, hidden, request_of, monkeypatch, limit):
    corpus = packed(tmp_path, sketch(tmp_path, "few", hidden, 15), sketch(tmp_path, "many", 0.6 * hidden, 150))
    reading = []
    monkeypatch.setattr(Corpus, "sketch", lambda self, digest: reading.append(digest))
    monkeypatch.setattr(expected, limit, KEYS - 1)
    board = search(request_of, corpus, OPTIONS.but(rank="usable"))
    reading.clear()
    found = search(request_of, corpus, OPTIONS)
    assert not reading and [one.dataset for one in found.ranked] == [one.dataset for one in board.ranked]
