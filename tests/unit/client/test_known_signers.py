"""Keys that were met: a platform that shows another one than before is noticed, unless the old key has agreed to it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from saibot.client import KnownSigners, ProviderStanding
from saibot.errors import InvalidInput
from saibot.sketch import SigningKey
from saibot.sketch.signing import successor_proof
from saibot.wire import EarlierKey

HERE = "https://platform.example"


@pytest.fixture
def known(tmp_path: Path) -> KnownSigners:
    return KnownSigners(tmp_path / "known-signers.json")


def standing(key: SigningKey | None, *earlier: EarlierKey, name: str = "clinic") -> ProviderStanding:
    shown = {} if key is None else {"key": key.public.text, "fingerprint": key.public.fingerprint}
    return ProviderStanding(name=name, datasets=1, earlier_keys=earlier, **shown)


def handed_over(old: SigningKey, new: SigningKey, by: SigningKey | None = None) -> EarlierKey:
    proof = (by or old).sign(successor_proof(old.public, new.public))
    facts = {"key": old.public.text, "fingerprint": old.public.fingerprint, "until": "2026-01-01T00:00:00Z"}
    return EarlierKey(**facts, proof=proof, next=new.public.text)


def test_the_first_key_is_believed_and_remembered(known: KnownSigners) -> None:
    key = SigningKey.new()
    assert known.meet(HERE, [standing(key), standing(None, name="unsigned")]) == []
    assert known.meet(HERE, [standing(key)]) == []
    assert known.name_of(key.public.fingerprint) == f"clinic at {HERE}"
    assert known.name_of(SigningKey.new().public.fingerprint) is None


def test_another_key_is_told_every_time_until_it_is_forgotten(known: KnownSigners) -> None:
    """The attack: a platform signs everything anew with a key of its own."""
    old, new = SigningKey.new(), SigningKey.new()
    known.meet(HERE, [standing(old)])
    for _ in range(2):
        (note,) = known.meet(HERE, [standing(new)])
        assert old.public.fingerprint in note and new.public.fingerprint in note and "saibot key forget clinic" in note
    assert "no key at all" in known.meet(HERE, [standing(None)])[0]
    assert known.meet("https://elsewhere.example", [standing(new)]) == [], "another platform's clinic is somebody else"
    assert known.forget("clinic", HERE) == 1 and known.forget("nobody") == 0
    assert known.meet(HERE, [standing(new)]) == []


def test_a_key_that_the_old_one_agreed_to_is_believed_over_any_number_of_steps(known: KnownSigners) -> None:
    keys = [SigningKey.new() for _ in range(4)]
    known.meet(HERE, [standing(keys[0])])
    links = [handed_over(old, new) for old, new in pairwise(keys)]
    assert known.meet(HERE, [standing(keys[3], *links)]) == []
    assert known.read()[HERE]["clinic"] == keys[3].public.text


def test_an_agreement_that_somebody_else_signed_is_none(known: KnownSigners) -> None:
    old, new = SigningKey.new(), SigningKey.new()
    known.meet(HERE, [standing(old)])
    assert known.meet(HERE, [standing(new, handed_over(old, new, by=new))])
    taken = EarlierKey(key=old.public.text, fingerprint="x", until="2026", proof=None, next=None)
    assert known.meet(HERE, [standing(new, taken)]), "an admin's word is the platform's word"
    loop = [handed_over(old, new), handed_over(new, old)]
    assert known.meet(HERE, [standing(SigningKey.new(), *loop)]), "a circle leads nowhere, and ends"


def test_a_damaged_list_is_told(known: KnownSigners) -> None:
    known.path.write_text('{"x": []}')
    with pytest.raises(InvalidInput, match="cannot be read"):
        known.meet(HERE, [])
