"""A machine of a Spark cluster dies while a search runs: the answer is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saibot.search import Corpus, SearchOptions, SearchRequest, search
from saibot.spark_session import open_session
from tests.support.spark import Cluster, executors_up, needed_spark, standalone
from tests.support.spark_world import world

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(240)]


def test_a_worker_that_is_killed_half_way_changes_nothing(tmp_path: Path) -> None:
    needed_spark()
    corpus, request = world(tmp_path, candidates=4000, shard=200)
    expected = search(request, corpus, SearchOptions(engine="threads"))
    (tmp_path / "cluster").mkdir()
    with standalone(tmp_path / "cluster", workers=2) as cluster:
        found = _searched_while_one_dies(cluster, corpus, request)
    assert found.ranked == expected.ranked and found.steps == expected.steps and len(found.steps) >= 2


def _searched_while_one_dies(cluster: Cluster, corpus: Corpus, request: SearchRequest) -> Any:
    session = open_session(cluster.master)
    try:
        executors_up(session.sparkContext, 2)

        def progress(stage: str, part: float | None) -> None:
            if stage.startswith("step 2"):
                cluster.kill_worker()

        options = SearchOptions(engine="spark", master=cluster.master)
        found = search(request, corpus, options, progress=progress)
        assert len(cluster.workers) == 1
        return found
    finally:
        session.stop()
