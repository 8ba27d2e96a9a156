"""What providers say of their tables beside the sketches, and how often searches have taken a dataset."""

from __future__ import annotations

import json
from typing import Any

import pytest

from saibot.platform.accounts import NOBODY
from saibot.platform.catalog import SORTS, Filter
from saibot.sketch import write_sketch

SAID = {
    "licence": "CC BY 4.0",
    "contact": "data@shops.example",
    "tags": ["retail", "prices"],
    "more": "## Source\n\n*Tills*.",
}


@pytest.fixture(scope="module")
def scene(server: Any, module_sketches: dict[str, bytes], verbs: Any) -> dict[str, Any]:
    owner = server.account("provider")
    return {"owner": owner, "id": verbs.publish(owner, module_sketches["good"]).json()["id"]}


def test_what_a_provider_says_is_read_by_everybody_who_sees_the_dataset(server: Any, scene: dict[str, Any]) -> None:
    path = f"/v1/datasets/{scene['id']}/about"
    assert server.client().get(path).json() == {"licence": "", "contact": "", "tags": [], "more": ""}
    assert scene["owner"].put(path, json=SAID).json() == SAID
    assert server.client().get(path).json() == SAID
    assert scene["owner"].put(path, json=SAID | {"licence": "CC0"}).status_code == 200
    assert server.client().get(path).json()["licence"] == "CC0"
    trail = server.admin.get("/v1/audit").json()["items"]
    assert ("describe", scene["id"]) in [(entry["action"], entry["subject"]) for entry in trail]


@pytest.mark.parametrize(
    "said",
    [
        {"licence": "x" * 201},
        {"tags": [f"t{i}" for i in range(21)]},
        {"tags": [""]},
        {"more": "x" * 20_001},
        {"contact": "a\x1b[31mb"},
        {"price": "1"},
    ],
)
def test_what_is_too_long_or_commands_a_terminal_is_refused(scene: dict[str, Any], said: dict[str, Any]) -> None:
    answer = scene["owner"].put(f"/v1/datasets/{scene['id']}/about", json=said)
    assert answer.status_code in (400, 422) and answer.json()["error"]["hint"]


def test_it_goes_with_the_last_dataset_of_the_table(server: Any, sketches: dict[str, bytes], verbs: Any) -> None:
    owner = server.account("provider")
    id = verbs.publish(owner, sketches["good"]).json()["id"]
    owner.put(f"/v1/datasets/{id}/about", json=SAID)
    assert owner.delete(f"/v1/datasets/{id}").status_code == 204
    again = verbs.publish(owner, sketches["good"]).json()["id"]
    assert owner.get(f"/v1/datasets/{again}/about").json()["licence"] == ""


def test_a_search_that_took_a_dataset_is_counted_for_good_and_among_the_latest_while_it_is_kept(
    server: Any, sketches: dict[str, bytes], verbs: Any
) -> None:
    owner, asker = server.account("provider"), server.account("requester")
    verbs.publish(owner, sketches["good"])
    search = verbs.ask(asker, sketches["train"]).json()["id"]
    assert verbs.wait(asker, search)["status"] == "done"
    taken = [step["digest"] for step in asker.get(f"/v1/searches/{search}/result").json()["steps"]]
    assert taken
    ids = [server.app.state.platform.catalog.id_of(NOBODY, digest) for digest in taken]
    shown = lambda: [server.client().get(f"/v1/datasets/{id}").json()["uses"] for id in ids]  # noqa: E731
    before = shown()
    assert all(uses["total"] >= uses["lately"] >= 1 and uses["days"] == 7 for uses in before)
    most_used = server.client().get("/v1/datasets", params={"sort": "used", "limit": 1}).json()["items"]
    assert server.client().get(f"/v1/datasets/{most_used[0]['id']}").json()["uses"]["total"] >= before[0]["total"]
    assert asker.delete(f"/v1/searches/{search}").status_code in (200, 204)
    assert shown() == [uses | {"lately": uses["lately"] - 1} for uses in before], "the result goes, the number stays"


def test_a_table_by_two_keys_is_listed_once_on_every_storage(server: Any, make_sketch: Any, verbs: Any) -> None:
    owner = server.account("provider")
    for key in ("shop", None):
        assert verbs.publish(owner, write_sketch(make_sketch("two-ways", key=key))).status_code == 201
    verbs.publish(owner, write_sketch(make_sketch("one-way")))
    catalog = server.app.state.platform.catalog
    for filter in (Filter(provider=owner.account), Filter(provider=owner.account, q="what way", feature="level")):
        for sort in SORTS:
            listed = [json.loads(text) for text in catalog.list(NOBODY, filter, sort=sort, tables=True).items]
            assert sorted(one["name"] for one in listed) == ["one-way", "two-ways"]
        assert catalog.tables(NOBODY, filter) == 2 and len(catalog.list(NOBODY, filter).items) == 3
    shops = Filter(provider=owner.account, domain="shops", q="two")
    (by_key,) = [json.loads(text) for text in catalog.list(NOBODY, shops, tables=True).items]
    assert by_key["key"]["name"] == "shop", "the one that fits, though another is newer"
    assert len(catalog.siblings(NOBODY, owner.account, "two-ways")) == 2


def test_a_change_of_tags_writes_only_what_changes_and_finds_what_the_sketch_says(
    server: Any, make_sketch: Any, verbs: Any
) -> None:
    owner = server.account("provider")
    ids = [verbs.publish(owner, write_sketch(make_sketch("found-by-tags", key=key))).json()["id"] for key in ("shop", None)]
    assert all(ids)

    def found(word: str) -> int:
        return len(owner.get("/v1/datasets", params={"q": word, "provider": owner.account}).json()["items"])

    def say(*tags: str) -> None:
        assert owner.put(f"/v1/datasets/{ids[0]}/about", json=SAID | {"tags": list(tags)}).status_code == 200

    say("found", "harvest")  # a word of its name, and another
    assert found("harvest") == 2 and found("found") == 2
    say("autumn")
    assert found("harvest") == 0 and found("autumn") == 2
    assert found("found") == 2, "its name has the word, whatever the tags are"
    say()
    assert found("autumn") == 0 and found("found") == 2
    shown = owner.get(f"/v1/datasets/{ids[1]}").json()
    assert shown["tags"] == []


def test_one_table_has_a_limited_number_of_keys(
    server: Any, make_sketch: Any, verbs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saibot.platform.publishing.KEYS_PER_TABLE", 1)
    owner = server.account("provider")
    assert verbs.publish(owner, write_sketch(make_sketch("by-many-keys"))).status_code == 201
    refused = verbs.publish(owner, write_sketch(make_sketch("by-many-keys", key=None)))
    assert refused.status_code >= 400 and "by 1 keys" in refused.json()["error"]["message"]
    again = verbs.publish(owner, write_sketch(make_sketch("by-many-keys", seed=1)))
    assert again.status_code in (200, 201), "another version of it is no further key"
