"""This machine's keys: one file that its owner alone reads, made once, never lost by a rotation."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from saibot.client import SigningKeys
from saibot.errors import InvalidInput
from saibot.sketch import SigningKey, signed, signer_of
from tests.support.fabricating import honest_sketch


@pytest.fixture
def keys(tmp_path: Path) -> SigningKeys:
    return SigningKeys(tmp_path / "home" / "signing-keys.pem")


def test_a_key_is_made_once_beside_the_ledger_and_for_its_owner_alone(saibot_home: Path) -> None:
    keys = SigningKeys()
    first = keys.current().public
    assert keys.path == saibot_home / "signing-keys.pem" and keys.path.stat().st_mode & 0o777 == 0o600
    assert SigningKeys().current().public == first


def test_processes_that_are_first_at_the_same_time_have_one_key(keys: SigningKeys) -> None:
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(keys.current().public)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(keys.read()) == 1


def test_a_rotation_keeps_what_came_before(keys: SigningKeys) -> None:
    first = keys.current().public
    second, third = keys.rotate().public, keys.rotate().public
    assert [key.public for key in keys.read()] == [third, second, first]
    assert keys.path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_others_may_read_is_refused(keys: SigningKeys) -> None:
    keys.current()
    keys.path.chmod(0o640)
    with pytest.raises(InvalidInput, match="others may read") as caught:
        keys.current()
    assert "chmod 600" in str(caught.value.hint)


def test_something_else_in_its_place_is_told(keys: SigningKeys) -> None:
    keys.path.parent.mkdir()
    keys.path.write_text("-----BEGIN PRIVATE KEY-----\nnot a key\n-----END PRIVATE KEY-----\n")
    keys.path.chmod(0o600)
    with pytest.raises(InvalidInput, match="no signing key"):
        keys.current()


def test_ones_own_earlier_signature_is_replaced_and_another_ones_is_not(keys: SigningKeys) -> None:
    sketch = keys.sign(honest_sketch("rent"))
    new = keys.rotate()
    assert signer_of(keys.sign(sketch).header) == new.public
    with pytest.raises(InvalidInput, match="signed by somebody else"):
        keys.sign(signed(honest_sketch("rent"), SigningKey.new()))
