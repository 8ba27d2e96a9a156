"""A result that shared factors helped is used with the very values that it was found with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from saibot.client import Augmented, find_augmentation, local_request
from saibot.errors import InvalidInput
from saibot.search import Corpus, SearchOptions
from saibot.search.learning import learn
from tests.support.shared_tables import DOMAIN, KEYS, World, providers_of, world


@pytest.fixture
def learned(tmp_path: Path) -> Corpus:
    corpus = Corpus.create(tmp_path / "corpus")
    corpus.add(world().sketches)
    learn(corpus, providers=providers_of(world()))
    return corpus


def rows(means: np.ndarray | None = None) -> pd.DataFrame:
    """A table whose target follows these means of keys, by default the first table's."""
    rng = np.random.default_rng(1)
    place = rng.integers(0, KEYS, 2000)
    means = world().truth[world().sketches[0].digest] if means is None else means
    return pd.DataFrame({"place": np.array(DOMAIN.values)[place], "y": means[place] + 0.2 * rng.normal(size=2000)})


def searched(corpus: Corpus, means: np.ndarray | None = None, **options: object) -> Augmented:
    request = local_request(rows(means), target="y", keys={"place": DOMAIN}, features=[])
    return find_augmentation(request, corpus, SearchOptions(**options))


def test_a_result_names_the_factors_that_helped_and_joins_those_values(learned: Corpus) -> None:
    found = searched(learned)
    (id,) = learned.key_ids
    assert found.result.columns and {column.factors for column in found.result.columns} == {learned.factors(id).version}
    column = found.result.columns[0]
    shard, row = next(
        (shard, place)
        for shard in learned.shards(id)
        for place, digest in enumerate(shard.text["digest"])
        if digest == column.digest
    )
    keys = pd.DataFrame({"place": DOMAIN.values})
    joined = found.augment(keys)[column.name].to_numpy()
    assert np.allclose(joined, shard.numbers["mean"][row] + shard.values[row][:-1], atol=1e-6)


def test_a_corpus_that_has_learned_since_still_gives_the_values_of_then(learned: Corpus, tmp_path: Path) -> None:
    found = searched(learned)
    found.save(tmp_path / "result.json")
    keys = pd.DataFrame({"place": DOMAIN.values})
    before = found.augment(keys)
    (id,) = learned.key_ids
    version = learned.factors(id).version
    more = world(tables=30, seed=8)
    learned.add(more.sketches)
    learn(learned)
    assert learned.factors(id).version != version
    after = Augmented.load(tmp_path / "result.json", Corpus(learned.folder)).augment(keys)
    pd.testing.assert_frame_equal(before, after, atol=1e-6)


def test_a_result_whose_factors_are_gone_is_refused_with_what_to_do(learned: Corpus) -> None:
    found = searched(learned)
    chosen = {column.digest for column in found.result.columns}
    gone = next(sketch.digest for sketch in world().sketches if sketch.digest not in chosen)
    learned.remove(gone)
    learn(learned)
    with pytest.raises(InvalidInput, match="no factors") as refusal:
        Augmented(found.result, Corpus(learned.folder)).augment(pd.DataFrame({"place": DOMAIN.values}))
    assert "search again" in str(refusal.value)


def test_what_tables_have_in_common_can_be_joined_as_columns(learned: Corpus) -> None:
    (id,) = learned.key_ids
    common = learned.factors(id).grouped.everyone.loadings[:, 0]
    found = searched(learned, common, shared=True)
    names = {entry.dataset for entry in found.result.ranked}
    assert f"shared:{DOMAIN.id}" in names
    taken = [column for column in found.result.columns if column.dataset.startswith("shared:")]
    assert taken
    values = found.augment(pd.DataFrame({"place": DOMAIN.values}))[taken[0].name].to_numpy()
    loadings = learned.factors(id).grouped.everyone.loadings[:, int(taken[0].feature) - 1]
    assert abs(np.corrcoef(values, loadings)[0, 1]) > 0.999
    assert not any(entry.dataset.startswith("shared:") for entry in searched(learned, common).result.ranked)


def test_a_request_of_a_published_dataset_is_judged_by_values_that_its_provider_did_not_improve(learned: Corpus) -> None:
    request = local_request(rows(), target="y", keys={"place": DOMAIN}, features=[])
    found = find_augmentation(request, learned, account="provider2")
    (id,) = learned.key_ids
    group = learned.factors(id).group_of("provider2")
    assert {column.factors for column in found.result.columns} == {f"{learned.factors(id).version}@{group}"}
    again = found.augment(pd.DataFrame({"place": DOMAIN.values}))
    assert len(again.columns) == 1 + len(found.result.columns)


def test_a_corpus_where_nothing_is_shared_gives_results_without_factors(tmp_path: Path) -> None:
    alone = world(shared=0.0)
    corpus = Corpus.create(tmp_path / "alone")
    corpus.add(World(alone.sketches, alone.truth).sketches)
    learn(corpus)
    request = local_request(rows(), target="y", keys={"place": DOMAIN}, features=[])
    found = find_augmentation(request, corpus, SearchOptions(always_first=True, steps=1))
    assert {column.factors for column in found.result.columns} == {None}
