"""Expected gains of values that shared factors helped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from saibot.client import find_augmentation, local_request
from saibot.search import Corpus, SearchOptions
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
