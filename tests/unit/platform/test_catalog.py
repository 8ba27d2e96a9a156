"""Listing and counting give the same whichever way is taken to them: walking the list, or fetching by a rare term."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from saibot.platform import Settings
from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.catalog import SORTS, Filter
from saibot.platform.clock import now
from saibot.platform.describe import words_of
from saibot.platform.service import Platform
from saibot.platform.storage.tables import datasets, grants
from saibot.sketch import Sketch, read_sketch, write_sketch

GOLDEN = Path(__file__).parents[2] / "contract" / "golden"
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


def test_remembered_counts_are_those_of_whoever_may_know_of_the_same(
    platform: Platform, provider: Caller, named: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saibot.platform.catalog.MANY", 0)
    one, other = (Caller(name, frozenset({"requester"}), f"t-{name}") for name in ("one", "other"))
    platform.accept(provider, named("for-all"))
    private, _ = platform.accept(provider, named("for-one"), visibility="granted")

    def totals() -> list[int]:
        return [platform.catalog.facets(who, Filter())["total"] for who in (one, other, provider, NOBODY)]

    assert totals() == [1, 1, 2, 1]
    with platform.database.write() as connection:
        number = connection.execute(select(datasets.c.number).where(datasets.c.id == private.id)).scalar_one()
        connection.execute(insert(grants).values(dataset=number, account="one", since=now()))
    assert totals() == [2, 1, 2, 1]
    assert platform.catalog.tables(one, Filter()) == 2 and platform.catalog.tables(other, Filter()) == 1
    counted = platform.catalog._counts.get((Caller(roles=frozenset({"requester"})), Filter()))
    assert counted is not None and counted["total"] == 1  # one answer for all requesters who have nothing of their own


def test_a_grant_that_comes_while_counting_is_counted_for_nobody_else(
    platform: Platform, provider: Caller, named: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saibot.platform.catalog.MANY", -1)
    one, other = (Caller(name, frozenset({"requester"}), f"t-{name}") for name in ("one", "other"))
    platform.accept(provider, named("for-one"), visibility="granted")
    count = platform.catalog._count

    def granted_meanwhile(caller: Caller, filter: Filter) -> dict[str, Any]:
        with platform.database.write() as connection:
            number = connection.execute(select(datasets.c.number)).scalar_one()
            connection.execute(insert(grants).values(dataset=number, account="one", since=now()))
        return count(caller, filter)

    monkeypatch.setattr(platform.catalog, "_count", granted_meanwhile)
    platform.catalog.facets(one, Filter())
    assert platform.catalog.facets(other, Filter())["total"] == 0


# ---------------------------------------------------------------------------------------------- one table, several sketches


def of_account(name: str, *, epsilon: str | None = None, delta: str = "1e-6", dataset: str | None = None) -> bytes:
    """A golden sketch that names its account; with another total, or of another table."""
    sketch = read_sketch(GOLDEN / f"v2-{name}.saibot")
    facts = sketch.header.dataset.model_copy(update={"name": dataset or sketch.header.dataset.name})
    changed: dict[str, Any] = {"dataset": facts}
    if epsilon is not None:
        changed["spent"] = {"epsilon": epsilon, "delta": delta}
    return write_sketch(Sketch(sketch.header.model_copy(update=changed), sketch.levels).sealed())


def shown(platform: Platform, caller: Caller, id: str) -> dict[str, Any]:
    """As the dataset is shown by itself, and, which must be the same, in the list."""
    alone = platform.catalog.show(caller, id)
    listed = {one["id"]: one for one in map(json.loads, platform.catalog.list(caller, Filter()).items)}
    assert listed[id] == {name: value for name, value in alone.items() if name != "versions"}
    return alone


def keys_of(document: dict[str, Any]) -> list[str]:
    return [key["name"] for key in document["keys"]]


def test_a_table_by_several_keys_says_all_of_them_and_what_all_of_it_cost(platform: Platform, provider: Caller) -> None:
    day, _ = platform.accept(provider, of_account("lookup-levels"))
    assert (keys_of(day.to_json()), str(day.spent)) == (["day"], "ε=1, δ=1e-6")
    port, _ = platform.accept(provider, of_account("semiring-composite"))
    assert keys_of(port.to_json()) == ["port_weekday", "day"] and str(port.spent) == "ε=1.45468, δ=1e-6"
    first = shown(platform, NOBODY, day.id)
    assert keys_of(first) == ["day", "port_weekday"] and first["spent"] == {"epsilon": "1.45468", "delta": "1e-6"}
    assert first["key"]["name"] == "day" and first["account"] == port.account and first["open"] is False
    platform.withdraw(provider, port.id)
    left = shown(platform, NOBODY, day.id)
    assert keys_of(left) == ["day"] and left["spent"] == {"epsilon": "1", "delta": "1e-6"}


def test_the_largest_total_counts_whatever_came_first_and_whichever_table_it_is_of(
    platform: Platform, provider: Caller
) -> None:
    late, _ = platform.accept(provider, of_account("lookup-levels", epsilon="3.5"))
    other, _ = platform.accept(provider, of_account("lookup-levels", epsilon="1.25", dataset="bills"))
    assert other.spent is not None and other.spent.epsilon == "3.5" and keys_of(other.to_json()) == ["day"]
    platform.accept(provider, of_account("lookup-levels", epsilon="1.5"))  # a version of the first
    assert shown(platform, NOBODY, late.id)["spent"]["epsilon"] == "3.5"


def test_a_total_with_delta_is_later_than_one_without(platform: Platform, provider: Caller) -> None:
    """Laplace releases alone have no delta; with the first Gaussian one epsilon is at the cap's delta, and may be less."""
    early, _ = platform.accept(provider, of_account("union-laplace", epsilon="2", delta="0"))
    platform.accept(provider, of_account("union-laplace", epsilon="1.75", delta="1e-6", dataset="bills"))
    assert shown(platform, NOBODY, early.id)["spent"] == {"epsilon": "1.75", "delta": "1e-6"}


def test_nobody_can_say_what_another_providers_account_has_spent(platform: Platform, provider: Caller) -> None:
    own, _ = platform.accept(provider, of_account("lookup-levels"))
    rival = Caller("rival", frozenset({"provider"}), "t-rival")
    platform.accept(rival, of_account("semiring-composite", epsilon="1000"))
    seen = shown(platform, NOBODY, own.id)
    assert keys_of(seen) == ["day"] and seen["spent"]["epsilon"] == "1"


def test_a_restricted_key_is_told_to_those_who_may_know_and_counts_for_all(platform: Platform, provider: Caller) -> None:
    day, _ = platform.accept(provider, of_account("lookup-levels"))
    platform.accept(provider, of_account("semiring-composite"), visibility="restricted")
    assert keys_of(shown(platform, NOBODY, day.id)) == ["day"]
    assert keys_of(shown(platform, REQUESTER, day.id)) == ["day", "port_weekday"]
    for caller in (NOBODY, REQUESTER):
        assert shown(platform, caller, day.id)["spent"]["epsilon"] == "1.45468"


def test_a_sketch_of_version_1_has_its_key_and_no_account(platform: Platform, provider: Caller, named: Any) -> None:
    old, _ = platform.accept(provider, named("old"))
    seen = shown(platform, NOBODY, old.id)
    assert (keys_of(seen), seen["account"], seen["spent"]) == (["day"], None, None)
