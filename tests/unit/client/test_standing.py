"""In a folder a provider is a key: searches can be limited to it, and what an index claims is checked before it is shown."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from saibot.client import Corpus, Domains, KnownSigners, SearchOptions, find_augmentation, local_request, pack_sketches
from saibot.errors import InvalidInput
from saibot.search.index import FILE
from saibot.sketch import SigningKey, signed, write_sketch
from saibot.wire import ProviderStanding
from tests.support.fabricating import PLACES, honest_sketch

ONE, OTHER = SigningKey.new(), SigningKey.new()
CPU = SearchOptions(engine="threads", unions=False, rank="usable")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tables of one key, one of another, and one that nobody has signed."""
    made = {"rent": (1, ONE), "wages": (2, ONE), "age": (3, OTHER), "noise": (4, None)}
    paths = []
    for name, (seed, key) in made.items():
        sketch = honest_sketch(name, seed)
        paths.append(tmp_path / f"{name}.saibot")
        paths[-1].write_bytes(write_sketch(sketch if key is None else signed(sketch, key)))
    pack_sketches(tmp_path / "corpus", paths)
    return tmp_path / "corpus"


def found(folder: Path, options: SearchOptions = CPU):
    rng, corpus = np.random.default_rng(5), Corpus(folder)
    place = rng.integers(0, len(PLACES), 800)
    table = pd.DataFrame({"place": np.array(PLACES)[place], "y": rng.normal(size=800)})
    request = local_request(table, target="y", features=[], keys=["place"], domains=Domains(corpus))
    return find_augmentation(request, corpus, options).result


def test_whoever_signed_is_named_with_what_is_known_of_the_key(folder: Path, saibot_home: Path) -> None:
    known = ProviderStanding(name="clinic", datasets=1, key=ONE.public.text, fingerprint=ONE.public.fingerprint)
    KnownSigners().meet("https://platform.example", [known])
    result = found(folder)
    whose = {entry.dataset: (entry.provider, entry.signer) for entry in result.ranked}
    mine = (ONE.public.fingerprint, ONE.public.fingerprint)
    assert whose["rent"] == whose["wages"] == mine and whose["noise"] == (None, None)
    standing = {one.name: one for one in result.providers}
    assert standing[ONE.public.fingerprint].datasets == 2 and standing[ONE.public.fingerprint].key == ONE.public.text
    assert standing[ONE.public.fingerprint].known_as == "clinic at https://platform.example"
    assert standing[OTHER.public.fingerprint].known_as is None and not standing[OTHER.public.fingerprint].verified


@pytest.mark.parametrize("how", ["fingerprint", "its first letters", "name"])
def test_a_search_is_limited_to_a_key_by_its_fingerprint_or_a_name_that_was_met(folder: Path, how: str) -> None:
    whole = ONE.public.fingerprint
    name = {"fingerprint": whole, "its first letters": whole[:8], "name": "clinic"}[how]
    known = ProviderStanding(name="clinic", datasets=1, key=ONE.public.text, fingerprint=ONE.public.fingerprint)
    KnownSigners().meet("https://platform.example", [known])
    assert {entry.dataset for entry in found(folder, CPU.but(providers=(name,))).ranked} == {"rent", "wages"}


def test_nobody_is_verified_in_a_folder_and_too_few_letters_name_nobody(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="no provider is verified here"):
        found(folder, CPU.but(verified=True))
    with pytest.raises(InvalidInput, match="no provider is called"):
        found(folder, CPU.but(providers=(ONE.public.fingerprint[:7],)))


def test_an_index_that_claims_a_signature_is_not_believed(folder: Path) -> None:
    """The attack: a folder from elsewhere says that somebody has signed what nobody did."""
    with sqlite3.connect(folder / FILE) as db:
        who = ONE.public.fingerprint
        db.execute("UPDATE sketch SET signer = ?, provider = ? WHERE dataset = 'noise'", (who, who))
    result = found(folder)
    (entry,) = (one for one in result.ranked if one.dataset == "noise")
    assert (entry.provider, entry.signer) == (None, None)
    assert any("says of noise that somebody signed it, and nobody did" in note for note in result.notes)


def test_a_folder_that_an_earlier_saibot_packed_is_searched_without_providers(folder: Path) -> None:
    with sqlite3.connect(folder / FILE) as db:
        db.executescript(
            "DROP INDEX sketch_by_payload; DROP TABLE provider; ALTER TABLE sketch DROP COLUMN provider; "
            "ALTER TABLE sketch DROP COLUMN signer; ALTER TABLE sketch DROP COLUMN payload; "
            "ALTER TABLE sketch DROP COLUMN flags; PRAGMA user_version = 2;"
        )
    result = found(folder)
    assert {entry.provider for entry in result.ranked} == {None} and result.providers == () and len(result.ranked) == 4
