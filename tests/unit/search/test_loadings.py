"""Which tables a shared factor explains, and how much of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from saibot.search.corpus import Corpus
from saibot.search.learning import learn
from saibot.search.packed_rows import strongest
from saibot.search.shared_factors import SharedFactors
from tests.support.shared_tables import providers_of, world


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, SharedFactors]:
    tables = world()
    folder: Path = tmp_path_factory.mktemp("known") / "corpus"
    corpus = Corpus.create(folder)
    corpus.add(tables.sketches)
    learn(corpus, providers=providers_of(tables))
    shared = corpus.factors(corpus.key_ids[0])
    assert shared is not None and shared.rank >= 1
    return corpus, shared


def test_what_factors_explain_and_what_is_left_to_each_table_make_up_the_whole(known: tuple[Corpus, SharedFactors]) -> None:
    _, shared = known
    shares = shared.explained
    assert len(shares) == shared.rank and (np.diff(shares) <= 0).all(), "the factor that explains most comes first"
    assert shares.sum() + shared.grouped.everyone.shares.sum() == pytest.approx(1, abs=1e-6)
    assert 0.5 < shares.sum() < 1, "four fifths of these tables is shared"


def test_the_share_of_a_table_is_its_squared_correlation_with_the_factor(known: tuple[Corpus, SharedFactors]) -> None:
    corpus, shared = known
    found = strongest(corpus.shards(shared.key), shared, most=5)
    assert [len(each) for each in found] == [5] * shared.rank
    values = {
        str(digest): row[:-1]
        for shard in corpus.shards(shared.key)
        for digest, row in zip(shard.text["digest"], shard.values, strict=True)
    }
    for factor, loadings in enumerate(found):
        sizes = [abs(one.share) for one in loadings]
        assert sizes == sorted(sizes, reverse=True)
        every = [np.corrcoef(row, shared.grouped.everyone.loadings[:, factor])[0, 1] for row in values.values()]
        assert sizes[0] == pytest.approx(max(np.square(every)), rel=1e-4)
        for one in loadings:
            true = np.corrcoef(values[one.digest], shared.grouped.everyone.loadings[:, factor])[0, 1]
            assert one.share == pytest.approx(np.sign(true) * true**2, abs=1e-5)


def test_a_table_whose_values_do_not_differ_loads_on_nothing(known: tuple[Corpus, SharedFactors]) -> None:
    corpus, shared = known
    shard = corpus.shards(shared.key)[0].take(np.arange(1))
    still = replace(shard, values=np.zeros_like(shard.values))
    assert [one[0].share for one in strongest([still], shared, most=1)] == [0.0] * shared.rank
