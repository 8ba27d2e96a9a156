"""Who may do what: every verb, every role, and what belongs to somebody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from saibot.sketch import Sketch, write_sketch

Bytes = dict[str, bytes]
ROLES = ("nobody", "requester", "provider", "admin")


@pytest.fixture(scope="module")
def scene(server: Any, module_sketches: Bytes, make_sketch: Callable[..., Sketch], verbs: Any) -> dict[str, Any]:
    """Things that belong to an owner, and callers of every role who are not that owner."""
    owner, asker = server.account("provider"), server.account("requester")
    public = verbs.publish(owner, module_sketches["good"]).json()
    restricted = verbs.publish(owner, write_sketch(make_sketch("hidden", seed=31)), visibility="restricted").json()
    domain = f"own-{owner.account}"
    owner.put(f"/v1/domains/{domain}/1", content=b"k\na\n", headers={"Content-Type": "text/csv"})
    search = verbs.ask(asker, module_sketches["train"]).json()["id"]
    verbs.wait(asker, search)
    wish = {"dataset": public["id"], "why": "more", "understood": True}
    enquiry = asker.post("/v1/enquiries", json=wish).json()["id"]
    callers = {
        "nobody": server.client(),
        "requester": server.account("requester"),
        "provider": server.account("provider"),
        "admin": server.admin,
    }
    return {
        "public": public,
        "restricted": restricted,
        "domain": domain,
        "search": search,
        "enquiry": enquiry,
        "callers": callers,
        "owner": owner,
        "asker": asker,
    }


def verb(method: str, path: str, **more: Any) -> Callable[[httpx.Client, dict[str, Any]], httpx.Response]:
    def call(client: httpx.Client, scene: dict[str, Any]) -> httpx.Response:
        names = {name: scene[name]["id"] for name in ("public", "restricted")}
        names |= {name: scene[name] for name in ("domain", "search", "enquiry")} | {"owner": scene["owner"].account}
        address = path.format(**names, digest=scene["restricted"]["digest"])
        return client.request(method, address, **more)

    return call


OCTETS = {"Content-Type": "application/octet-stream"}
VERBS: dict[str, tuple[Callable[..., httpx.Response], tuple[int, int, int, int]]] = {
    # verb: what nobody, another requester, another provider and an admin get
    "me": (verb("GET", "/v1/me"), (401, 200, 200, 200)),
    "create token": (verb("POST", "/v1/tokens", json={"name": "x", "roles": ["provider"]}), (401, 403, 403, 201)),
    "create own token": (verb("POST", "/v1/tokens", json={}), (401, 201, 201, 201)),
    "list tokens": (verb("GET", "/v1/tokens"), (401, 200, 200, 200)),
    "list own tokens": (verb("GET", "/v1/tokens?mine=true"), (401, 200, 200, 200)),
    "revoke token": (verb("DELETE", "/v1/tokens/t0"), (401, 403, 403, 404)),
    "providers": (verb("GET", "/v1/providers"), (200, 200, 200, 200)),
    "show provider": (verb("GET", "/v1/providers/{owner}"), (200, 200, 200, 200)),
    "show nobody": (verb("GET", "/v1/providers/nobody-at-all"), (404, 404, 404, 200)),
    "verify": (verb("PUT", "/v1/providers/nobody-at-all/verified"), (401, 403, 403, 404)),
    "take verification back": (verb("DELETE", "/v1/providers/{owner}/verified"), (401, 403, 403, 200)),
    "take key": (verb("DELETE", "/v1/providers/{owner}/key"), (401, 403, 403, 404)),
    "my key": (verb("GET", "/v1/me/key"), (401, 403, 200, 403)),
    "challenge": (verb("POST", "/v1/me/key/challenge"), (401, 403, 200, 403)),
    "bind key": (verb("PUT", "/v1/me/key", json={}), (401, 403, 422, 403)),
    "register domain": (verb("PUT", "/v1/domains/{domain}/1", content=b"k\na\n"), (401, 403, 200, 403)),
    "list domains": (verb("GET", "/v1/domains"), (200, 200, 200, 200)),
    "show domain": (verb("GET", "/v1/domains/{domain}/1"), (200, 200, 200, 200)),
    "domain file": (verb("GET", "/v1/domains/{domain}/1/file"), (200, 200, 200, 200)),
    "remove domain": (verb("DELETE", "/v1/domains/{domain}/1"), (401, 403, 403, 204)),
    "publish": (verb("POST", "/v1/datasets", content=b"ARROW1", headers=OCTETS), (401, 403, 422, 403)),
    "list datasets": (verb("GET", "/v1/datasets"), (200, 200, 200, 200)),
    "facets": (verb("GET", "/v1/facets"), (200, 200, 200, 200)),
    "corpus": (verb("GET", "/v1/corpus"), (200, 200, 200, 200)),
    "factors": (verb("GET", "/v1/factors"), (200, 200, 200, 200)),
    "download factors": (verb("GET", f"/v1/factors/{'0' * 64}"), (404, 404, 404, 404)),
    "show public": (verb("GET", "/v1/datasets/{public}"), (200, 200, 200, 200)),
    "download public": (verb("GET", "/v1/datasets/{public}/sketch"), (200, 200, 200, 200)),
    "about public": (verb("GET", "/v1/datasets/{public}/about"), (200, 200, 200, 200)),
    "about restricted": (verb("GET", "/v1/datasets/{restricted}/about"), (404, 200, 404, 200)),
    "describe another's": (verb("PUT", "/v1/datasets/{public}/about", json={"licence": "MIT"}), (401, 403, 403, 403)),
    "related to public": (verb("GET", "/v1/datasets/{public}/related"), (200, 200, 200, 200)),
    "related to restricted": (verb("GET", "/v1/datasets/{restricted}/related"), (404, 200, 404, 200)),
    "show restricted": (verb("GET", "/v1/datasets/{restricted}"), (404, 200, 404, 200)),
    "download restricted": (verb("GET", "/v1/datasets/{restricted}/sketch"), (404, 200, 404, 200)),
    "restricted by digest": (verb("GET", "/v1/sketches/{digest}"), (404, 200, 404, 200)),
    "confirm private": (verb("POST", f"/v1/datasets/{{public}}/confirm?digest={'0' * 64}"), (401, 403, 403, 422)),
    "withdraw another's": (verb("DELETE", "/v1/datasets/{public}"), (401, 403, 403, None)),
    "withdraw restricted": (verb("DELETE", "/v1/datasets/{restricted}"), (404, 403, 404, None)),
    "list grants": (verb("GET", "/v1/datasets/{public}/grants"), (401, 403, 403, 403)),
    "grant another's": (verb("PUT", "/v1/datasets/{public}/grants/me"), (401, 403, 403, 403)),
    "take another's grant": (verb("DELETE", "/v1/datasets/{public}/grants/me"), (401, 403, 403, 403)),
    "enquire": (verb("POST", "/v1/enquiries", json={"dataset": "d0"}), (401, 422, 403, 403)),
    "list enquiries": (verb("GET", "/v1/enquiries"), (401, 200, 200, 200)),
    "another's enquiry": (verb("GET", "/v1/enquiries/{enquiry}"), (401, 404, 404, 404)),
    "grant another's enquiry": (verb("POST", "/v1/enquiries/{enquiry}/grant", json={"dataset": "d0"}), (401, 403, 404, 403)),
    "refuse another's enquiry": (verb("POST", "/v1/enquiries/{enquiry}/refuse", json={"reason": "x"}), (401, 403, 404, 403)),
    "take another's enquiry back": (verb("DELETE", "/v1/enquiries/{enquiry}"), (401, 404, 404, 404)),
    "ask": (verb("POST", "/v1/searches", json={}), (401, 415, 403, 403)),
    "list searches": (verb("GET", "/v1/searches"), (401, 200, 403, 200)),
    "show another's search": (verb("GET", "/v1/searches/{search}"), (401, 404, 403, 200)),
    "watch another's search": (verb("GET", "/v1/searches/{search}/events"), (401, 404, 403, 200)),
    "another's result": (verb("GET", "/v1/searches/{search}/result"), (401, 404, 403, 403)),
    "cancel another's": (verb("DELETE", "/v1/searches/{search}"), (401, 404, 403, 403)),
    "audit": (verb("GET", "/v1/audit"), (401, 403, 403, 200)),
    "health": (verb("GET", "/healthz"), (200, 200, 200, 200)),
    "ready": (verb("GET", "/readyz"), (200, 200, 200, 200)),
    "metrics": (verb("GET", "/metrics"), (200, 200, 200, 200)),
}  # fmt: skip


@pytest.mark.parametrize("name", VERBS)
def test_each_role_gets_what_it_may_and_no_more(scene: dict[str, Any], name: str) -> None:
    call, expected = VERBS[name]
    for role, status in zip(ROLES, expected, strict=True):
        if status is None:
            continue  # an admin may; that would take the scene away
        answer = call(scene["callers"][role], scene)
        assert answer.status_code == status, (role, answer.text)
        if status >= 400:
            assert set(answer.json()["error"]) == {"code", "message", "hint", "details"}
            assert answer.json()["error"]["hint"]


def test_every_route_of_the_interface_is_in_the_matrix(server: Any, scene: dict[str, Any]) -> None:
    seen: set[tuple[str, str]] = set()

    def spy(method: str, address: str, **more: Any) -> httpx.Response:
        seen.add((method, address))
        return httpx.Response(200)

    client = type("Spy", (), {"request": staticmethod(spy)})()
    for call, _ in VERBS.values():
        call(client, scene)
    names = {
        scene["search"]: "{id}",
        scene["enquiry"]: "{id}",
        "grants/me": "grants/{account}",
        f"providers/{scene['owner'].account}": "providers/{name}",
        "providers/nobody-at-all": "providers/{name}",
        scene["public"]["id"]: "{id}",
        scene["restricted"]["id"]: "{id}",
        scene["restricted"]["digest"]: "{digest}",
        f"{scene['domain']}/1": "{id}/{version}",
        "t0": "{id}",
        "0" * 64: "{version}",
    }
    plain = set()
    for method, address in seen:
        address = address.partition("?")[0]
        for text, name in names.items():
            address = address.replace(f"/{text}", f"/{name}")
        plain.add((method, address))
    document = server.client().get("/openapi.json").json()
    there = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert there - plain == set()


def test_an_admin_sees_that_a_search_was_made_but_not_what_it_found(server: Any, scene: dict[str, Any]) -> None:
    listed = server.admin.get("/v1/searches", params={"limit": 200}).json()["items"]
    assert scene["search"] in [search["id"] for search in listed]
    assert scene["asker"].get(f"/v1/searches/{scene['search']}/result").status_code == 200


def test_a_provider_withdraws_its_own_and_an_admin_anybodys(server: Any, sketches: Bytes, verbs: Any) -> None:
    owner = server.account("provider")
    for who in (owner, server.admin):
        dataset = verbs.publish(owner, sketches["whole"]).json()
        assert who.delete(f"/v1/datasets/{dataset['id']}").status_code == 204


def test_a_second_token_of_an_account_has_its_datasets(server: Any, sketches: Bytes, verbs: Any) -> None:
    first = server.account("provider")
    dataset = verbs.publish(first, sketches["whole"], visibility="restricted").json()
    second = server.account("provider", name=first.account)
    assert second.delete(f"/v1/datasets/{dataset['id']}").status_code == 204


@pytest.mark.parametrize("header", ["", "Bearer", "Basic abc", "Bearer saibot_wrong", "Bearer \x80"])
def test_a_wrong_token_is_refused_even_where_none_is_needed(server: Any, header: str) -> None:
    answer = server.client().get("/v1/datasets", headers={"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
