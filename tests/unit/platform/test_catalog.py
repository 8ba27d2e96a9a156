"""Listing and counting give the same whichever way is taken to them: walking the list, or fetching by a rare term."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from saibot.platform import Settings
from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.catalog import SORTS, Filter
from saibot.platform.describe import words_of
from saibot.platform.service import Platform

WORDS = ["air", "airport", "rain", "Röntgen", "river", "old", "new"]
REQUESTER = Caller("asker", frozenset({"requester"}), "t1")


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory, named: Callable[..., bytes]) -> Iterator[tuple[Platform, list[Any]]]:
    """A platform with many datasets, and all of them as they were published, with their words."""
    data = tmp_path_factory.mktemp("catalog")
    platform = Platform(Settings(data=data, pages=False, accept_unsafe=True, log_level="error", workers=1))
    rng = random.Random(1)
    published = []
    for number in range(120):
        provider = Caller(f"agency-{number % 4}", frozenset({"provider"}), "t")
        title = " ".join(rng.choices(WORDS, [5, 1, 4, 2, 3, 30, 30], k=3))
        visibility = "restricted" if number % 7 == 0 else "public"
        dataset, _ = platform.accept(provider, named(f"set-{number}", title=title), visibility=visibility)  # type: ignore[arg-type]
        published.append(dataset.to_json())
    yield platform, published
    platform.close()


FILTERS = [
    Filter(),
    Filter(q="old"),
    Filter(q="ai"),
    Filter(q="airp OLD"),
    Filter(q="röntgen new"),
    Filter(q="rain river air"),
    Filter(q="nothing"),
    Filter(provider="agency-2"),
    Filter(provider="agency-9"),
    Filter(feature="DELAY", q="new"),
    Filter(domain="dates:2013-01-30:2013-02-03", provider="agency-1", q="set o"),
]


def fits(document: dict[str, Any], filter: Filter, caller: Caller) -> bool:
    features = [feature["name"] for feature in document["features"]]
    domains = [part["domain"] for part in document["key"]["parts"]]
    texts = [document["name"], document["title"], document["provider"], *features, *domains]
    words = [word for text in texts for word in words_of(text)]
    return (
        (document["visibility"] == "public" or caller is REQUESTER)
        and all(any(word.startswith(wanted) for word in words) for wanted in words_of(filter.q or ""))
        and filter.provider in (None, document["provider"])
        and (filter.feature is None or filter.feature.lower() in features)
        and (filter.domain is None or filter.domain in domains)
    )


@pytest.mark.parametrize("window", [12_000, 60])
@pytest.mark.parametrize("caller", [NOBODY, REQUESTER])
def test_every_way_to_list_and_count_finds_the_same(
    stocked: tuple[Platform, list[Any]], window: int, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, published = stocked
    monkeypatch.setattr("saibot.platform.catalog.WINDOW", window)
    for filter in FILTERS:
        expected = [document for document in published if fits(document, filter, caller)]
        for sort in SORTS:
            found, place = [], None
            while True:
                page = platform.catalog.list(caller, filter, sort=sort, place=place, limit=7)  # type: ignore[arg-type]
                found += [json.loads(text) for text in page.items]
                place = page.next
                if place is None:
                    break
            assert sorted(d["name"] for d in found) == sorted(d["name"] for d in expected), (filter, sort)
            if sort in ("published", "name"):
                key = [d["published"] if sort == "published" else d["name"] for d in found]
                assert key == sorted(key, reverse=sort == "published")
        counts = platform.catalog.facets(caller, filter)
        assert counts["total"] == len(expected)
        assert sum(entry["count"] for entry in counts["providers"]) == len(expected)


def test_a_walk_is_really_taken_where_words_are_common(
    stocked: tuple[Platform, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, _ = stocked
    monkeypatch.setattr("saibot.platform.catalog.WINDOW", 60)
    monkeypatch.setattr(platform.catalog, "_fetched", None)
    assert len(platform.catalog.list(NOBODY, Filter(q="old"), limit=5).items) == 5


def test_counts_of_very_many_are_remembered_for_a_while(
    stocked: tuple[Platform, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, _ = stocked
    first = platform.catalog.facets(NOBODY, Filter(q="new"))
    monkeypatch.setattr("saibot.platform.catalog.MANY", 10)
    assert platform.catalog.facets(NOBODY, Filter(q="new")) == first
    monkeypatch.setattr(platform.catalog, "_count", None)
    assert platform.catalog.facets(NOBODY, Filter(q="new")) == first
