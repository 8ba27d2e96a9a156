"""A platform learns what its tables share: by itself, from public tables alone, and for searches there and at home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from research.releases import Release
from saibot.client import Platform, Requester
from saibot.client.cache import SketchCache
from saibot.platform import Settings
from saibot.privacy import Budget
from saibot.privatize import Card
from saibot.privatize.noise import OpenDPNoise
from saibot.search.corpus import Corpus
from saibot.search.shared_factors import read_factors
from saibot.sketch import Sketch, write_sketch
from tests.support.shared_tables import DOMAIN, KEYS, world

TABLES = world(real=True)


@pytest.fixture(scope="module")
def server(start_in_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Eight providers with three tables each; the last table is restricted."""
    settings = Settings(
        data=tmp_path_factory.mktemp("shared") / "data", workers=1, pages=False, log_level="error", write_burst=10_000
    )
    for server in start_in_process(settings):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("saibot.platform.lessons.LESSON_SECONDS", 600.0)  # one lesson, about all
            server.ids = {}
            clients = [server.account("provider", "requester", name=f"provider{number}") for number in range(8)]
            for number, sketch in enumerate(TABLES.sketches):
                query = {"visibility": "restricted"} if number == len(TABLES.sketches) - 1 else {}
                answer = publish(clients[number % 8], sketch, **query)
                server.ids[sketch.digest] = answer["id"]
            shards = server.app.state.platform.shards
            shards.catch_up()
            shards.lessons.learn()
            server.providers = clients
            yield server


def publish(client: httpx.Client, sketch: Sketch, **query: str) -> dict[str, Any]:
    headers = {"Content-Type": "application/octet-stream"}
    answer = client.post("/v1/datasets", content=write_sketch(sketch), headers=headers, params=query)
    assert answer.status_code == 201, answer.text
    return answer.json()  # type: ignore[no-any-return]


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    place = rng.integers(0, KEYS, 3000)
    means = TABLES.truth[TABLES.sketches[0].digest]
    return pd.DataFrame(
        {"place": np.array(DOMAIN.values)[place], "y": np.clip(means[place] + 0.2 * rng.normal(size=3000), -1, 1)}
    )


def request_sketch() -> bytes:
    card = Card.parse({"dataset": {"name": "mine"}, "features": {"y": {"bounds": [-1, 1]}}})
    table = rows()
    place = np.array([DOMAIN.values.index(key) for key in table["place"]])
    release = Release(card, table[["y"]].to_numpy(), place, DOMAIN, Budget("1", "1e-6"))
    return write_sketch(release.sketch(OpenDPNoise()))


def version_in_use(server: Any) -> str:
    (entry,) = server.client().get("/v1/factors").json()["items"]
    return str(entry["version"])


def test_a_lesson_that_fails_leaves_no_values_behind(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be those of what was withdrawn meanwhile, too, until the next start."""
    shards = server.app.state.platform.shards
    before = {path.name for path in (shards.folder / "shards").iterdir()}
    written: list[str] = []

    def fails(prepared: Any) -> None:
        written.extend(name for one in prepared for _, name in one.files)
        assert written and all((shards.folder / "shards" / name).is_file() for name in written)
        raise OSError("no room")

    fewer = sorted(shards.lessons._teachers())[1:]
    monkeypatch.setattr(shards.lessons, "_teachers", lambda: set(fewer))  # something has changed, so it is learned anew
    monkeypatch.setattr(shards.lessons, "_install", fails)
    with pytest.raises(OSError, match="no room"):
        shards.lessons.learn()
    assert {path.name for path in (shards.folder / "shards").iterdir()} == before


def test_the_factors_in_use_are_listed_and_can_be_had_by_anybody(server: Any) -> None:
    (entry,) = server.client().get("/v1/factors").json()["items"]
    assert entry["factors"] >= 1 and entry["sketches"] == len(TABLES.sketches) - 1
    answer = server.client().get(f"/v1/factors/{entry['version']}")
    assert answer.status_code == 200 and len(answer.content) == entry["bytes"]
    shared = read_factors(answer.content, entry["version"])
    assert set(shared.grouped.group) == {f"provider{number}" for number in range(8)}
    assert server.client().get(f"/v1/factors/{'0' * 64}").status_code == 404


def test_a_restricted_table_teaches_nobody_and_is_improved_all_the_same(server: Any) -> None:
    version = version_in_use(server)
    shared = read_factors(server.client().get(f"/v1/factors/{version}").content, version)
    quiet = TABLES.sketches[-1].digest
    assert quiet not in shared.taught
    corpus = Corpus(server.settings.data / "corpus")
    (shard,) = [shard for shard in corpus.shards(shared.key) if quiet in shard.text["digest"]]
    assert shard.factors == version


def test_a_search_there_uses_them_and_a_provider_gets_those_that_it_did_not_teach(server: Any, verbs: Any) -> None:
    train, version = request_sketch(), version_in_use(server)
    found = {}
    for client in (server.account("requester", name="stranger"), server.providers[3]):
        job = client.post(
            "/v1/searches",
            files={"train": ("train.saibot", train)},
            data={"options": '{"target": "y", "steps": 1}'},
        ).json()
        assert "id" in job, job
        assert verbs.wait(client, job["id"])["status"] == "done"
        result = client.get(f"/v1/searches/{job['id']}/result").json()
        found[client.account] = {column["factors"] for column in result["columns"]}
    assert found["stranger"] == {version}
    (own,) = found["provider3"]
    assert own.startswith(f"{version}@")


def test_a_search_at_home_gets_the_same_values(server: Any, tmp_path: Path) -> None:
    client = server.client()
    platform = Platform("http://platform", transport=client._transport)
    requester = Requester(platform, cache=SketchCache(tmp_path))
    found = requester.search(rows(), target="y", key="place", local=True)
    version = version_in_use(server)
    assert {column.factors for column in found.result.columns} == {version}
    joined = found.augment(pd.DataFrame({"place": DOMAIN.values}))
    chosen = found.result.columns[0]
    corpus = Corpus(server.settings.data / "corpus")
    there = next(
        (shard, int(row))
        for id in corpus.key_ids
        for shard in corpus.shards(id)
        for row in np.flatnonzero(shard.text["digest"] == chosen.digest)
    )
    values = there[0].numbers["mean"][there[1]] + there[0].values[there[1]][:-1]
    assert np.allclose(joined[chosen.name], values, atol=1e-5)


def test_what_is_withdrawn_is_out_of_the_next_version(server: Any) -> None:
    gone = TABLES.sketches[5].digest
    before = version_in_use(server)
    assert server.providers[5].delete(f"/v1/datasets/{server.ids[gone]}").status_code == 204
    server.app.state.platform.shards.lessons.learn()
    after = version_in_use(server)
    assert after != before
    assert gone not in read_factors(server.client().get(f"/v1/factors/{after}").content, after).taught
    assert server.client().get(f"/v1/factors/{before}").status_code == 404
