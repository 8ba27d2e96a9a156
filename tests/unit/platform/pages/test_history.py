"""Version history and citation say what the sketches themselves tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from saibot.platform.pages.cite import bibtex, sentence
from saibot.platform.pages.history import changes, history
from saibot.platform.pages.sketch_facts import SketchFacts, facts_of
from saibot.sketch import read_sketch

GOLDEN = Path(__file__).parents[3] / "contract" / "golden"
FACTS = facts_of(read_sketch(GOLDEN / "lookup-levels.saibot"))


class Reader:
    def __init__(self, **facts: SketchFacts) -> None:
        self.facts = facts

    def read(self, digest: str) -> SketchFacts | None:
        return self.facts.get(digest)


def test_each_version_says_what_is_new_and_the_first_how_it_began() -> None:
    features = dict(FACTS.features)
    name, (lower, upper) = next(iter(features.items()))
    now = replace(
        FACTS,
        rows=(FACTS.rows or 0) + 7,
        features=features | {name: (lower, upper + 1), "snow": (0.0, 1.0)},
        budget={"epsilon": "3", "delta": "1e-6"},
        mechanism="fpm, semiring",
        levels=(),
    )
    told = "; ".join(changes(FACTS, now))
    for words in ("rows became", "new feature snow", f"{name} is now within", "ε 3", "became fpm", "levels: none"):
        assert words in told
    assert "without feature snow" in changes(now, FACTS)
    versions = [{"version": 2, "digest": "b"}, {"version": 1, "digest": "a"}]
    found = history(versions, Reader(a=FACTS, b=FACTS))  # type: ignore[arg-type]
    assert found[0]["changes"] == ["the same shape: fresh rows or fresh noise"]
    assert found[1]["changes"][0].startswith("first version: ")
    assert history(versions, Reader(b=FACTS))[0]["changes"] == ["one of the two sketches is gone"]  # type: ignore[arg-type]


def test_a_citation_names_version_digest_and_budget_and_stays_one_entry() -> None:
    dataset = {
        "id": "d1",
        "provider": "weather service",
        "name": "nyc-weather",
        "title": "Weather} of {New\\York",
        "key": {"name": "day"},
        "version": 2,
        "published": "2026-01-02T03:04:05Z",
        "digest": "ab" * 32,
        "budget": {"epsilon": "1", "delta": "1e-6"},
        "open": False,
        "source": "",
    }
    told = sentence(dataset, "https://p.example")
    assert "weather service (2026)." in told and "version 2" in told and "epsilon 1" in told
    assert told.endswith("https://p.example/datasets/d1")
    entry = bibtex(dataset, "https://p.example")
    assert entry.startswith("@misc{weather-service-nyc-weather-v2,") and "title = {Weather of NewYork}" in entry
    assert entry.count("{") == entry.count("}")
    public = dataset | {"budget": None, "open": True, "source": "Census Bureau, 2020"}
    assert all(
        "Census Bureau, 2020" in text and "epsilon" not in text for text in (sentence(public, ""), bibtex(public, ""))
    )
