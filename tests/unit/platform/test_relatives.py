"""What a dataset is related to, to whom: nobody hears of a dataset that is not there for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from saibot.domains import named_domain
from saibot.domains.vocabularies import finer_lists
from saibot.platform import relatives
from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.errors import NotFound
from saibot.platform.service import Platform
from saibot.sketch import write_sketch
from tests.support.shared_tables import world

READER = Caller("reader", frozenset({"requester"}), "t-reader")


def names(platform: Platform, caller: Caller, id: str, *, limit: int = 20) -> tuple[list[str], list[str]]:
    found = platform.relatives.of(caller, id, limit=limit)
    return [one.name for one in found.joins], [one.name for one in found.unions]


def test_relatives_are_there_at_once_and_after_packing_and_gone_when_withdrawn(
    platform: Platform, provider: Caller, named: Callable[..., bytes]
) -> None:
    ids = {name: platform.accept(provider, named(name))[0].id for name in ("a", "b")}
    assert names(platform, provider, ids["a"]) == (["b"], ["b"])  # not packed yet
    platform.shards.catch_up()
    (join,) = platform.relatives.of(provider, ids["a"], limit=20).joins
    assert join.share == 1.0 and join.why.startswith("joined on all ")
    platform.withdraw(provider, ids["b"])
    assert names(platform, provider, ids["a"]) == ([], [])


def test_a_restricted_dataset_is_a_relative_only_for_those_who_may_see_it(
    platform: Platform, provider: Caller, named: Callable[..., bytes]
) -> None:
    shown = platform.accept(provider, named("shown"))[0].id
    hidden = platform.accept(provider, named("hidden"), visibility="restricted")[0].id
    platform.shards.catch_up()
    assert names(platform, NOBODY, shown) == ([], [])
    assert names(platform, READER, shown) == (["hidden"], ["hidden"])
    with pytest.raises(NotFound):
        platform.relatives.of(NOBODY, hidden, limit=20)


def test_no_more_are_named_than_were_asked_for(platform: Platform, provider: Caller, named: Callable[..., bytes]) -> None:
    first, *_ = [platform.accept(provider, named(name))[0].id for name in "abcd"]
    joins, unions = names(platform, provider, first, limit=2)
    assert len(joins) == len(unions) == 2


def test_lists_that_nest_name_each_other() -> None:
    assert finer_lists("us-state") == ["us-county-fips"], "the same states by number are no finer"
    assert finer_lists("us-county-fips") == [] and finer_lists("nyc-dbn") == []


def test_a_dataset_by_state_names_those_by_county_and_not_the_other_way_round(platform: Platform, provider: Caller) -> None:
    ids = {}
    for id in ("us-state", "us-county-fips"):
        sketch = world(domain=named_domain(id), name=id, rows_per_table=400, tables=1).sketches[0]
        ids[id] = platform.accept(provider, write_sketch(sketch))[0].id
    shown = {id: platform.catalog.show(provider, ids[id]) for id in ids}
    (finer,) = platform.relatives.finer(provider, shown["us-state"], limit=6)
    assert finer["id"] == ids["us-county-fips"] and "Counties of the United States" in finer["why"]
    assert platform.relatives.finer(provider, shown["us-county-fips"], limit=6) == []


def test_rows_that_meet_by_the_same_key_are_not_said_to_have_another(
    platform: Platform, provider: Caller, named: Callable[..., bytes]
) -> None:
    id, _ = [platform.accept(provider, named(name))[0].id for name in ("a", "b")]
    (union,) = platform.relatives.of(provider, id, limit=6).unions
    assert "key" not in union.why


def test_headers_of_others_are_read_up_to_a_bound(
    platform: Platform, provider: Caller, named: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three hundred headers with a thousand features each would be half a minute of work for one answer."""
    ids = [platform.accept(provider, named(name))[0].id for name in "abcdef"]
    features = len(platform.show(provider, ids[0])["features"])
    monkeypatch.setattr(relatives, "PRODUCTS", 2 * (features * (features + 1) // 2))
    assert len(names(platform, provider, ids[0])[1]) == 2
