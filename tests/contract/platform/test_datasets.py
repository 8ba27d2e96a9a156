"""Publishing, browsing, versions, downloading and withdrawing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from saibot.platform.storage.tables import datasets
from saibot.sketch import Sketch, read_sketch, write_sketch
from tests.support.fabricating import drawn_anew

Bytes = dict[str, bytes]
OCTETS = {"Content-Type": "application/octet-stream"}


def test_a_published_sketch_is_listed_shown_and_downloaded_as_it_was(server: Any, sketches: Bytes, verbs: Any) -> None:
    provider = server.account("provider")
    answer = verbs.publish(provider, sketches["good"])
    assert answer.status_code == 201, answer.text
    dataset = answer.json()
    header = read_sketch(sketches["good"]).header
    assert (dataset["provider"], dataset["name"], dataset["rows"]) == (provider.account, "survey", header.rows)
    assert dataset["digest"] == header.digest and dataset["bytes"] == len(sketches["good"])
    assert dataset["key"]["parts"][0]["domain"] == "shops" and dataset["budget"] == {"epsilon": "200", "delta": "1e-6"}
    visitor = server.client()
    assert visitor.get("/v1/datasets", params={"provider": provider.account}).json() == {"items": [dataset], "next": None}
    shown = visitor.get(f"/v1/datasets/{dataset['id']}").json()
    assert {name: shown[name] for name in dataset} == dataset
    assert abs(shown["profile"]["features"][0]["mean"]["value"] - 50) < 20
    assert [version["digest"] for version in shown["versions"]] == [dataset["digest"]]
    for address in (f"/v1/datasets/{dataset['id']}/sketch", f"/v1/sketches/{dataset['digest']}"):
        assert visitor.get(address).content == sketches["good"]


def test_publishing_again_makes_a_version_that_alone_is_listed(server: Any, sketches: Bytes, verbs: Any) -> None:
    provider = server.account("provider")
    first = verbs.publish(provider, sketches["good"]).json()
    again = verbs.publish(provider, sketches["good"])
    assert (again.status_code, again.json()) == (200, first)
    second = verbs.publish(provider, sketches["good2"])
    assert second.status_code == 201
    assert (second.json()["id"], second.json()["version"]) == (first["id"], 2)
    listed = provider.get("/v1/datasets", params={"provider": provider.account}).json()["items"]
    assert listed == [second.json()]
    versions = provider.get(f"/v1/datasets/{first['id']}").json()["versions"]
    assert [(version["version"], version["digest"]) for version in versions] == [
        (2, second.json()["digest"]),
        (1, first["digest"]),
    ]
    assert provider.get(f"/v1/sketches/{first['digest']}").content == sketches["good"]  # older ones stay by digest


def test_a_withdrawn_dataset_is_gone_from_lists_storage_and_shards(
    server: Any, sketches: Bytes, make_sketch: Callable[..., Sketch], verbs: Any
) -> None:
    provider = server.account("provider")
    kept = verbs.publish(provider, sketches["useless"]).json()
    old, new = make_sketch("leaving", seed=21), make_sketch("leaving", seed=22)
    verbs.publish(provider, write_sketch(old))
    dataset = verbs.publish(provider, write_sketch(new)).json()
    server.app.state.platform.shards.catch_up()
    assert holding(server, dataset["digest"])
    assert provider.delete(f"/v1/datasets/{dataset['id']}").status_code == 204
    for digest in (old.digest, new.digest):
        assert holding(server, digest) == []
        assert server.client().get(f"/v1/sketches/{digest}").status_code == 404
    assert provider.get(f"/v1/datasets/{dataset['id']}").status_code == 404
    assert provider.delete(f"/v1/datasets/{dataset['id']}").status_code == 404
    listed = provider.get("/v1/datasets", params={"provider": provider.account}).json()["items"]
    assert [entry["id"] for entry in listed] == [kept["id"]]


def test_one_sketch_under_two_providers_stays_when_the_copy_goes_and_goes_with_the_original(
    server: Any, make_sketch: Callable[..., Sketch], verbs: Any
) -> None:
    shared = write_sketch(make_sketch("shared", seed=77))
    one, other = server.account("provider"), server.account("provider")
    first, second = verbs.publish(one, shared).json(), verbs.publish(other, shared).json()
    assert first["id"] != second["id"] and first["digest"] == second["digest"]
    assert other.delete(f"/v1/datasets/{second['id']}").status_code == 204
    assert one.get(f"/v1/datasets/{first['id']}/sketch").content == shared
    server.app.state.platform.shards.catch_up()
    assert holding(server, first["digest"])
    second = verbs.publish(other, shared).json()
    assert one.delete(f"/v1/datasets/{first['id']}").status_code == 204
    assert other.get(f"/v1/datasets/{second['id']}").status_code == 404
    assert holding(server, first["digest"]) == []


@pytest.mark.parametrize("kind", ["text/csv", "application/octet-stream"])
def test_a_table_is_refused_with_the_way_to_privatise_it(server: Any, kind: str) -> None:
    provider = server.account("provider")
    body = b"patient,diagnosis\n1,flu\n"
    answer = provider.post("/v1/datasets", content=body, headers={"Content-Type": kind})
    assert answer.status_code == (415 if kind == "text/csv" else 422)
    assert "saibot privatize" in answer.json()["error"]["hint"]
    assert "flu" not in answer.text


def test_what_is_too_large_is_refused(server: Any) -> None:
    provider = server.account("provider")
    answer = provider.post("/v1/datasets", content=b"ARROW1" + bytes(server.settings.max_upload_bytes), headers=OCTETS)
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "too_large"


def test_a_simulated_sketch_is_refused(server: Any, verbs: Any, golden: bytes) -> None:
    answer = verbs.publish(server.account("provider"), golden)
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "not_private"


def test_pages_of_a_list_have_everything_once(server: Any, make_sketch: Callable[..., Sketch], verbs: Any) -> None:
    provider = server.account("provider")
    base = make_sketch("page", seed=9)
    for number in range(7):
        verbs.publish(provider, renamed(base, f"page-{number}"))
    for sort in ("published", "rows", "epsilon", "name"):
        found, cursor = [], None
        while True:
            query = {"provider": provider.account, "limit": 3, "sort": sort} | ({"cursor": cursor} if cursor else {})
            page = provider.get("/v1/datasets", params=query).json()
            found += [entry["name"] for entry in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert sorted(found) == [f"page-{number}" for number in range(7)]
        if sort == "name":
            assert found == sorted(found)
        if sort == "published":
            assert found == sorted(found, reverse=True)


def test_datasets_are_found_by_word_domain_feature_and_provider(
    server: Any, make_sketch: Callable[..., Sketch], verbs: Any
) -> None:
    provider = server.account("provider")
    mark = provider.account.replace("-", "")
    base = make_sketch("found", seed=10)
    verbs.publish(provider, renamed(base, f"{mark}-Zürich-north"))
    verbs.publish(provider, renamed(base, f"{mark}-south"))
    visitor = server.client()

    def names(**query: str) -> list[str]:
        answer = visitor.get("/v1/datasets", params={"sort": "name", **query})
        assert answer.status_code == 200, answer.text
        return [entry["title"].removeprefix(f"{mark}-") for entry in answer.json()["items"]]

    assert names(q=mark) == ["south", "Zürich-north"]
    assert names(q=f"{mark} zÜr") == ["Zürich-north"]  # words begin alike, whatever the case
    assert names(q=f"south {mark.upper()}") == ["south"]
    assert names(q=f"{mark} nowhere") == []
    assert names(provider=provider.account, feature="LEVEL", domain="shops") == ["south", "Zürich-north"]
    assert names(provider=provider.account, feature="sales") == []
    counts = visitor.get("/v1/facets", params={"q": mark}).json()
    assert counts == {
        "total": 2,
        "domains": [{"domain": "shops", "count": 2}],
        "providers": [{"provider": provider.account, "count": 2}],
        "features": [{"feature": "level", "count": 2}],
        "tags": [],
    }
    assert visitor.get("/v1/facets").json()["total"] >= 2


def test_a_download_can_be_resumed(server: Any, sketches: Bytes, verbs: Any) -> None:
    provider = server.account("provider")
    dataset = verbs.publish(provider, sketches["good"]).json()
    address = f"/v1/sketches/{dataset['digest']}"
    size = len(sketches["good"])
    whole = provider.get(address)
    assert whole.headers["etag"] == f'"{dataset["digest"]}"' and whole.headers["accept-ranges"] == "bytes"
    part = provider.get(address, headers={"Range": "bytes=100-199"})
    assert part.status_code == 206 and part.content == sketches["good"][100:200]
    assert part.headers["content-range"] == f"bytes 100-199/{size}"
    assert provider.get(address, headers={"Range": f"bytes={size - 7}-"}).content == sketches["good"][-7:]
    assert provider.get(address, headers={"Range": "bytes=-7"}).content == sketches["good"][-7:]
    assert provider.get(address, headers={"Range": "bytes=5-2"}).status_code == 200
    assert provider.get(address, headers={"Range": "bytes=0-9", "If-Range": '"other"'}).status_code == 200
    outside = provider.get(address, headers={"Range": f"bytes={size}-"})
    assert outside.status_code == 416 and outside.json()["error"]["hint"]
    assert provider.get(address, headers={"If-None-Match": whole.headers["etag"]}).status_code == 304


def test_a_restricted_dataset_is_for_those_who_search(server: Any, sketches: Bytes, verbs: Any) -> None:
    owner, other = server.account("provider"), server.account("provider")
    requester, visitor = server.account("requester"), server.client()
    dataset = verbs.publish(owner, sketches["good"], visibility="restricted").json()
    assert dataset["visibility"] == "restricted"
    for client, sees in ((owner, True), (requester, True), (server.admin, True), (other, False), (visitor, False)):
        listed = client.get("/v1/datasets", params={"provider": owner.account}).json()["items"]
        assert bool(listed) is sees
        counted = client.get("/v1/facets", params={"provider": owner.account}).json()
        assert (bool(counted["total"]), bool(counted["features"])) == (sees, sees)
        slice = client.get("/v1/corpus", params={"limit": 1000}).json()["items"]
        assert (dataset["id"] in [entry["id"] for entry in slice]) is sees
        assert client.get(f"/v1/datasets/{dataset['id']}").status_code == (200 if sees else 404)
        assert client.get(f"/v1/datasets/{dataset['id']}/sketch").status_code == (200 if sees else 404)
    changed = verbs.publish(owner, sketches["good"], visibility="public")
    assert changed.status_code == 200 and changed.json()["visibility"] == "public"
    assert visitor.get(f"/v1/datasets/{dataset['id']}").status_code == 200


def test_an_expired_dataset_is_gone(server: Any, make_sketch: Callable[..., Sketch], verbs: Any, monkeypatch: Any) -> None:
    provider = server.account("provider")
    yesterday = (datetime.now(UTC).date() - timedelta(1)).isoformat()
    sketch = write_sketch(make_sketch("short-lived", seed=12))
    for expires in (yesterday, "2030-02-31", "soon"):
        answer = verbs.publish(provider, sketch, expires=expires)
        assert answer.status_code == 422 and "expires" in answer.json()["error"]["message"]
    expires = (datetime.now(UTC).date() + timedelta(30)).isoformat()
    dataset = verbs.publish(provider, sketch, expires=expires).json()
    assert dataset["expires"] == expires
    with server.app.state.platform.database.write() as connection:  # the database's own clock is nobody's to change
        connection.execute(update(datasets).where(datasets.c.id == dataset["id"]).values(expires=yesterday))
    assert server.client().get(f"/v1/datasets/{dataset['id']}").status_code == 404  # before any tidying
    later = (date.fromisoformat(expires) + timedelta(1)).isoformat()
    noon = datetime.fromisoformat(f"{later}T12:00:00+00:00").timestamp()
    monkeypatch.setattr("saibot.platform.storage.database.Database.moment", lambda self, connection: noon)
    for _ in range(100):  # where it was being packed at that moment, the next look takes it out
        server.app.state.platform.tidy()
        if len(holding(server, dataset["digest"])) == 1:
            break
        time.sleep(0.1)
    assert len(holding(server, dataset["digest"])) == 1  # the sketch itself, put by
    in_a_week = noon + 8 * 86400
    monkeypatch.setattr("saibot.platform.storage.database.Database.moment", lambda self, connection: in_a_week)
    server.app.state.platform.tidy()
    assert holding(server, dataset["digest"]) == []


def test_a_domain_is_registered_once_and_for_good(server: Any) -> None:
    provider = server.account("provider")
    id = f"towns-{provider.account}"
    text = "town,land\nBerne,CH\nVienna,AT\n"

    def put(version: int, body: str) -> httpx.Response:
        return provider.put(f"/v1/domains/{id}/{version}", content=body.encode(), headers={"Content-Type": "text/csv"})

    first = put(1, text)
    assert first.status_code == 201, first.text
    assert (first.json()["size"], first.json()["levels"]) == (2, ["land"])
    assert (put(1, text).status_code, put(1, text + "Paris,FR\n").status_code) == (200, 409)
    assert put(2, text + "Paris,FR\n").status_code == 201
    visitor = server.client()
    assert visitor.get(f"/v1/domains/{id}/1").json() == first.json()
    assert visitor.get(f"/v1/domains/{id}/1/file").text == "key,land\nBerne,CH\nVienna,AT\n"
    listed = visitor.get("/v1/domains", params={"limit": 200}).json()["items"]
    assert [(entry["id"], entry["version"]) for entry in listed if entry["id"] == id] == [(id, 1), (id, 2)]
    for body in ("", "town\n", "town\nA\nA\n", "town,land\nA\n", "town,town\nA,B\n", "\x00\n\x00"):
        refused = put(3, body)
        assert refused.status_code == 422 and refused.json()["error"]["hint"], body
    assert visitor.get(f"/v1/domains/{id}/3").status_code == 404
    generated = provider.put("/v1/domains/dates:2013-01-01:2013-01-02/1", content=b"day\n2013-01-01\n")
    assert generated.status_code == 422


def test_a_token_that_was_revoked_is_refused_at_once(server: Any) -> None:
    admin = server.admin
    made = admin.post("/v1/tokens", json={"name": "brief", "roles": ["provider", "requester"]}).json()
    client = server.client(made["token"])
    who = {"name": "brief", "roles": ["provider", "requester"], "max_delta": "0.0001"}
    who["max_epsilon"] = str(server.settings.max_epsilon)
    assert client.get("/v1/me").json() == who
    listed = admin.get("/v1/tokens", params={"limit": 200}).json()["items"]
    assert made["id"] in [token["id"] for token in listed] and all("token" not in token for token in listed)
    assert admin.delete(f"/v1/tokens/{made['id']}").status_code == 204
    refused = client.get("/v1/me")
    assert refused.status_code == 401 and "revoked" in refused.json()["error"]["message"]
    assert admin.delete("/v1/tokens/t0").status_code == 404
    own = next(token["id"] for token in listed if token["name"] == "admin")
    assert admin.delete(f"/v1/tokens/{own}").status_code == 409  # somebody has to be left


def test_the_trail_tells_who_did_what(server: Any, sketches: Bytes, verbs: Any) -> None:
    provider = server.account("provider")
    dataset = verbs.publish(provider, sketches["good"]).json()
    provider.delete(f"/v1/datasets/{dataset['id']}")
    entries = server.admin.get("/v1/audit", params={"limit": 20, "account": provider.account}).json()["items"]
    mine = [(entry["action"], entry["subject"]) for entry in entries if entry["account"] == provider.account]
    assert mine == [("withdraw", dataset["id"]), ("publish", dataset["id"])]


# ------------------------------------------------------------------------------------------------ helpers


def holding(server: Any, digest: str) -> list[str]:
    """Files under the data folder that have to do with a sketch: by name, or because they hold its digest."""
    found = []
    for path in server.settings.data.rglob("*"):
        if not path.is_file() or path.name.startswith("saibot.db") or "searches" in path.parts:
            continue  # the trail in the database keeps what was published, by digest, for good
        with contextlib.suppress(FileNotFoundError):  # what is being packed comes and goes
            if digest in path.name or digest.encode() in path.read_bytes():
                found.append(str(path))
    return found


def renamed(sketch: Sketch, name: str) -> bytes:
    """A sketch like this one under another name; a dataset's name takes letters, digits, dots and dashes only."""
    plain = name.replace("ü", "u")
    dataset = sketch.header.dataset.model_copy(update={"name": plain, "title": name})
    header = sketch.header.model_copy(update={"dataset": dataset})
    return write_sketch(drawn_anew(Sketch(header, sketch.levels), name))
