"""Signatures: made over the digest, checked wherever a sketch is read, and worth nothing for anything else."""

from __future__ import annotations

import pickle

import pytest

from saibot.errors import InvalidInput, InvalidSketch
from saibot.sketch import PublicKey, SigningKey, read_sketch, signed, signer_of, write_sketch
from saibot.sketch.signing import OF_SKETCH, account_proof, successor_proof
from tests.support.fabricating import honest_sketch, renamed
from tests.support.forging import content_of, forge, refused, set_at


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey.new()


def test_a_signed_sketch_says_who_signed_it_and_is_the_same_sketch(key: SigningKey) -> None:
    sketch = honest_sketch("rent")
    read = read_sketch(write_sketch(signed(sketch, key)))
    assert signer_of(read.header) == key.public and signer_of(sketch.header) is None
    assert read.digest == sketch.digest and read.header.canonical() == sketch.header.canonical()


def test_exactly_the_written_bytes_are_signed(key: SigningKey) -> None:
    sketch = signed(honest_sketch("rent"), key)
    assert sketch.header.signature is not None
    written_down = b"saibot sketch signature 1\n" + bytes.fromhex(sketch.digest)  # docs/reference/sketch-file.md
    assert key.public.verifies(sketch.header.signature.value, written_down)
    assert sketch.header.signature.model_dump() == {
        "scheme": "ed25519",
        "signer": key.public.text,
        "value": key.sign(written_down),  # Ed25519 draws nothing: the same message has one signature
    }


@pytest.mark.parametrize("field, text", [("signer", "0" * 64), ("signer", "nobody"), ("value", "0" * 128), ("value", "")])
def test_a_signature_that_is_not_its_own_is_refused_wherever_a_sketch_is_read(
    key: SigningKey, field: str, text: str
) -> None:
    content = forge(write_sketch(signed(honest_sketch("rent"), key)), set_at("signature", field, to=text))
    assert "signature" in refused(content)


def test_no_signature_moves_to_another_sketch_or_survives_a_change(key: SigningKey) -> None:
    sketch = signed(honest_sketch("rent"), key)
    assert sketch.header.signature is not None
    moved = renamed(sketch, "stolen", signature=sketch.header.signature)
    with pytest.raises(InvalidSketch, match="not of this sketch"):
        read_sketch(write_sketch(moved))


def test_a_signature_in_a_way_that_is_not_known_is_kept_and_counts_as_none() -> None:
    found = read_sketch(content_of("v2-union-laplace")).header
    assert found.signature is not None and found.signature.scheme == "to-come"
    assert signer_of(found) is None


def test_a_sketch_of_version_1_has_no_room_for_one(key: SigningKey) -> None:
    with pytest.raises(InvalidInput, match="no room"):
        signed(read_sketch(content_of("lookup-levels")), key)


def test_what_is_signed_for_one_purpose_serves_no_other(key: SigningKey) -> None:
    digest = bytes.fromhex(honest_sketch("rent").digest)
    messages = [OF_SKETCH + digest, account_proof(digest.hex(), "clinic"), successor_proof(key.public, key.public)]
    for number, message in enumerate(messages):
        made = key.sign(message)
        assert [key.public.verifies(made, other) for other in messages] == [number == other for other in range(3)]


def test_a_secret_key_is_not_printed_nor_copied_and_comes_back_from_its_file(key: SigningKey) -> None:
    assert SigningKey.read(key.pem()).public == key.public
    secret = key.pem().decode().splitlines()[1]
    assert secret not in repr(key) and secret not in str([key])
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(InvalidInput, match="no signing key"):
        SigningKey.read(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")


def test_a_fingerprint_is_of_the_key_alone() -> None:
    one, other = PublicKey.read("11" * 32), PublicKey.read("12" * 32)
    assert one.fingerprint == "02d449a3-1fbb267c-8f352e99-68a79e3e" != other.fingerprint
    for text in ("11" * 31, "GG" * 32, "11" * 32 + "\n"):
        with pytest.raises(InvalidInput, match="64 hexadecimal"):
            PublicKey.read(text)
