"""Packing keeps what is good, names what is not, and remembers the domains it was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from saibot.client import Corpus, Domains, SearchOptions, find_augmentation, local_request, pack_sketches
from saibot.client.domains import level_domain
from saibot.errors import InvalidInput
from saibot.search.learning import owner, provider_of
from saibot.sketch import KeyDomain, SigningKey, Sketch, signed, write_sketch
from tests.support.fabricating import drawn_anew, honest_sketch, renamed

from .conftest import SHOPS, card, provider_rows

KEY = SigningKey.new()
TOWNS = KeyDomain.of("shops", SHOPS, parents={"town": ["a"] * 6 + ["b"] * 6, "land": ["x"] * 12})


@pytest.fixture
def files(sketches, tmp_path):
    paths = []
    for sketch in sketches:
        paths.append(tmp_path / f"{sketch.header.dataset.name}.saibot")
        paths[-1].write_bytes(write_sketch(sketch))
    return paths


def test_good_sketches_are_packed_beside_bad_ones(files, tmp_path):
    (tmp_path / "cut.saibot").write_bytes(files[0].read_bytes()[:-2000])
    corpus, packed = pack_sketches(
        tmp_path / "c", [*files, tmp_path / "cut.saibot", tmp_path / "none.saibot", files[0]], unsafe=True
    )
    assert len(corpus) == 2 and [name for _, name in packed.added] == ["shops-survey", "day-weather"]
    assert [path.split("/")[-1] for path, _ in packed.refused] == ["cut.saibot", "none.saibot"]
    assert len(packed.known) == 1
    again, packed = pack_sketches(tmp_path / "c", files, unsafe=True)
    assert len(again) == 2 and not packed.added and len(packed.known) == 2


def test_sketches_that_are_not_private_are_refused_unless_asked_for(files, tmp_path):
    corpus, packed = pack_sketches(tmp_path / "c", files)
    assert len(corpus) == 0
    assert all("simulated" in reason for _, reason in packed.refused)


def test_a_folder_stands_for_its_sketches_and_an_empty_one_is_told(files, tmp_path):
    corpus, _ = pack_sketches(tmp_path / "c", [tmp_path], unsafe=True)
    assert len(corpus) == 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="no sketch to pack"):
        pack_sketches(tmp_path / "c", [tmp_path / "empty"])


def test_levels_need_their_domain_and_it_is_kept_with_the_corpus(levels, sketch_of, tmp_path):
    path = tmp_path / "domain.csv"
    path.write_text("shop,town,land\n" + "\n".join(f"{s},{t},x" for s, t in zip(SHOPS, TOWNS.parents[0][1], strict=True)))
    keys = {"shop": {"domain": {"file": str(path), "id": "shops"}, "levels": ["town"]}}
    sketch = sketch_of(provider_rows(levels["shop"], "shop"), card("levelled", keys=keys), "shop")
    (tmp_path / "s.saibot").write_bytes(write_sketch(sketch))
    _, packed = pack_sketches(tmp_path / "without", [tmp_path / "s.saibot"], unsafe=True)
    assert packed.added and "--domain-id shops" in packed.notes[0]
    corpus, packed = pack_sketches(tmp_path / "with", [tmp_path / "s.saibot"], domains=[TOWNS], unsafe=True)
    assert packed.added and not packed.notes
    assert Domains(Corpus(corpus.folder)).named("shops").parents == TOWNS.parents


def test_a_finer_registered_domain_opens_sketches_of_its_levels(rows, sketch_of, tmp_path):
    """Shops are asked for, a provider publishes by town: the registered domain says which town a shop is in."""
    towns = {"town": {"domain": {"values": ["a", "b"], "id": "towns"}}}
    by_town = provider_rows({"a": 20.0, "b": 80.0}, "town")
    sketch = sketch_of(by_town, card("by-town", keys=towns), "town")
    (tmp_path / "s.saibot").write_bytes(write_sketch(sketch))
    corpus, _ = pack_sketches(tmp_path / "c", [tmp_path / "s.saibot"], domains=[TOWNS], unsafe=True)
    town = np.where(rows.shop.isin(SHOPS[:6]), 20.0, 80.0)
    mine = rows.assign(sales=town + np.random.default_rng(0).normal(0, 1, len(rows)))
    request = local_request(mine, target="sales", keys=["shop"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(always_first=True, steps=1))
    assert found.to_frame().key[0] == "shop.town"
    assert np.corrcoef(found.augment(mine)["by-town.level"], town)[0, 1] > 0.999


def test_a_level_as_a_domain_keeps_the_levels_above_it():
    towns = level_domain(TOWNS, "town")
    assert towns.values == ("a", "b") and towns.parents == (("land", ("x", "x")),)
    assert level_domain(TOWNS, "land").parents == ()


# ------------------------------------------------------------------------------------------------ copies and signatures


def _written(folder: Path, name: str, sketch: Sketch) -> Path:
    path = folder / f"{name}.saibot"
    path.write_bytes(write_sketch(sketch))
    return path


def test_a_copy_under_another_name_is_left_out_and_named(tmp_path: Path) -> None:
    original = honest_sketch("rent")
    paths = [_written(tmp_path, "copy", renamed(original, "mine")), _written(tmp_path, "rent", signed(original, KEY))]
    corpus, packed = pack_sketches(tmp_path / "corpus", paths)
    assert packed.copies == [(str(paths[0]), "mine", "rent")] and len(corpus) == 1
    assert [name for _, name in packed.added] == ["rent"], "the signed one counts, whatever its copy says of its day"
    _, again = pack_sketches(tmp_path / "corpus", paths[:1])
    assert again.copies == [(str(paths[0]), "mine", "rent")] and len(Corpus(tmp_path / "corpus")) == 1


def test_a_signed_original_takes_the_place_of_a_copy_that_nobody_signed(tmp_path: Path) -> None:
    original = honest_sketch("rent")
    copy = _written(tmp_path, "copy", renamed(original, "mine"))
    pack_sketches(tmp_path / "corpus", [copy])
    corpus, packed = pack_sketches(tmp_path / "corpus", [_written(tmp_path, "rent", signed(original, KEY))])
    assert [corpus.name_of(digest) for digest in corpus.digests] == ["rent"] and "taken out" in packed.notes[0]


def test_whoever_signed_is_the_provider_and_others_are_nobody(tmp_path: Path) -> None:
    other = SigningKey.new()
    made = [
        signed(honest_sketch("rent"), KEY),
        signed(honest_sketch("wages", 2), KEY),
        signed(honest_sketch("age", 3), other),
    ]
    made.append(honest_sketch("unsigned", 4))
    corpus, _ = pack_sketches(tmp_path / "corpus", [_written(tmp_path, f"{i}", sketch) for i, sketch in enumerate(made)])
    whose = {corpus.name_of(digest): entry.provider for digest, entry in corpus.entries(corpus.digests).items()}
    mine = KEY.public.fingerprint
    assert whose == {"rent": mine, "wages": mine, "age": other.public.fingerprint, "unsigned": ""}
    (id,) = corpus.key_ids
    for shard in corpus.shards(id):
        numbers = {str(name): int(number) for name, number in zip(shard.text["dataset"], shard.providers, strict=True)}
        assert numbers == {name: corpus.provider_numbers[provider] for name, provider in whose.items()}


def test_a_key_that_signs_many_sketches_is_one_teacher_whatever_accounts_they_claim(tmp_path: Path) -> None:
    """The attack: thirty made-up tables in a folder, each with another account in its header."""
    made = []
    for number in range(12):
        facts = {"account": f"{number:064x}"}
        sketch = honest_sketch("rent", 20 + number)
        sketch = drawn_anew(Sketch(sketch.header.model_copy(update=facts), sketch.levels))
        made.append(signed(sketch, KEY) if number < 8 else sketch)
    assert {provider_of(sketch.header) for sketch in made} == {KEY.public.fingerprint, *(f"{i:064x}" for i in range(8, 12))}
    paths = [_written(tmp_path, f"{number}", sketch) for number, sketch in enumerate(made)]
    corpus, _ = pack_sketches(tmp_path / "corpus", paths, unsafe=True)
    assert owner(corpus, [made[0].digest]) == KEY.public.fingerprint and owner(corpus, [made[9].digest]) == f"{9:064x}"
    assert owner(pack_sketches(tmp_path / "slice", paths[:1], providers={made[0].digest: "city"})[0], ["rent"]) == "city"
