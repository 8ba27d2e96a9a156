"""Factors of a corpus: learned from its sketches, kept by version, and used by everybody but those who taught them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from saibot.errors import InvalidInput
from saibot.search import Corpus
from saibot.search.learning import is_due, learn
from saibot.search.shared_factors import read_factors
from tests.support.shared_tables import SHARED, World, providers_of, world


@pytest.fixture
def made(tmp_path: Path) -> Callable[[World], Corpus]:
    def make(world: World) -> Corpus:
        corpus = Corpus.create(tmp_path / f"corpus{len(list(tmp_path.iterdir()))}")
        assert corpus.add(world.sketches) == []
        return corpus

    return make


def test_values_come_nearer_to_the_truth_and_stay_so_when_the_corpus_is_opened_again(made) -> None:
    corpus = made(world())
    before = world().agreement(corpus)
    (id,) = learn(corpus, providers=providers_of(world()))
    after = world().agreement(corpus)
    assert corpus.factors(id).rank == SHARED
    assert after > before + 0.1
    again = Corpus(corpus.folder)
    assert world().agreement(again) == after
    assert learn(again, providers=providers_of(world())) == []  # nothing is due


def test_tables_that_share_nothing_keep_the_values_that_each_gives_by_itself(made) -> None:
    alone = world(shared=0.0)
    corpus = made(alone)
    (id,) = corpus.key_ids
    before = np.concatenate([shard.values for shard in corpus.shards(id)])
    learn(corpus, providers=providers_of(alone))
    after = {str(d): row for shard in corpus.shards(id) for d, row in zip(shard.text["digest"], shard.values, strict=True)}
    assert corpus.factors(id).rank == 0
    assert {shard.factors for shard in corpus.shards(id)} == {""}
    ordered = np.array([after[sketch.digest] for sketch in alone.sketches])
    assert np.array_equal(ordered, before)


def test_too_few_sketches_teach_nothing(made) -> None:
    few = World(world().sketches[:5], world().truth)
    corpus = made(few)
    (id,) = learn(corpus)
    assert corpus.factors(id).rank == 0 and corpus.factors(id).taught == ()


def test_a_provider_sees_values_that_its_own_sketches_did_not_improve(made) -> None:
    corpus = made(world())
    (id,) = learn(corpus, providers=providers_of(world()))
    shared = corpus.factors(id)
    own = corpus.for_provider("provider3")
    group = shared.group_of("provider3")
    assert {shard.factors for shard in own.shards(id)} == {f"{shared.version}@{group}"}
    assert {shard.factors for shard in corpus.shards(id)} == {shared.version}
    assert {shard.factors for shard in corpus.for_provider("somebody else").shards(id)} == {shared.version}
    assert world().agreement(own) > 0.9 * world().agreement(corpus)


def test_a_sketch_that_comes_later_is_improved_by_the_factors_there_are(made) -> None:
    first, last = world().sketches[:-1], world().sketches[-1]
    corpus = made(World(first, world().truth))
    (id,) = learn(corpus, providers=providers_of(world()))
    version = corpus.factors(id).version
    corpus.add([last])
    assert not is_due(corpus, id)
    assert {shard.factors for shard in corpus.shards(id)} == {version}
    assert last.digest in {str(d) for s in corpus.for_provider("provider0").shards(id) for d in s.text["digest"]}


def test_a_domain_that_grew_by_a_fifth_is_due_again(made) -> None:
    corpus = made(World(world().sketches[:20], world().truth))
    (id,) = learn(corpus)
    corpus.add(world().sketches[20:23])
    assert not is_due(corpus, id)
    corpus.add(world().sketches[23:])
    assert is_due(corpus, id)


def test_what_is_withdrawn_is_out_of_the_next_version_and_its_factors_are_deleted(made) -> None:
    corpus = made(world())
    (id,) = learn(corpus, providers=providers_of(world()))
    gone, version = world().sketches[0].digest, corpus.factors(id).version
    assert gone in corpus.factors(id).taught
    corpus.remove(gone)
    assert is_due(corpus, id)
    learn(corpus, providers=providers_of(world()))
    assert gone not in corpus.factors(id).taught
    assert version not in {path.stem for path in (corpus.folder / "factors").iterdir()}
    with pytest.raises(InvalidInput, match="no factors"):
        Corpus(corpus.folder).factors_named(version)


def test_a_sketch_that_may_not_teach_learns_all_the_same(made) -> None:
    corpus = made(world())
    quiet = world().sketches[0].digest
    (id,) = learn(corpus, teachers={sketch.digest for sketch in world().sketches} - {quiet})
    assert quiet not in corpus.factors(id).taught
    improved = next(shard for shard in corpus.shards(id) if quiet in shard.text["digest"])
    assert improved.factors == corpus.factors(id).version


def test_factors_are_read_back_as_they_were_and_nothing_else_is_taken_for_them(made) -> None:
    corpus = made(world())
    (id,) = learn(corpus, providers=providers_of(world()))
    shared = corpus.factors(id)
    again = read_factors(shared.content, shared.version)
    assert again.content == shared.content and again.grouped.group == shared.grouped.group
    with pytest.raises(InvalidInput, match="not the factors"):
        read_factors(shared.content + b" ", shared.version)
    rng = np.random.default_rng(0)
    for _ in range(200):
        broken = bytearray(shared.content)
        for place in rng.integers(0, len(broken), 3):
            broken[place] ^= int(rng.integers(1, 256))
        version = hashlib.sha256(bytes(broken)).hexdigest()
        try:
            found = read_factors(bytes(broken), version)
        except InvalidInput:
            continue
        assert np.isfinite(found.grouped.everyone.loadings).all()
