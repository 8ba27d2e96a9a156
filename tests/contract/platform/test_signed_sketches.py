"""Signed sketches on a platform: a key is its owner's alone, one that is bound has to sign, and changes of it are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from saibot.client import KnownSigners, NotAllowed, Platform, Provider
from saibot.client.cache import SketchCache
from saibot.client.remote_corpus import Published
from saibot.client.signing_keys import SigningKeys, bind_key
from saibot.errors import InvalidInput, SaibotError
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.backup import backup
from saibot.platform.service import open_platform
from saibot.platform.storage.file_names import sketch_file_name
from saibot.platform.storage.files import SET_ASIDE
from saibot.sketch import SigningKey, Sketch, read_sketch, signed, signer_of, write_sketch
from saibot.sketch.signing import account_proof, successor_proof
from saibot.wire import NewKey
from tests.support.fabricating import drawn_anew, renamed


def challenge(client: httpx.Client) -> str:
    answer = client.post("/v1/me/key/challenge")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["challenge"])


def bound(client: Any, key: SigningKey, **more: str) -> httpx.Response:
    """The answer to binding a key, with a proof of its own."""
    proof = key.sign(account_proof(challenge(client), client.account))
    return client.put("/v1/me/key", json={"key": key.public.text, "proof": proof} | more)


@pytest.fixture
def made(made_sketches: dict[str, Sketch]) -> Sketch:
    return drawn_anew(made_sketches["good"])


def test_a_key_is_bound_at_first_use_and_from_then_on_signs_everything(server: Any, verbs: Any, made: Sketch) -> None:
    provider, key = server.account("provider"), SigningKey.new()
    assert verbs.publish(provider, write_sketch(made)).json()["signer"] is None, "unsigned is allowed while there is no key"
    assert provider.get("/v1/me/key").json() == {"account": provider.account, "key": None, "fingerprint": None}
    assert bound(provider, key).json()["fingerprint"] == key.public.fingerprint
    again = verbs.publish(provider, write_sketch(signed(made, key)))
    assert (again.status_code, again.json()["signer"], again.json()["version"]) == (200, key.public.fingerprint, 1)
    served = read_sketch(provider.get(f"/v1/datasets/{again.json()['id']}/sketch").content)
    assert signer_of(served.header) == key.public and served.digest == made.digest, "the very sketch, now signed"
    other = drawn_anew(made)
    for sketch, code in ((other, "not_signed"), (signed(other, SigningKey.new()), "other_key")):
        answer = verbs.publish(provider, write_sketch(sketch))
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, code)
    standing = server.client().get(f"/v1/providers/{provider.account}").json()
    assert (standing["key"], standing["earlier_keys"]) == (key.public.text, [])


def test_nobody_binds_a_key_that_is_not_theirs(server: Any, verbs: Any, made: Sketch) -> None:
    """The attack: send what somebody else has signed, so that their key seems to be one's own."""
    victim, thief, key = server.account("provider"), server.account("provider"), SigningKey.new()
    assert bound(victim, key).status_code == 200
    content = write_sketch(signed(made, key))
    assert verbs.publish(victim, content).status_code == 201
    stolen = verbs.publish(thief, content)
    assert (stolen.status_code, stolen.json()["error"]["code"]) == (409, "other_key")
    assert thief.get("/v1/me/key").json()["key"] is None
    proof = key.sign(account_proof(challenge(victim), victim.account))  # a proof of the victim's, for the victim's account
    challenge(thief)
    assert thief.put("/v1/me/key", json={"key": key.public.text, "proof": proof}).status_code == 422
    made_up = thief.put("/v1/me/key", json={"key": key.public.text, "proof": "00" * 64})
    assert made_up.status_code == 422 and thief.get("/v1/me/key").json()["key"] is None


def test_a_challenge_serves_once_and_not_for_long(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, key = server.account("provider"), SigningKey.new()
    assert provider.put("/v1/me/key", json={"key": key.public.text, "proof": "00" * 64}).status_code == 422, "none was given"
    proof = key.sign(account_proof(challenge(provider), provider.account))
    asked = {"key": key.public.text, "proof": proof}
    monkeypatch.setattr("saibot.platform.providers.CHALLENGE_SECONDS", -1.0)
    assert provider.put("/v1/me/key", json=asked).status_code == 422
    monkeypatch.undo()
    assert provider.put("/v1/me/key", json=asked).status_code == 200
    assert provider.put("/v1/me/key", json=asked).status_code == 422, "it is used up"


def test_another_key_needs_the_old_ones_agreement_and_everybody_can_check_it(server: Any, verbs: Any, made: Sketch) -> None:
    provider, old, new = server.account("provider"), SigningKey.new(), SigningKey.new()
    assert bound(provider, old).status_code == 200
    for forged in ({}, {"by_old_key": new.sign(successor_proof(old.public, new.public))}):
        answer = bound(provider, new, **forged)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "other_key")
    agreed = old.sign(successor_proof(old.public, new.public))
    assert bound(provider, new, by_old_key=agreed).json()["key"] == new.public.text
    assert verbs.publish(provider, write_sketch(signed(made, new))).status_code == 201
    (earlier,) = server.client().get(f"/v1/providers/{provider.account}").json()["earlier_keys"]
    assert (earlier["key"], earlier["next"], earlier["proof"]) == (old.public.text, new.public.text, agreed)
    assert bound(provider, old, by_old_key=new.sign(successor_proof(new.public, old.public))).status_code == 409, "not back"
    trail = server.admin.get("/v1/audit", params={"limit": 50}).json()["items"]
    noted = [entry["facts"] for entry in trail if entry["action"] == "bind key" and entry["subject"] == provider.account]
    assert noted[0] == {"key": new.public.fingerprint, "instead_of": old.public.fingerprint}


def test_an_admin_takes_a_lost_key_back_and_another_is_bound(server: Any, verbs: Any, made: Sketch) -> None:
    provider, lost, new = server.account("provider"), SigningKey.new(), SigningKey.new()
    assert bound(provider, lost).status_code == 200
    first = verbs.publish(provider, write_sketch(signed(made, lost))).json()
    assert server.admin.delete(f"/v1/providers/{provider.account}/key").json()["key"] is None
    assert bound(provider, lost).status_code == 409, "whoever found it cannot bind it again"
    assert bound(provider, new).status_code == 200
    signed_anew = verbs.publish(provider, write_sketch(signed(made, new))).json()
    assert (signed_anew["id"], signed_anew["signer"]) == (first["id"], new.public.fingerprint)
    (earlier,) = server.client().get(f"/v1/providers/{provider.account}").json()["earlier_keys"]
    assert (earlier["key"], earlier["proof"], earlier["next"]) == (lost.public.text, None, None)


def test_a_signature_that_is_not_its_own_is_refused_at_the_door(server: Any, verbs: Any, made: Sketch) -> None:
    provider, key = server.account("provider"), SigningKey.new()
    signature = signed(made, key).header.signature
    forged = write_sketch(renamed(made, "forged", signature=signature))
    answer = verbs.publish(provider, forged)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_sketch")


def test_no_secret_of_a_provider_is_in_any_file_of_the_platform(
    fresh: Settings, tmp_path: Path, start_in_process: Any, make_sketch: Callable[..., Sketch]
) -> None:
    """Neither in its database nor in its logs nor in a backup: a platform sees public keys and signatures alone."""
    keys = SigningKeys(tmp_path / "mine" / "signing-keys.pem")
    for server in start_in_process(fresh):
        provider = server.account("provider")
        at = Platform(
            "http://platform", provider.headers["Authorization"].removeprefix("Bearer "), server.make_client()._transport
        )
        Provider(at, tmp_path / "ledger", keys=keys).publish(make_sketch("kept", seed=91))
        backup(fresh, tmp_path / "backup.tar")
    secret = keys.current().pem().decode().splitlines()[1]
    raw = keys.current()._key.private_bytes_raw()
    for path in (*fresh.data.rglob("*"), tmp_path / "backup.tar"):
        if path.is_file():
            content = path.read_bytes()
            assert secret.encode() not in content and raw not in content and raw.hex().encode() not in content, path


# ------------------------------------------------------------------------------------------------ the client's side


@pytest.fixture
def at_home(server: Any, tmp_path: Path) -> Callable[..., tuple[Provider, SigningKeys]]:
    """at_home(): somebody with a machine of their own, logged in with an account of their own."""

    def make(name: str = "machine", account: Any = None) -> tuple[Provider, SigningKeys]:
        client = account or server.account("provider")
        keys = SigningKeys(tmp_path / name / "signing-keys.pem")
        token = client.headers["Authorization"].removeprefix("Bearer ")
        platform = Platform(str(client.base_url).rstrip("/"), token, client._transport)
        return Provider(platform, tmp_path / name / "ledger", keys=keys), keys

    return make


def test_publishing_signs_and_a_rotated_key_is_agreed_to_by_itself(at_home: Any, made_sketches: dict[str, Sketch]) -> None:
    provider, keys = at_home()
    first = provider.publish(drawn_anew(made_sketches["good"]))
    assert first.signer == keys.current().public.fingerprint and keys.path.stat().st_mode & 0o777 == 0o600
    keys.rotate()
    again, _ = at_home()  # the same machine, in another process
    second = Provider(provider.platform, again.ledger, keys=keys).publish(drawn_anew(made_sketches["useless"]))
    assert second.signer == keys.current().public.fingerprint != first.signer
    assert len(provider.platform.provider(first.provider).earlier_keys) == 1


def test_another_machine_without_the_key_is_told_what_to_do(
    server: Any, at_home: Any, made_sketches: dict[str, Sketch]
) -> None:
    account = server.account("provider")
    provider, _ = at_home("one", account)
    provider.publish(drawn_anew(made_sketches["good"]))
    other, _ = at_home("other", account)
    with pytest.raises(InvalidInput, match="not on this machine") as caught:
        other.publish(drawn_anew(made_sketches["useless"]))
    assert "take-key" in str(caught.value.hint)
    with pytest.raises(SaibotError, match="sketches are signed"):
        Provider(other.platform, other.ledger, sign=False).publish(drawn_anew(made_sketches["useless"]))


def test_what_somebody_else_has_signed_is_not_published_as_ones_own(at_home: Any, made_sketches: dict[str, Sketch]) -> None:
    thief, _ = at_home("thief")
    with pytest.raises(InvalidInput, match="signed by somebody else"):
        thief.publish(signed(drawn_anew(made_sketches["good"]), SigningKey.new()))


def test_only_providers_have_keys(server: Any, tmp_path: Path) -> None:
    client = server.account("requester")
    token = client.headers["Authorization"].removeprefix("Bearer ")
    with pytest.raises(NotAllowed):
        bind_key(Platform(str(client.base_url), token, client._transport), SigningKeys(tmp_path / "keys.pem"))


def test_a_restored_sketch_needs_no_signature_of_today(fresh: Settings, made_sketches: dict[str, Sketch]) -> None:
    """What was set aside was accepted once; whoever runs the platform brings it back for its account."""
    platform, sketch = open_platform(fresh), drawn_anew(made_sketches["good"])
    try:
        clinic, key = Caller("clinic", frozenset({"provider"}), "t"), SigningKey.new()
        asked = platform.providers.challenge(clinic)
        proof = key.sign(account_proof(asked.challenge, "clinic"))
        platform.providers.bind(clinic, NewKey(key=key.public.text, proof=proof))
        platform.files.put(SET_ASIDE + sketch_file_name(sketch.digest), write_sketch(sketch))
        assert platform.restore_set_aside(sketch.digest, "clinic").signer is None
    finally:
        platform.close()


def test_a_client_that_knows_a_providers_key_refuses_what_another_has_signed(
    server: Any, at_home: Any, made_sketches: dict[str, Sketch], tmp_path: Path
) -> None:
    """The attack: a platform, or whoever has an account's token, puts another key in the place of the one that is known."""
    account = server.account("provider")
    provider, _ = at_home("first", account)
    kept, changed = drawn_anew(made_sketches["good"]), drawn_anew(made_sketches["useless"])
    for sketch in (kept, changed):
        provider.publish(sketch)
    signers = KnownSigners(tmp_path / "known.json")

    def fetched() -> tuple[set[str], tuple[str, ...]]:
        corpus, notes = Published(provider.platform, SketchCache(tmp_path / "cache"), signers).corpus()
        mine = tuple(note for note in notes if account.account in note)
        return set(corpus.digests) & {kept.digest, changed.digest}, mine

    assert fetched() == ({kept.digest, changed.digest}, ())
    assert server.admin.delete(f"/v1/providers/{account.account}/key").status_code == 200
    other, _ = at_home("second", account)
    other.publish(changed)
    found, notes = fetched()
    assert found == {kept.digest}, "what the known key has signed is as good as it was"
    assert any("had the key" in note for note in notes) and any("1 sketch of" in note for note in notes)
    signers.forget(account.account)
    assert fetched() == ({kept.digest, changed.digest}, ())
