"""A search on Spark finds what a search by threads finds, also without a shard that is damaged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saibot.errors import InvalidInput
from saibot.search import Corpus, SearchOptions, search
from saibot.search.board import WantedBest
from saibot.search.engine import Engine
from saibot.search.greedy import first_states
from saibot.search.spark_sweep import Reading, survey
from tests.support.spark_world import KEYS, USEFUL, world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def test_the_best_of_20_000_sketches_are_those_that_threads_find(local_spark: Any, tmp_path: Path) -> None:
    corpus, request = world(tmp_path, candidates=20_000, shard=2_000, keys=300)
    train, _ = first_states(request)
    wanted = WantedBest(300, 2.0)
    here, there = (Engine(corpus, request, SearchOptions(engine=name)).best(train, wanted) for name in ("threads", "spark"))
    assert [group[0].digest for group in there.groups] == [group[0].digest for group in here.groups]
    for name in ("gain", "lower", "deviation", "coefficient"):
        np.testing.assert_allclose(getattr(there.board, name), getattr(here.board, name), rtol=1e-9)
    assert there.aside() == here.aside() and sum(one.count for one in here.aside()) > 10_000


@pytest.mark.parametrize(
    "options",
    [{"rank": "usable"}, {"rank": "potential"}, {"rank": "usable", "gain": "known"}, {"whole_datasets": True}, {}],
    ids=str,
)
def test_a_whole_search_has_the_same_result(local_spark: Any, tmp_path: Path, options: dict[str, Any]) -> None:
    corpus, request = world(tmp_path, candidates=1200, shard=100)
    here, there = (search(request, corpus, SearchOptions(engine=name, **options)) for name in ("threads", "spark"))
    assert there.ranked == here.ranked and there.steps == here.steps and there.dropped == here.dropped
    assert len(here.steps) >= USEFUL - 1 and there.candidates == here.candidates and there.stopped == here.stopped
    assert not any(one.dataset == "d1" for one in there.ranked), "its own dataset"


@pytest.mark.parametrize("engine", ["threads", "spark"])
def test_a_damaged_shard_is_left_out_and_named(local_spark: Any, tmp_path: Path, engine: Any) -> None:
    corpus, request = world(tmp_path, candidates=600, shard=100)
    whole = search(request, corpus, SearchOptions(engine="threads"))
    (names,) = corpus.files.values()
    damaged = tmp_path / "corpus" / "shards" / names[-1]
    os.truncate(damaged, damaged.stat().st_size // 2)
    found = search(request, Corpus(tmp_path / "corpus"), SearchOptions(engine=engine))
    assert found.candidates == whole.candidates - 100
    assert [step.found.dataset for step in found.steps] == [step.found.dataset for step in whole.steps]
    assert len(found.notes) == 1 and damaged.name in found.notes[0]


@pytest.mark.parametrize("engine", ["threads", "spark"])
def test_where_all_shards_are_damaged_there_is_nothing_to_answer(local_spark: Any, tmp_path: Path, engine: Any) -> None:
    corpus, request = world(tmp_path, candidates=200, shard=100)
    for path in (tmp_path / "corpus" / "shards").iterdir():
        path.write_bytes(b"no shard")
    with pytest.raises(InvalidInput, match="damaged") as refused:
        search(request, Corpus(corpus.folder), SearchOptions(engine=engine))
    assert "saibot pack" in str(refused.value.hint)


def test_a_shard_that_a_newer_one_replaced_asks_for_the_index_again(local_spark: Any, tmp_path: Path) -> None:
    corpus, request = world(tmp_path, candidates=200, shard=100)
    (names,) = corpus.files.values()
    (tmp_path / "corpus" / "shards" / names[0]).unlink()
    with pytest.raises(FileNotFoundError):
        search(request, corpus, SearchOptions(engine="spark"))


def test_executors_of_another_version_are_refused() -> None:
    reading = Reading("folder", ("corpus", 1), (KEYS,), (), whole_datasets=False, version="0.0.1")
    with pytest.raises(InvalidInput, match=r"and this is 0\.0\.1") as refused:
        survey(reading, [])
    assert "same version" in str(refused.value.hint)


def test_a_session_elsewhere_is_not_taken_for_the_cluster_that_was_named(local_spark: Any, tmp_path: Path) -> None:
    corpus, request = world(tmp_path, candidates=200, shard=100)
    with pytest.raises(InvalidInput, match="another master"):
        search(request, corpus, SearchOptions(engine="spark", master="spark://elsewhere:7077"))
