"""The same numbers under several names: named as copies, listed after the original, counted once, and gone with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.errors import NotFound
from saibot.platform.service import open_platform
from saibot.platform.storage.tables import datasets, versions
from saibot.search.corpus import Corpus
from saibot.sketch import SigningKey, Sketch, read_sketch, signed, signer_of, write_sketch
from tests.contract.platform.test_open_tables import shops
from tests.contract.platform.test_signed_sketches import bound
from tests.support.fabricating import drawn_anew, renamed
from tests.support.serving import ADMIN


@pytest.fixture
def original(made_sketches: dict[str, Sketch]) -> Sketch:
    return drawn_anew(made_sketches["good"])


@pytest.fixture
def copied(server: Any, verbs: Any, original: Sketch) -> dict[str, Any]:
    """An original, and its copy under another name by somebody else."""
    owner, thief = server.account("provider"), server.account("provider")
    first = verbs.publish(owner, write_sketch(original)).json()
    second = verbs.publish(thief, write_sketch(renamed(original, "better-survey"))).json()
    return {"owner": owner, "thief": thief, "original": first, "copy": second}


def packed(server: Any) -> set[str]:
    platform = server.app.state.platform
    platform.shards.catch_up()
    return set(Corpus(platform.settings.data / "corpus").digests)


def test_a_copy_under_another_name_is_named_as_such(server: Any, copied: dict[str, Any]) -> None:
    assert (copied["original"]["copy_of"], copied["copy"]["copy_of"]) == (None, copied["original"]["id"])
    visitor = server.client()
    assert visitor.get(f"/v1/datasets/{copied['copy']['id']}").json()["copy_of"] == copied["original"]["id"]


def test_a_copy_is_listed_after_its_original_and_by_its_words_alone_not_at_all(server: Any, copied: dict[str, Any]) -> None:
    visitor, ids = server.client(), [copied["original"]["id"], copied["copy"]["id"]]
    for sort in ("published", "rows", "epsilon", "name"):
        found, cursor = [], None
        while True:
            query = {"sort": sort, "limit": 100} | ({"cursor": cursor} if cursor else {})
            page = visitor.get("/v1/datasets", params=query).json()
            found += [entry["id"] for entry in page["items"]]
            if (cursor := page["next"]) is None:
                break
        place = found.index(ids[0])
        assert found[place : place + 2] == ids and found.count(ids[1]) == 1, sort
    assert ids[1] not in [one["id"] for one in visitor.get("/v1/datasets", params={"q": "better"}).json()["items"]]
    own = visitor.get("/v1/datasets", params={"provider": copied["thief"].account}).json()["items"]
    assert [one["id"] for one in own] == [ids[1]], "its provider's page shows what it is"


def test_a_search_and_a_corpus_to_take_home_count_it_once(
    server: Any, verbs: Any, copied: dict[str, Any], sketches: dict[str, bytes]
) -> None:
    digests = {copied["original"]["digest"], copied["copy"]["digest"]}
    assert packed(server) & digests == {copied["original"]["digest"]}
    asker = server.account("requester")
    job = verbs.ask(asker, sketches["train"], sketches["test"], steps=1, shown=1000).json()
    assert verbs.wait(asker, job["id"])["status"] == "done"
    ranked = asker.get(f"/v1/searches/{job['id']}/result").json()["ranked"]
    assert {one["digest"] for one in ranked} & digests == {copied["original"]["digest"]}
    listed, cursor = set(), None
    while True:
        page = asker.get("/v1/corpus", params={"cursor": cursor} if cursor else {}).json()
        listed |= {one["digest"] for one in page["items"]}
        if (cursor := page["next"]) is None:
            break
    assert listed & digests == {copied["original"]["digest"]}


def test_a_copy_shows_nobody_what_its_original_does_not(server: Any, verbs: Any, original: Sketch) -> None:
    """The attack: whoever was granted a dataset publishes it for everybody."""
    owner, thief, guest = server.account("provider"), server.account("provider"), server.account("requester")
    granted = verbs.publish(owner, write_sketch(original), visibility="granted").json()
    copy = verbs.publish(thief, write_sketch(renamed(original, "leak"))).json()
    assert copy["copy_of"] == "", "there is an original, and it is not for them to know"
    for client in (server.client(), guest):
        assert client.get(f"/v1/datasets/{copy['id']}").status_code == 404
        assert client.get(f"/v1/sketches/{copy['digest']}").status_code == 404
    assert thief.get(f"/v1/datasets/{copy['id']}").status_code == 200
    owner.put(f"/v1/datasets/{granted['id']}/grants/{guest.account}")
    assert guest.get(f"/v1/datasets/{copy['id']}").json()["copy_of"] == granted["id"]


def test_withdrawn_numbers_are_not_served_from_copies_and_not_published_again(
    server: Any, verbs: Any, copied: dict[str, Any], original: Sketch
) -> None:
    assert copied["owner"].delete(f"/v1/datasets/{copied['original']['id']}").status_code == 204
    for client in (server.client(), copied["thief"], server.admin):
        assert client.get(f"/v1/datasets/{copied['copy']['id']}").status_code == 404
        assert client.get(f"/v1/sketches/{copied['copy']['digest']}").status_code == 404
    platform = server.app.state.platform
    assert copied["copy"]["digest"] not in {path.stem for path in platform.settings.data.rglob("*.saibot")}
    for thief in (copied["thief"], server.account("provider")):
        for content in (original, renamed(original, "once-more")):
            answer = verbs.publish(thief, write_sketch(content))
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "withdrawn")
    trail = server.admin.get("/v1/audit", params={"limit": 50}).json()["items"]
    noted = [one["facts"] for one in trail if one["action"] == "withdraw" and one["subject"] == copied["copy"]["id"]]
    assert noted[0]["copy_of"] == copied["original"]["id"]
    assert verbs.publish(copied["owner"], write_sketch(original)).status_code == 201, "who withdrew it may change their mind"
    assert verbs.publish(copied["thief"], write_sketch(renamed(original, "again"))).json()["copy_of"] is not None


def test_an_earlier_version_that_is_somebody_elses_goes_with_the_original(
    server: Any, verbs: Any, original: Sketch, made_sketches: dict[str, Sketch]
) -> None:
    owner, thief = server.account("provider"), server.account("provider")
    first = verbs.publish(owner, write_sketch(original)).json()
    hidden = verbs.publish(thief, write_sketch(renamed(original, "cover"))).json()
    harmless = renamed(drawn_anew(made_sketches["useless"]), "cover")
    second = verbs.publish(thief, write_sketch(harmless)).json()
    assert (second["version"], second["copy_of"]) == (2, None), "its latest version is its own"
    assert server.client().get(f"/v1/sketches/{hidden['digest']}").status_code == 200
    owner.delete(f"/v1/datasets/{first['id']}")
    assert server.client().get(f"/v1/sketches/{hidden['digest']}").status_code == 404
    assert server.client().get(f"/v1/sketches/{second['digest']}").status_code == 200


def test_a_platform_that_is_killed_in_a_withdrawal_withdraws_earlier_versions_of_others_at_the_next_start(
    fresh: Settings, original: Sketch, made_sketches: dict[str, Sketch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows were gone, and nothing else knew: their files were set aside, where they could be published from again."""
    owner, thief = (Caller(name, frozenset({"provider"}), f"t-{name}") for name in ("owner", "thief"))
    platform = open_platform(fresh)
    first, _ = platform.accept(owner, write_sketch(original))
    hidden, _ = platform.accept(thief, write_sketch(renamed(original, "cover")))
    second, _ = platform.accept(thief, write_sketch(renamed(drawn_anew(made_sketches["useless"]), "cover")))

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(platform.withdrawing, "_remove", killed)
    with pytest.raises(KeyboardInterrupt):
        platform.withdraw(owner, first.id)
    platform.close()
    platform = open_platform(fresh)
    assert {path.stem for path in (fresh.data / "sketches").rglob("*.saibot")} == {second.digest}
    assert platform.list_set_aside() == [] and not platform.missing_files
    with pytest.raises(NotFound):
        platform.open_sketch(ADMIN, hidden.digest)
    shown = platform.show(thief, second.id)
    assert [one["version"] for one in shown["versions"]] == [2]
    platform.close()


def test_a_copy_that_goes_takes_nobody_along(server: Any, verbs: Any, copied: dict[str, Any], original: Sketch) -> None:
    assert copied["thief"].delete(f"/v1/datasets/{copied['copy']['id']}").status_code == 204
    assert server.client().get(f"/v1/datasets/{copied['original']['id']}").status_code == 200
    assert verbs.publish(server.account("provider"), write_sketch(renamed(original, "other"))).status_code == 201


def test_a_verified_provider_is_the_original_whoever_was_faster(
    server: Any, verbs: Any, copied: dict[str, Any], original: Sketch
) -> None:
    """The attack: somebody fetches a sketch elsewhere, publishes it here first, and withdraws it when its owner comes."""
    first, second, verify = copied["original"], copied["copy"], f"/v1/providers/{copied['thief'].account}/verified"
    assert server.admin.put(verify).status_code == 200  # here the account that came second is the owner
    visitor = server.client()
    assert visitor.get(f"/v1/datasets/{second['id']}").json()["copy_of"] is None
    assert visitor.get(f"/v1/datasets/{first['id']}").json()["copy_of"] == second["id"]
    assert packed(server) & {first["digest"], second["digest"]} == {second["digest"]}
    assert copied["owner"].delete(f"/v1/datasets/{first['id']}").status_code == 204
    assert visitor.get(f"/v1/datasets/{second['id']}").status_code == 200
    assert server.admin.delete(verify).json()["verified"] is False


def test_who_withdrew_without_being_verified_does_not_stop_a_verified_owner(
    server: Any, verbs: Any, copied: dict[str, Any], original: Sketch
) -> None:
    copied["owner"].delete(f"/v1/datasets/{copied['original']['id']}")
    content = write_sketch(renamed(original, "mine-after-all"))
    assert verbs.publish(copied["thief"], content).status_code == 409
    server.admin.put(f"/v1/providers/{copied['thief'].account}/verified")
    assert verbs.publish(copied["thief"], content).json()["copy_of"] is None


def test_somebody_elses_bytes_do_not_lose_their_signature(server: Any, verbs: Any, original: Sketch) -> None:
    """The attack: the same sketch again without its signature, which its digest does not cover."""
    owner, thief, key = server.account("provider"), server.account("provider"), SigningKey.new()
    assert bound(owner, key).status_code == 200
    first = verbs.publish(owner, write_sketch(signed(original, key))).json()
    stripped = verbs.publish(thief, write_sketch(original)).json()
    assert stripped["digest"] == first["digest"] and stripped["signer"] is None
    for id in (first["id"], stripped["id"]):
        served = read_sketch(server.client().get(f"/v1/datasets/{id}/sketch").content)
        assert signer_of(served.header) == key.public, "the bytes say whose they are, wherever they are listed"


def test_open_tables_are_everybodys_to_publish(server: Any, verbs: Any, tmp_path: Any) -> None:
    one, other = server.account("provider"), server.account("provider")
    first = verbs.publish(one, shops(tmp_path, "census-here", seed=7)).json()
    second = verbs.publish(other, shops(tmp_path, "census-there", seed=7)).json()
    assert second["copy_of"] == first["id"]
    one.delete(f"/v1/datasets/{first['id']}")
    assert server.client().get(f"/v1/datasets/{second['id']}").json()["copy_of"] is None
    assert verbs.publish(one, shops(tmp_path, "census-here", seed=7)).status_code == 201


def test_what_an_earlier_version_stored_is_filled_in_and_settled(
    server: Any, verbs: Any, copied: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = server.app.state.platform
    fill_in = platform.copies.fill_in
    monkeypatch.setattr(platform.copies, "fill_in", lambda most: 0)  # not by itself
    ids = [copied[which]["id"] for which in ("original", "copy")]
    with platform.database.write() as connection:  # as migration 0007 leaves what was there before
        connection.execute(update(versions).values(payload=None))
        connection.execute(update(datasets).values(copy_of=None))
    assert server.client().get(f"/v1/datasets/{ids[1]}").json()["copy_of"] is None
    while fill_in(500):
        pass
    assert server.client().get(f"/v1/datasets/{ids[1]}").json()["copy_of"] == ids[0]


def test_copies_are_not_counted_and_do_not_fill_pages(server: Any, verbs: Any, make_sketch: Callable[..., Sketch]) -> None:
    """The attack: a thousand copies of one sketch, so that nothing else is on the first pages."""
    honest, thief, sketch = server.account("provider"), server.account("provider"), make_sketch("flooded", seed=55)
    for number in range(5):
        assert verbs.publish(honest, write_sketch(make_sketch(f"honest-{number}", seed=60 + number))).status_code == 201
    for number in range(12):
        assert verbs.publish(thief, write_sketch(renamed(sketch, f"flood-{number}"))).status_code == 201
    page = server.client().get("/v1/datasets", params={"limit": 5}).json()["items"]
    names = [one["name"] for one in page]
    assert names[:6] == [f"flood-{number}" for number in range(6)], "the first of them, and some of its copies behind it"
    assert len([one for one in page if one["copy_of"] is None]) == 5
