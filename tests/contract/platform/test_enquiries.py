"""Enquiries: a requester asks for more, with a word of its own; the provider grants a dataset or refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from saibot.platform import Settings
from saibot.sketch import Sketch, write_sketch

WISH = {
    "columns": ["age", "income"],
    "keys": ["ward"],
    "budget": {"epsilon": "2", "delta": "1e-6"},
    "why": "To plan beds.\nFor two wards.",
    "understood": True,
}


@pytest.fixture(scope="module")
def scene(server: Any, module_sketches: dict[str, bytes], verbs: Any) -> dict[str, Any]:
    owner = server.account("provider")
    return {
        "owner": owner,
        "public": verbs.publish(owner, module_sketches["good"]).json(),
        "asker": server.account("requester"),
    }


def enquire(client: httpx.Client, dataset: str, **changes: Any) -> httpx.Response:
    return client.post("/v1/enquiries", json=WISH | {"dataset": dataset} | changes)


def granted_dataset(scene: dict[str, Any], make_sketch: Callable[..., Sketch], verbs: Any, name: str) -> dict[str, Any]:
    sketch = write_sketch(make_sketch(name, seed=41))
    found: dict[str, Any] = verbs.publish(scene["owner"], sketch, visibility="granted").json()
    return found


def test_an_enquiry_reaches_its_provider_and_a_grant_opens_the_dataset_to_the_asker_alone(
    server: Any, scene: dict[str, Any], make_sketch: Callable[..., Sketch], verbs: Any
) -> None:
    owner, asker, other = scene["owner"], scene["asker"], server.account("requester")
    sent = enquire(asker, scene["public"]["id"])
    assert sent.status_code == 201
    id = sent.json()["id"]
    assert sent.json() | {"status": "open", "requester": asker.account, "provider": owner.account} == sent.json()
    waiting = owner.get("/v1/enquiries", params={"side": "received", "open": True}).json()["items"]
    assert waiting[0] == sent.json() and waiting[0]["why"] == WISH["why"]

    fuller = granted_dataset(scene, make_sketch, verbs, "fuller")
    assert {who.get(f"/v1/datasets/{fuller['id']}").status_code for who in (asker, other, server.client())} == {404}
    answer = owner.post(f"/v1/enquiries/{id}/grant", json={"dataset": fuller["id"], "words": "For a year."})
    assert answer.json() | {"status": "granted", "granted": fuller["id"], "answer": "For a year."} == answer.json()

    assert asker.get(f"/v1/enquiries/{id}").json() == answer.json()
    assert asker.get(f"/v1/datasets/{fuller['id']}/sketch").status_code == 200
    assert asker.get(f"/v1/sketches/{fuller['digest']}").status_code == 200
    hidden = [other.get(f"/v1/{path}") for path in (f"datasets/{fuller['id']}", f"sketches/{fuller['digest']}")]
    assert [one.status_code for one in hidden] == [404, 404]
    for listed in ("/v1/datasets", "/v1/corpus"):
        at_most = {"limit": 200, "provider": owner.account}
        assert fuller["id"] in [one["id"] for one in asker.get(listed, params=at_most).json()["items"]]
        assert fuller["id"] not in [one["id"] for one in other.get(listed, params=at_most).json()["items"]]
    counts = [who.get("/v1/facets", params={"provider": owner.account}).json()["total"] for who in (asker, other)]
    assert counts[0] == counts[1] + 1

    grants = owner.get(f"/v1/datasets/{fuller['id']}/grants").json()["items"]
    assert [one["account"] for one in grants] == [asker.account]
    assert owner.delete(f"/v1/datasets/{fuller['id']}/grants/{asker.account}").status_code == 204
    assert asker.get(f"/v1/datasets/{fuller['id']}").status_code == 404
    trail = {entry["action"]: entry for entry in server.admin.get("/v1/audit").json()["items"]}
    assert {"enquire", "grant enquiry", "grant", "take grant"} <= trail.keys()
    assert trail["grant enquiry"]["facts"]["granted"] == fuller["id"]
    assert "beds" not in str(trail), "the trail says who asked whom, not what for"


def test_a_search_on_the_platform_takes_a_granted_dataset_for_those_alone_whom_it_is_granted_to(
    start_in_process: Callable[[Settings], Iterator[Any]], fresh: Settings, sketches: dict[str, bytes], verbs: Any
) -> None:
    """The only dataset that would help: who may not know of it must not learn of it by a search."""
    for server in start_in_process(fresh):
        owner, asker, other = server.account("provider"), server.account("requester"), server.account("requester")
        secret = verbs.publish(owner, sketches["good"], visibility="granted").json()
        assert verbs.publish(owner, sketches["useless"]).status_code == 201
        assert owner.put(f"/v1/datasets/{secret['id']}/grants/{asker.account}").status_code == 200
        found = {}
        for name, who in (("asker", asker), ("other", other)):
            id = verbs.ask(who, sketches["train"]).json()["id"]
            assert verbs.wait(who, id)["status"] == "done"
            found[name] = who.get(f"/v1/searches/{id}/result")
        assert secret["digest"] in [step["digest"] for step in found["asker"].json()["steps"]]
        assert secret["digest"] not in found["other"].text and "survey" not in found["other"].text
        # Where the whole shard is hidden nothing is left to sweep, and the search says so instead of failing.
        assert owner.delete(f"/v1/datasets/{_id_of(owner, 'noise')}").status_code == 204
        id = verbs.ask(other, sketches["train"]).json()["id"]
        assert verbs.wait(other, id)["status"] == "done"


def _id_of(client: httpx.Client, name: str) -> str:
    return str(next(one["id"] for one in client.get("/v1/datasets").json()["items"] if one["name"] == name))


def test_a_refusal_has_a_reason_and_an_enquiry_is_answered_once(scene: dict[str, Any]) -> None:
    owner, asker = scene["owner"], scene["asker"]
    id = enquire(asker, scene["public"]["id"]).json()["id"]
    assert owner.post(f"/v1/enquiries/{id}/refuse", json={"reason": " "}).status_code == 422
    refused = owner.post(f"/v1/enquiries/{id}/refuse", json={"reason": "Too few patients."})
    assert refused.json()["status"] == "refused"
    assert asker.get(f"/v1/enquiries/{id}").json()["answer"] == "Too few patients."
    again = owner.post(f"/v1/enquiries/{id}/grant", json={"dataset": scene["public"]["id"]})
    assert again.status_code == 409
    assert asker.delete(f"/v1/enquiries/{id}").status_code == 204
    assert owner.get(f"/v1/enquiries/{id}").status_code == 404


def test_nobody_but_the_two_sides_sees_an_enquiry_and_only_the_right_side_answers(
    server: Any, scene: dict[str, Any]
) -> None:
    owner, asker = scene["owner"], scene["asker"]
    id = enquire(asker, scene["public"]["id"]).json()["id"]
    others = [server.account("requester"), server.account("provider"), server.admin]
    assert [who.get(f"/v1/enquiries/{id}").status_code for who in others] == [404, 404, 404]
    assert all(id not in who.get("/v1/enquiries").text for who in others)
    assert asker.post(f"/v1/enquiries/{id}/refuse", json={"reason": "x"}).status_code == 403
    assert owner.delete(f"/v1/enquiries/{id}").status_code == 403
    foreign = server.account("provider")
    assert foreign.post(f"/v1/enquiries/{id}/grant", json={"dataset": scene["public"]["id"]}).status_code == 404
    assert asker.delete(f"/v1/enquiries/{id}").status_code == 204


def test_a_provider_grants_its_own_datasets_alone(server: Any, scene: dict[str, Any], sketches: Any, verbs: Any) -> None:
    rival = server.account("provider")
    theirs = verbs.publish(rival, sketches["useless"]).json()["id"]
    id = enquire(scene["asker"], scene["public"]["id"]).json()["id"]
    answer = scene["owner"].post(f"/v1/enquiries/{id}/grant", json={"dataset": theirs})
    assert answer.status_code == 403
    assert scene["asker"].get(f"/v1/enquiries/{id}").json()["status"] == "open"
    assert scene["asker"].delete(f"/v1/enquiries/{id}").status_code == 204


@pytest.mark.parametrize(
    "changes",
    [
        {"understood": False},
        {"understood": None},
        {"why": ""},
        {"why": "x" * 2001},
        {"why": "a\x1b[31mb"},
        {"columns": ["c"] * 51},
        {"columns": ["x" * 101]},
        {"keys": ["k\x00"]},
        {"why": "one line\x1cand another"},
        {"why": "over\rwritten"},
        {"budget": {"epsilon": "0", "delta": "0"}},
        {"budget": {"epsilon": "much", "delta": "0"}},
        {"target": "income"},
    ],
)
def test_what_is_not_agreed_to_too_long_or_no_budget_is_refused(scene: dict[str, Any], changes: dict[str, Any]) -> None:
    answer = enquire(scene["asker"], scene["public"]["id"], **changes)
    assert answer.status_code == 422 and answer.json()["error"]["hint"]


def test_an_account_has_so_many_open_enquiries(
    start_in_process: Callable[[Settings], Iterator[Any]], fresh: Settings, sketches: dict[str, bytes], verbs: Any
) -> None:
    for server in start_in_process(fresh.model_copy(update={"enquiries_per_requester": 2})):
        owner, asker = server.account("provider"), server.account("requester")
        dataset = verbs.publish(owner, sketches["whole"]).json()["id"]
        first, _ = (enquire(asker, dataset).json()["id"] for _ in range(2))
        third = enquire(asker, dataset)
        assert third.status_code == 422 and third.json()["error"]["code"] == "over_quota"
        assert owner.post(f"/v1/enquiries/{first}/refuse", json={"reason": "no"}).status_code == 200
        assert enquire(asker, dataset).status_code == 201
        assert enquire(server.account("requester"), dataset).status_code == 201, "others have a number of their own"
        both = server.account("provider", "requester", name=owner.account)
        assert enquire(both, dataset).status_code == 422, "nobody asks themselves"


def test_grants_go_with_their_dataset(
    scene: dict[str, Any], server: Any, make_sketch: Callable[..., Sketch], verbs: Any
) -> None:
    owner, asker = scene["owner"], scene["asker"]
    for _ in range(2):
        one = granted_dataset(scene, make_sketch, verbs, "again")
        assert asker.get(f"/v1/datasets/{one['id']}").status_code == 404, "nothing is left of an earlier grant"
        assert owner.put(f"/v1/datasets/{one['id']}/grants/{asker.account}").json()["account"] == asker.account
        assert asker.get(f"/v1/datasets/{one['id']}").status_code == 200
        assert owner.delete(f"/v1/datasets/{one['id']}").status_code == 204
    assert owner.put(f"/v1/datasets/{scene['public']['id']}/grants/no%20name").status_code == 422


def test_grants_are_of_accounts_with_a_token_and_go_with_the_last_one(
    scene: dict[str, Any], server: Any, make_sketch: Callable[..., Sketch], verbs: Any
) -> None:
    owner = scene["owner"]
    id = granted_dataset(scene, make_sketch, verbs, "for-few")["id"]
    refused = owner.put(f"/v1/datasets/{id}/grants/nobody-here")
    assert refused.status_code == 422 and "token" in refused.json()["error"]["message"]
    asker = server.account("requester")
    assert owner.put(f"/v1/datasets/{id}/grants/{asker.account}").status_code == 200
    assert asker.get(f"/v1/datasets/{id}").status_code == 200
    token = next(one for one in server.admin.get("/v1/tokens?limit=200").json()["items"] if one["name"] == asker.account)
    assert server.admin.delete(f"/v1/tokens/{token['id']}").status_code == 204
    another = server.account("requester", name=asker.account)
    assert another.get(f"/v1/datasets/{id}").status_code == 404


def test_a_new_version_is_not_granted_where_the_dataset_is_public(
    server: Any, make_sketch: Callable[..., Sketch], verbs: Any
) -> None:
    """It would take a public dataset away from everybody else."""
    owner = server.account("provider")
    public = verbs.publish(owner, write_sketch(make_sketch("twice", seed=96))).json()
    answer = verbs.publish(owner, write_sketch(make_sketch("twice", seed=97)), visibility="granted")
    assert answer.status_code == 409, answer.text
    assert owner.get(f"/v1/datasets/{public['id']}").json()["visibility"] == "public"
