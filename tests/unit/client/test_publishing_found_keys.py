"""Keys that were found in rows travel with their sketch: typed, published, and met by somebody who spells the same keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client import Provider
from saibot.client.discovering import discover
from saibot.embedded import embedded
from saibot.errors import InvalidInput
from saibot.privacy import Budget, Spent
from saibot.privacy.events import event_from_json
from saibot.privatize import Card
from saibot.search import Corpus

CARD = """
[dataset]
name = "{name}"
neighbours = "replace-one"
[features]
spent = {{ bounds = [0, 10] }}
[keys.town]
domain = {{ {domain} }}
"""
TOWNS = [f"town {number}" for number in range(8)]


def rows(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    towns = rng.integers(0, len(TOWNS), 4000)
    frame = pd.DataFrame({"town": [TOWNS[town] for town in towns], "spent": np.clip(towns + rng.normal(1, 1, 4000), 0, 10)})
    return pd.concat([frame, pd.DataFrame({"town": ["where only Anna lives"], "spent": [3.0]})])


def typed(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def test_a_plan_says_how_many_individuals_a_key_takes() -> None:
    text = " ".join(typed("plan", "--find", "0.2").split())
    assert "Keys are found: it takes about 85 individuals with one key" in text
    document = json.loads(typed("plan", "--find", "0.2", "--buy", "0.1", "--json"))
    events = [event_from_json(event) for event in document["events"]]
    assert [event.to_json()["kind"] for event in events] == ["keys", "choice", "gaussian"]
    assert Spent.of(events).within(Budget("1", "1e-6")) and not Spent.of(events).within(Budget("0.998", "1e-6"))
    assert document["finding"]["least_individuals"] == 85


def test_found_keys_are_typed_released_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows(0).to_csv("shops.csv", index=False)
    Path("shops.toml").write_text(CARD.format(name="shops", domain='find = "town"'))
    asked = ("privatize", "shops.csv", "--key", "town", "--epsilon", "1")
    assert "about 85 individuals" in " ".join(typed(*asked, "--dry-run").split())
    told = typed(*asked)
    assert "found 8 keys of town: the list found:town:" in told and "Anna" not in told
    assert "found:town:" in typed("domains", "list")
    assert b"Anna" not in Path("shops-town.saibot").read_bytes()


def test_what_was_found_is_published_with_the_sketch_and_joins_the_same_keys_of_others(tmp_path: Path) -> None:
    cards: dict[str, Any] = {}
    domains = {"shops": 'find = "town"', "farms": 'find = "town"', "roads": 'find = "road"'}
    for name, domain in domains.items():
        (tmp_path / f"{name}.toml").write_text(CARD.format(name=name, domain=domain))
        cards[name] = Card.read(tmp_path / f"{name}.toml")
    with embedded(tmp_path / "platform") as platform:
        corpus, sketches = Corpus.create(tmp_path / "corpus"), []
        for seed, name in enumerate(cards):
            provider = Provider(platform.as_account(name, ["provider"]), tmp_path / f"ledger of {name}", note=str)
            sketch = provider.privatize(rows(seed)[seed * 500 :], cards[name], epsilon="1", key="town")
            dataset = provider.publish(sketch, card=cards[name])
            (part,) = dataset.key.parts  # type: ignore[union-attr]
            assert platform.domain(part.domain, 1).values == tuple(TOWNS)
            sketches.append(sketch)
        with pytest.raises(InvalidInput, match="does not give the key domain"):
            provider.publish(sketches[0], card=cards["roads"].model_copy(update={"keys": {}}))
        assert corpus.add(sketches) == []
    assert [join.name for join in discover(sketches[0], corpus).joins] == ["farms"], "roads are no towns, whatever they say"
