"""What joins or unions with a table, a sketch or a published dataset: in Python, in the shell, by HTTP and on the page."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client import Corpus, Provider
from saibot.client.discovering import discover
from saibot.embedded import embedded
from saibot.errors import InvalidInput
from saibot.privatize import Card

SCHOOLS = [f"s{i:02d}" for i in range(40)]


def card(name: str, features: dict[str, str], keys: list[str], id: str) -> Card:
    return Card.parse({
        "dataset": {"name": name, "neighbours": "replace-one"},
        "features": {feature: {"bounds": [0, 10], "unit": unit} for feature, unit in features.items()},
        "keys": {"school": {"domain": {"values": keys, "id": id}}},
    })  # fmt: skip


def rows(keys: list[str], features: dict[str, str], seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"school": rng.choice(keys, 300)} | {name: rng.uniform(0, 10, 300) for name in features})


DATASETS = {
    "mine": ({"score": "point"}, SCHOOLS, "schools"),
    "part": ({"meals": ""}, [key.upper() for key in SCHOOLS[:24]], "their-schools"),
    "twin": ({"Score": "point", "extra": ""}, [f"other{i}" for i in range(40)], "others"),
    "strange": ({"score": "inch"}, [f"strange{i}" for i in range(40)], "strangers"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    home = tmp_path_factory.mktemp("home")
    with embedded(home / "platform") as platform:
        provider = Provider(platform.as_account("provider", ["provider"]), home / "ledger")
        sketches, ids = {}, {}
        for seed, (name, (features, keys, id)) in enumerate(DATASETS.items()):
            facts = card(name, features, keys, id)
            sketches[name] = provider.privatize(
                rows(keys, features, seed), facts, epsilon="1", key="school", allocation="equal"
            )
            ids[name] = provider.publish(sketches[name], card=facts).id
        corpus = Corpus.create(home / "corpus")
        assert corpus.add(sketches.values()) == []
        table = home / "table.csv"
        rows(SCHOOLS, {"score": ""}).to_csv(table, index=False)
        yield {"platform": platform, "ids": ids, "sketches": sketches, "corpus": corpus, "table": table}


def test_a_sketch_finds_its_relatives_in_a_corpus_and_hears_why_others_are_none(world) -> None:
    found = discover(world["sketches"]["mine"], world["corpus"])
    (join,) = found.joins
    assert (join.name, join.share, join.on, join.features) == ("part", 0.6, ("school",), ("meals",))
    assert join.why == "joined on 60 % of the keys of schools (24 of 40), which their-schools lists in another case"
    assert join.signal is not None and 0 <= join.signal <= 1
    (union,) = found.unions
    assert union.name == "twin" and "score ↔ Score" in union.why
    (strange,) = found.unrelated
    assert strange.name == "strange" and len(strange.reasons) == 2
    assert "few or none of the keys of schools are among strangers" in strange.reasons[0] and "inch" in strange.reasons[1]


def test_a_table_finds_the_same_by_its_key_column_and_features(world) -> None:
    found = discover(world["table"], world["corpus"], keys=["school"])
    assert {one.name: one.share for one in found.joins} == {"mine": 1.0, "part": 0.6} and found.unions == ()
    described = card("own", {"score": "point"}, SCHOOLS, "schools")
    found = discover(world["table"], world["corpus"], features=["score"], card=described)
    assert {one.name for one in found.unions} == {"mine", "twin"} and found.joins == ()
    with pytest.raises(InvalidInput, match="name some"):
        discover(world["table"], world["corpus"])


def test_a_platform_answers_for_what_is_published_there(world) -> None:
    found = _packed(world, "part")
    (join,) = found["joins"]
    assert (join["name"], join["share"], join["on"], join["key"]) == ("part", 0.6, ["school"], "school")
    assert 0 <= join["signal"] <= 1
    assert join["why"].endswith("which their-schools lists in another case")
    (union,) = found["unions"]
    assert union["name"] == "twin" and "score ↔ Score" in union["why"]


def test_the_page_of_a_dataset_says_what_it_joins_with_and_how_far(world) -> None:
    _packed(world, "part")
    page = world["platform"].wire.send("GET", f"/datasets/{world['ids']['mine']}").text
    assert "60 % of the keys of schools (24 of 40)" in page


def test_the_shell_asks_a_corpus_and_never_sends_a_path_to_a_platform(world, monkeypatch) -> None:
    run = CliRunner()
    sketch = next(Path(world["corpus"].folder, "sketches").glob(f"{world['sketches']['mine'].digest}*"))
    done = run.invoke(app, ["discover", str(sketch), "--corpus", str(world["corpus"].folder)])
    assert done.exit_code == 0 and "60 %" in done.output and "neither: strange" in done.output
    args = ["discover", str(world["table"]), "--key", "school", "--corpus", str(world["corpus"].folder), "--json"]
    answer = json.loads(run.invoke(app, args).output)
    assert [one["name"] for one in answer["joins"]] == ["mine", "part"]
    monkeypatch.setattr("saibot.cli.discover.open_connection", lambda address: pytest.fail("it was asked"))
    assert isinstance(run.invoke(app, ["discover", "my-secret-table.csv"]).exception, InvalidInput)


def _packed(world, name: str) -> dict[str, Any]:
    """The answer of the platform once its shards know that dataset: they are packed in the background."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = world["platform"].related(world["ids"]["mine"]).model_dump(mode="json")
        if name in {one["name"] for one in found["joins"]}:
            return found
        time.sleep(0.1)
    pytest.fail(f"{name} was not found")
