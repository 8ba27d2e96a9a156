"""The shards follow what is published, in this process or in another, and are rebuilt where they are damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.packing import Packing
from saibot.platform.service import Platform
from saibot.search.corpus import Corpus
from saibot.sketch import SUFFIX, read_sketch, write_sketch
from tests.support.fabricating import renamed
from tests.support.serving import ADMIN


def searched(platform: Platform) -> list[str]:
    """Names of the datasets in the shards, told by the shards themselves."""
    platform.shards.catch_up()
    corpus = Corpus(platform.settings.data / "corpus")
    names = {str(name) for id in corpus.key_ids for shard in corpus.shards(id) for name in shard.text["dataset"]}
    assert names == set(map(corpus.name_of, corpus.digests))
    return sorted(names)


@pytest.mark.parametrize("small", [3000, 5])
def test_any_order_of_publishing_and_withdrawing_leaves_what_is_live(
    platform: Platform, provider: Caller, named: Callable[..., bytes], small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saibot.platform.shards.SMALL", small)  # with 5, now here and now in the other process
    rng = random.Random(4)
    live: dict[str, str] = {}
    for step in range(60):
        if live and rng.random() < 0.4:
            name = rng.choice(sorted(live))
            platform.withdraw(provider, live.pop(name))
        else:
            name = f"set-{rng.randrange(20)}"
            live[name] = platform.accept(provider, named(name, title=str(step)))[0].id
        if step % 7 == 0:
            assert searched(platform) == sorted(live)
    assert searched(platform) == sorted(live)
    assert len(platform.shards) == len(live)


def test_many_small_shards_become_few(platform: Platform, provider: Caller, named: Callable[..., bytes]) -> None:
    for number in range(30):
        platform.accept(provider, named(f"set-{number:02}"))
        platform.shards.catch_up()
    files = list((platform.settings.data / "corpus" / "shards").iterdir())
    assert len(files) < 12
    assert searched(platform) == [f"set-{number:02}" for number in range(30)]


@pytest.mark.parametrize("damage", ["index", "shard", "everything", "stray"])
def test_damaged_shards_are_made_anew_from_the_sketches(
    settings: Settings, provider: Caller, named: Callable[..., bytes], damage: str
) -> None:
    platform = Platform(settings)
    for name in ("a", "b"):
        platform.accept(provider, named(name))
    assert searched(platform) == ["a", "b"]
    platform.close()
    corpus = settings.data / "corpus"
    if damage == "index":
        (corpus / "corpus.sqlite").write_text("{")
    elif damage == "shard":
        next((corpus / "shards").iterdir()).unlink()
    elif damage == "everything":
        for path in sorted(corpus.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    else:
        (corpus / "shards" / "left-behind.arrow").write_bytes(b"values of a withdrawn dataset")
    again = Platform(settings)
    assert searched(again) == ["a", "b"]
    assert not (corpus / "shards" / "left-behind.arrow").exists()
    again.close()


def test_a_domain_that_is_registered_later_opens_the_levels_of_what_is_there(
    platform: Platform, provider: Caller, named: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from saibot.domains import generated_domain
    from saibot.domains.csv_text import domain_to_csv
    from saibot.sketch import read_sketch

    part = read_sketch(named("a")).header.key.parts[0]  # type: ignore[union-attr]
    days = generated_domain(part.domain)
    assert days is not None
    monkeypatch.setattr("saibot.domains.finding.generated_domain", lambda id, **_: None)  # as if its id did not spell it out
    platform.accept(provider, named("a"))
    platform.shards.catch_up()
    before = values(platform)
    earlier = replace(days, parents=days.parents[:2])  # weeks are no part of what a digest of days is taken of
    platform.register_domain(provider, "days", 1, domain_to_csv(earlier))
    platform.shards.catch_up()
    assert (values(platform) != before).any()


def values(platform: Platform) -> Any:
    corpus = Corpus(platform.settings.data / "corpus")
    return next(iter(shard.values.copy() for id in corpus.key_ids for shard in corpus.shards(id)))


def test_a_sketch_withdrawn_before_it_was_packed_is_skipped_and_not_called_damaged(tmp_path: Path) -> None:
    Corpus.create(tmp_path)
    (tmp_path / "sketches").mkdir(exist_ok=True)
    (tmp_path / "sketches" / f"damaged{SUFFIX}").write_bytes(b"no sketch")
    done = Packing(tmp_path).apply(add=["withdrawn", "damaged"], remove=[])
    assert [digest for digest, _ in done["refused"]] == ["damaged"]


def test_what_no_search_can_use_is_known_with_its_reason_until_it_goes(
    platform: Platform, provider: Caller, named: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Packing.apply

    def refusing(self: Packing, *, add: list[str], **more: Any) -> dict[str, Any]:
        answer = whole(self, add=[], **more)
        return answer | {"refused": [(digest, "its values are not finite") for digest in add]}

    monkeypatch.setattr(Packing, "apply", refusing)
    dataset, _ = platform.accept(provider, named("strange"))
    platform.shards.catch_up()
    assert platform.shards.refused == {dataset.digest: "its values are not finite"}
    monkeypatch.setattr(Packing, "apply", whole)
    platform.accept(provider, named("sound"))
    platform.shards.catch_up()
    assert list(platform.shards.refused) == [dataset.digest]
    platform.withdraw(provider, dataset.id)
    platform.shards.catch_up()
    assert platform.shards.refused == {} and searched(platform) == ["sound"]


def test_a_copy_that_becomes_the_original_while_its_original_is_packed_is_not_lost(
    platform: Platform, provider: Caller, named: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = named("first")
    monkeypatch.setattr(platform.shards, "start", lambda: None)  # packing happens here, and only here
    platform.accept(provider, content)
    owner = Caller("owner", frozenset({"provider"}), "t-owner")
    platform.accept(owner, write_sketch(renamed(read_sketch(content), "second")))
    pack, between = platform.shards._apply, [lambda: platform.providers.verify(ADMIN, "owner")]

    def applied(**change: Any) -> None:
        pack(**change)
        while change.get("add") and between:
            between.pop()()

    monkeypatch.setattr(platform.shards, "_apply", applied)
    platform.shards.catch_up()
    assert searched(platform) == ["second"]
