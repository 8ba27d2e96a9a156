"""Expected gains of values that shared factors helped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from saibot.client import find_augmentation, local_request
from saibot.estimate.factors import KeyTree, Readings
from saibot.search import Corpus, SearchOptions, search
from saibot.search.expected import Expectations
from saibot.search.learning import learn
from tests.support.shared_tables import DOMAIN, KEYS, providers_of, world


def test_the_expected_gain_of_the_table_behind_a_request_comes_first_and_near_the_truth(tmp_path: Path) -> None:
    corpus = Corpus.create(tmp_path / "corpus")
    corpus.add(world().sketches)
    learn(corpus, providers=providers_of(world()))
    rng = np.random.default_rng(2)
    place = rng.integers(0, KEYS, 4000)
    hits = 0
    for sketch in world().sketches[:6]:
        means = world().truth[sketch.digest]
        table = pd.DataFrame({"place": np.array(DOMAIN.values)[place], "y": means[place] + 0.1 * rng.normal(size=4000)})
        request = local_request(table, target="y", keys={"place": DOMAIN}, features=[])
        found = find_augmentation(request, corpus, SearchOptions(rank="expected", steps=1)).result
        first = found.ranked[0]
        hits += first.digest == sketch.digest
        raw = np.var(means[place]) / np.var(table["y"])
        mine = next(entry for entry in found.ranked if entry.digest == sketch.digest)
        assert mine.expected is not None and 0.5 * raw < mine.expected < 1.2 * raw
    assert hits >= 5


def test_what_shards_keep_beside_values_ranks_as_the_sketches_do_and_none_of_those_is_opened(tmp_path, monkeypatch):
    corpus = Corpus.create(tmp_path / "corpus")
    corpus.add(world().sketches)
    learn(corpus, providers=providers_of(world()))
    rng = np.random.default_rng(3)
    place, means = rng.integers(0, KEYS, 4000), world().truth[world().sketches[0].digest]
    table = pd.DataFrame({"place": np.array(DOMAIN.values)[place], "y": means[place] + 0.1 * rng.normal(size=4000)})
    request = local_request(table, target="y", keys={"place": DOMAIN}, features=[])

    def expected() -> dict[str, float | None]:
        ranked = search(request, corpus, SearchOptions(rank="expected", steps=1)).ranked
        return {entry.digest: entry.expected for entry in ranked}

    opened: list[str] = []
    whole = Corpus.sketch
    monkeypatch.setattr(Corpus, "sketch", lambda self, digest: opened.append(digest) or whole(self, digest))
    kept = expected()
    assert not opened
    monkeypatch.setattr(Expectations, "_of_shard", lambda self, candidate: None)
    from_sketches = expected()
    assert len(set(opened)) == len(world().sketches)
    assert list(kept) == list(from_sketches)
    np.testing.assert_allclose([*kept.values()], [*from_sketches.values()], rtol=1e-4)


def test_rows_that_are_no_readings_of_these_keys_are_not_taken_for_such():
    tree, rows = KeyTree(3), np.array([[1.0, 2, 3, 4, 5, np.inf, 1, 0, 2, 7]], np.float32)
    found = Readings.unpacked(rows, tree)
    assert found is not None
    np.testing.assert_array_equal(found.packed, rows)
    for place, cell in ((0, np.nan), (4, -1.0), (6, np.inf), (9, -2.0)):
        broken = rows.copy()
        broken[0, place] = cell
        assert Readings.unpacked(broken, tree) is None
    assert Readings.unpacked(rows[:, 1:], tree) is None
