"""What a stored sketch says of each key: its own values in original units, and those that the corpus helps."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saibot.domains import named_domain
from saibot.estimate.lookup import lookup_values
from saibot.platform import Settings, shown_sketches
from saibot.platform.accounts import Caller
from saibot.platform.key_values import KeyValues, ValuesByKey
from saibot.platform.pages.views.values import as_table
from saibot.platform.service import Platform
from saibot.platform.shown_sketches import TooLargeToShow
from saibot.search.corpus import Corpus
from saibot.search.packed_rows import own_values_and_errors
from saibot.sketch import KeyDomain, Sketch, read_sketch, write_sketch
from tests.support.hostile import sized_sketch
from tests.support.shared_tables import DOMAIN, world

GOLDEN = Path(__file__).parents[2] / "contract" / "golden"
PROVIDER = Caller("clinic", frozenset({"provider"}), "t-clinic")


def values_of(platform: Platform, content: bytes) -> ValuesByKey | None:
    dataset, _ = platform.accept(PROVIDER, content)
    platform.shards.catch_up()
    return platform.key_values.of(dataset.digest)


def test_values_and_errors_are_those_of_the_sketch_in_original_units(platform: Platform) -> None:
    content = (GOLDEN / "semiring-composite.saibot").read_bytes()
    sketch, found = read_sketch(content), values_of(platform, content)
    assert found is not None and sketch.header.key is not None
    alone = lookup_values(sketch)
    assert len(found) == len(sketch.levels[0].values) - 1 and found.factors is None
    assert found.parts == tuple(part.name for part in sketch.header.key.parts)
    for place, feature in enumerate(sketch.header.features):
        shown = found.feature(feature.name)
        assert np.allclose(shown.values, feature.offset + feature.scale * alone.values[place, :-1])
        assert (shown.errors >= feature.scale * np.sqrt(alone.posterior_variance[place, :-1])).all(), (
            "and no spread is known"
        )
        assert shown.better is None and shown.unit == feature.unit
    assert np.allclose(found.counts, alone.counts[:-1])
    first = tuple(str(column[0]) for column in sketch.levels[0].keys)
    assert found.labels[0] == " × ".join(first), "a composite key is one text of its parts"


def test_a_sketch_without_a_key_has_no_values_by_key(platform: Platform) -> None:
    assert values_of(platform, (GOLDEN / "union-laplace.saibot").read_bytes()) is None


def test_keys_are_ordered_by_a_column_and_narrowed_by_a_text(platform: Platform) -> None:
    found = values_of(platform, write_sketch(world().sketches[0]))
    assert found is not None
    feature = found.features[0]
    up = found.order(feature, by="value", down=False, text="")
    assert (np.diff(feature.values[up]) >= 0).all() and len(up) == len(DOMAIN)
    down = found.order(feature, by="rows", down=True, text="")
    assert (np.diff(found.counts[down]) <= 0).all()
    some = found.order(feature, by="key", down=True, text="K1")
    assert [found.labels[i] for i in some] == [f"k{i}" for i in range(19, 9, -1)], "case makes no difference"
    assert list(found.order(feature, by="better", down=True, text="k0")) == list(range(9, -1, -1)), "no such column here"
    assert len(found.order(feature, by="value", down=False, text="nowhere")) == 0
    assert found.feature("unknown") is feature


@pytest.fixture
def learned(settings: Settings) -> Iterator[Platform]:
    platform = Platform(settings)
    for number, sketch in enumerate(world().sketches):
        platform.accept(Caller(f"p{number % 8}", frozenset({"provider"}), "t"), write_sketch(sketch))
    platform.shards.catch_up()
    yield platform
    platform.close()


def test_with_the_help_of_the_corpus_values_are_those_that_searches_use_and_nearer_to_the_truth(learned: Platform) -> None:
    before = learned.key_values.of(world().sketches[0].digest)
    assert before is not None and before.factors is None
    learned.shards.lessons.learn()
    (entry,) = learned.shards.lessons.factors()
    corpus = Corpus(learned.settings.data / "corpus")
    searched = {
        str(digest): mean + row[:-1]
        for shard in corpus.shards(corpus.key_ids[0])
        for digest, mean, row in zip(shard.text["digest"], shard.numbers["mean"], shard.values, strict=True)
    }
    gained = []
    for sketch in world().sketches[:8]:
        found = learned.key_values.of(sketch.digest)
        assert found is not None and found.factors == entry.version
        feature, truth = found.features[0], world().truth[sketch.digest]
        assert feature.better is not None and feature.better_errors is not None
        assert np.allclose(feature.better, searched[sketch.digest], atol=1e-5)
        gained.append(np.abs(feature.values - truth).mean() - np.abs(feature.better - truth).mean())
    assert np.mean(gained) > 0


def test_a_page_says_where_a_sketch_tells_nothing_of_single_keys() -> None:
    from saibot.platform.key_values import FeatureByKey
    from saibot.platform.pages.views.values import _says_little

    spread = np.linspace(0, 1, 50)
    for error, little in ((0.0, False), (0.2, False), (1.0, False), (10.0, True)):
        assert _says_little(FeatureByKey("x", "", spread, np.full(50, error), None, None)) is little
    assert not _says_little(FeatureByKey("x", "", spread[:0], spread[:0], None, None))


def test_places_are_found_by_their_names_and_keep_their_codes(platform: Platform) -> None:
    states = named_domain("us-state")
    found = values_of(platform, write_sketch(world(domain=states, name="by-state").sketches[0]))
    assert found is not None
    (place,) = found.order(found.features[0], by="key", down=False, text="texas")
    assert (found.told[place], found.labels[place]) == ("TX · Texas", "TX")
    assert as_table(found).to_csv().decode("utf-8-sig").splitlines()[1].startswith("AK,"), "files have the codes"


def test_a_sign_that_joins_the_parts_of_a_key_may_be_in_the_name_of_one(platform: Platform) -> None:
    found = values_of(
        platform, write_sketch(world(domain=KeyDomain.of("zip+4", ["1", "2", "3"]), name="by-zip").sketches[0])
    )
    assert found is not None and list(found.told) == ["1", "2", "3"] and found.domain == "zip+4"


def test_what_a_sketch_says_alone_is_worked_out_once_whoever_publishes_beside_it(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    from saibot.platform import key_values

    calls: list[str] = []

    def counted(sketch: Sketch, domain: KeyDomain | None) -> Any:
        calls.append(sketch.digest)
        time.sleep(0.1)
        return own_values_and_errors(sketch, domain)

    monkeypatch.setattr(key_values, "own_values_and_errors", counted)
    first, second, *_ = world().sketches
    dataset, _ = platform.accept(PROVIDER, write_sketch(first))
    platform.shards.catch_up()
    with ThreadPoolExecutor(6) as visitors:
        list(visitors.map(lambda _: platform.key_values.of(dataset.digest), range(6)))
    assert calls == [dataset.digest]
    platform.accept(Caller("other", frozenset({"provider"}), "t-other"), write_sketch(second))
    platform.shards.catch_up()
    platform.key_values.of(dataset.digest)
    assert calls == [dataset.digest]


@pytest.mark.parametrize("name", ["lookup-levels", "semiring-composite", "v2-lookup-levels", "v2-open-levels"])
def test_of_a_large_sketch_one_feature_is_read_and_says_what_it_says_among_all(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    dataset, _ = platform.accept(PROVIDER, (GOLDEN / f"{name}.saibot").read_bytes())
    platform.shards.catch_up()
    whole = platform.key_values.of(dataset.digest)
    monkeypatch.setattr(shown_sketches, "SHOWN_BYTES", 0)
    afresh = KeyValues(platform.files, platform.key_values._corpus)
    assert whole is not None and whole.whole
    for feature in whole.features:
        part = afresh.of(dataset.digest, feature.name)
        assert part is not None and part.named == whole.named and part.keys == whole.keys
        assert part.whole == (len(whole.named) == 1) and [one.name for one in part.features] == [feature.name]
        assert np.allclose(part.features[0].values, feature.values) and np.allclose(part.features[0].errors, feature.errors)
        assert np.allclose(part.counts, whole.counts)
    unknown = afresh.of(dataset.digest, "unknown")
    assert unknown is not None and unknown.features[0].name == whole.features[0].name


def test_a_feature_that_is_read_alone_is_helped_by_the_corpus_as_among_all(
    learned: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned.shards.lessons.learn()
    digest = world().sketches[0].digest
    whole = learned.key_values.of(digest)
    monkeypatch.setattr(shown_sketches, "SHOWN_BYTES", 0)
    part = KeyValues(learned.files, learned.key_values._corpus).of(digest)
    assert whole is not None and part is not None
    one, other = whole.features[0], part.features[0]
    assert one.better is not None and other.better is not None and np.allclose(one.better, other.better)


@pytest.mark.parametrize("name", ["lookup-levels", "semiring-composite", "union-laplace", "v2-open-levels"])
def test_a_profile_of_sums_is_that_of_the_whole_sketch(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    dataset, _ = platform.accept(PROVIDER, (GOLDEN / f"{name}.saibot").read_bytes())
    before = platform.shown._compute_profile(dataset.digest)
    monkeypatch.setattr(shown_sketches, "SHOWN_BYTES", 0)
    assert before[1] is not None and platform.shown._compute_profile(dataset.digest) == before


def test_more_keys_than_can_be_shown_are_refused_in_words(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, _ = platform.accept(PROVIDER, (GOLDEN / "lookup-levels.saibot").read_bytes())
    monkeypatch.setattr(shown_sketches, "SHOWN_BYTES", 0)
    monkeypatch.setattr(shown_sketches, "MOST_KEYS", 2)
    with pytest.raises(TooLargeToShow, match="more than 2 keys"):
        platform.key_values.of(dataset.digest)


def test_to_look_at_a_large_sketch_takes_little_memory(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_sketches, "SHOWN_BYTES", 1 << 20)
    dataset, _ = platform.accept(PROVIDER, sized_sketch("tall", keys=20_000, features=30, private=True))
    platform.key_values.of(dataset.digest, "f0")
    tracemalloc.start()
    try:
        found = platform.key_values.of(dataset.digest, "f29")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is not None and found.features[0].name == "f29" and not found.whole
    assert most < 24 * 8 * 20_000 * 10, "about as many arrays as one feature takes, whatever the others are"


@pytest.mark.parametrize("name", ["v2-lookup-levels", "v2-open-levels"])
def test_a_coarser_level_has_values_of_its_own(platform: Platform, name: str) -> None:
    content = (GOLDEN / f"{name}.saibot").read_bytes()
    sketch, fine = read_sketch(content), values_of(platform, content)
    assert fine is not None and fine.level is None and fine.levels == sketch.header.key.levels  # type: ignore[union-attr]
    coarse = platform.key_values.of(fine_digest := sketch.digest, None, fine.levels[0])
    assert coarse is not None and coarse.level == fine.levels[0] and coarse.levels == fine.levels
    assert coarse.keys[0] == [str(key) for key in sketch.levels[1].keys[0][:-1]] and len(coarse) < len(fine)
    assert coarse.counts.sum() == pytest.approx(fine.counts.sum(), rel=0.3)
    for one, other in zip(coarse.features, fine.features, strict=True):
        assert one.better is None and one.errors.mean() <= other.errors.mean()
        low, high = other.values.min() - 3 * other.errors.max(), other.values.max() + 3 * other.errors.max()
        assert ((low <= one.values) & (one.values <= high)).all()
    assert platform.key_values.of(fine_digest, None, "no such level") is platform.key_values.of(fine_digest)


def test_an_open_table_has_the_exact_means_of_a_coarser_level(platform: Platform) -> None:
    content = (GOLDEN / "v2-open-levels.saibot").read_bytes()
    sketch = read_sketch(content)
    assert values_of(platform, content) is not None and sketch.header.key is not None
    coarse = platform.key_values.of(sketch.digest, None, sketch.header.key.levels[0])
    assert coarse is not None
    counts, sums = sketch.levels[1].values[:-1, 0], sketch.levels[1].values[:-1, 1]
    filled, feature = counts > 0, sketch.header.features[0]
    means = feature.offset + feature.scale * sums[filled] / counts[filled]
    assert np.allclose(coarse.features[0].values[filled], means) and np.allclose(coarse.features[0].errors, 0)


def test_of_a_composite_key_one_part_is_picked_and_the_other_is_left(platform: Platform) -> None:
    found = values_of(platform, (GOLDEN / "semiring-composite.saibot").read_bytes())
    assert found is not None and len(found.parts) == 2
    text = found.keys[0][-1]
    some = found.within(0, text)
    assert some.parts == found.parts[1:] and some.domains == found.domains[1:] and len(some) == found.keys[0].count(text)
    places = [place for place, one in enumerate(found.keys[0]) if one == text]
    assert list(some.labels) == [found.keys[1][place] for place in places]
    assert np.array_equal(some.features[0].values, found.features[0].values[places])
    assert some.whole and np.array_equal(some.counts, found.counts[places])
