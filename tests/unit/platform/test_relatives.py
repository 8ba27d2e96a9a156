"""What a dataset is related to, to whom: nobody hears of a dataset that is not there for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.errors import NotFound
from saibot.platform.service import Platform

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
