"""Every hostile input that strangers can send to a platform, each as an attack that may go on for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import PlanRequest, make_plan
from tests.campaigns.hostile_numbers import hostile_sketch
from tests.campaigns.scene import BINARY, Scene
from tests.support.forging import content_of, forge, opened, set_at
from tests.support.hostile import bomb, packed, sized_sketch

MIB = 1 << 20
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def hostile_numbers(scene: Scene) -> None:
    """Sound files whose numbers are meant to break whoever computes with them; all are searched afterwards."""
    token = scene.account("provider", "requester")
    for number in range(10 if scene.quick else 100):
        content = hostile_sketch(number)
        if content is not None:
            scene.publish(token, content)
    scene.search(token, content_of("v2-lookup-levels"))


def bombs(scene: Scene) -> None:
    """Small files that unfold to gigabytes: packed the way of an old Arrow, and the way of today's."""
    token = scene.account("provider", "requester")
    document, batches = opened(content_of("semiring-composite"))
    old = bomb(document, batches[0], rows=200_000 if scene.quick else 3_000_000)
    new = packed(sized_sketch("unfolds", keys=50_000 if scene.quick else 2_000_000))
    for content in (old, new):
        scene.together(lambda content: scene.publish(token, content), [content] * 4, threads=4)
        scene.search(token, content, content)


def tiny_headers(scene: Scene) -> None:
    """A few kilobytes that announce work without end; and some that are sound, and as much work as a sketch can be."""
    token = scene.account("provider")
    for content in _tiny():
        scene.publish(token, content)
    wide = sized_sketch("wide", keys=1, features=300 if scene.quick else 1000)
    scene.together(lambda token: scene.publish(token, wide), [scene.account("provider") for _ in range(4)], threads=4)


@lru_cache(1)
def _tiny() -> list[bytes]:
    def of_order_6(document: dict[str, Any]) -> None:
        request = PlanRequest(
            mechanism="fpm",
            layout="join",
            features=100,
            order=6,
            bound_squared=Decimal(1),
            budget=Budget("1"),
            neighbours=Neighbours.REPLACE_ONE,
            row_count_public=True,
            rows=40,
        )
        document["features"] = [document["features"][0] | {"name": f"f{i}"} for i in range(100)]
        document |= {"plan": make_plan(request).to_json(), "bound_squared": "1", "budget": request.budget.to_json()}

    changes: list[Callable[[dict[str, Any]], object]] = [
        of_order_6,
        lambda document: document["plan"]["request"].update(order=10**9),
        lambda document: document["plan"]["request"].update(levels=10**6),
        set_at("plan", "blocks", to=[{}] * 1_000_000),
        set_at("preparation", "steps", to=["ab"] * 1_000_000),
        lambda document: document.update(features=document["features"] * 10_000),
    ]
    return [forge(content_of("semiring-composite"), change) for change in changes]


def long_texts(scene: Scene) -> None:
    """Datasets whose catalogue entries are as long as they can be, while everybody lists them."""
    token = scene.account("provider")
    for number in range(3 if scene.quick else 40):
        scene.publish(token, sized_sketch(f"long-{number}", keys=1, features=100 if scene.quick else 1000, texts="ß"))
    with scene.client() as client:
        for _ in range(20):
            scene.ask(client, "GET", "/v1/datasets?limit=200")


def bodies_of_nobody(scene: Scene) -> None:
    """126 MiB from somebody without a token, to everything that takes a body."""
    size = (8 if scene.quick else 126) * MIB
    body = b'{"name":"x","roles":[' + b'"admin",' * (size // 8) + b'"admin"]}'
    ways = [
        ("POST", "/v1/tokens", {"Content-Type": "application/json"}),
        ("POST", "/v1/datasets", BINARY),
        ("POST", "/v1/searches", {"Content-Type": "multipart/form-data; boundary=x"}),
        ("PUT", "/v1/domains/x/1", {"Content-Type": "text/csv"}),
        ("PUT", "/v1/datasets/d0/about", {"Content-Type": "application/json"}),
        ("POST", "/v1/enquiries", {"Content-Type": "application/json"}),
        ("POST", "/sign-in", FORM),
        ("POST", "/ask", {"Content-Type": "multipart/form-data; boundary=x"}),
    ]

    def send(way: tuple[str, str, dict[str, str]]) -> None:
        with scene.client() as client:
            scene.ask(client, way[0], way[1], content=body, headers=way[2])

    scene.together(send, ways * (1 if scene.quick else 2), threads=4)


def bodies_of_accounts(scene: Scene) -> None:
    """As much as an account may send, from several at once, to publish and to search with: as many keys as are taken with
    what features there is room for, as many features; and more keys than are taken."""
    keys, taken = (60_000, 1) if scene.quick else (99_000, 22)
    longest = sized_sketch("longest", keys=250_000 if scene.quick else 850_000)
    tall = sized_sketch("tall", keys=keys, features=taken)
    wide = sized_sketch("wide", keys=200 if scene.quick else 2_500, features=100 if scene.quick else 1000)
    providers, requesters = ([scene.account(role) for _ in range(4)] for role in ("provider", "requester"))
    scene.together(lambda token: scene.publish(token, longest), providers, threads=4)
    scene.together(lambda token: scene.publish(token, tall), providers, threads=4)
    scene.together(lambda token: scene.publish(token, wide), providers, threads=4)
    tall = sized_sketch("tall", keys=keys, features=taken, private=True)
    wide = sized_sketch("wide", keys=200 if scene.quick else 2_500, features=100 if scene.quick else 1000, private=True)
    scene.together(lambda token: scene.search(token, tall, target="f0"), requesters, threads=4)
    scene.together(lambda token: scene.search(token, wide, target="f0"), requesters, threads=4)
    time.sleep(1 if scene.quick else 20)  # packed and searched meanwhile
    for token in requesters:
        _cancel_all(scene, token)


def readers_of_large_ones(scene: Scene) -> None:
    """Nobody in particular looks at the largest sketches in every way that there is."""
    with scene.client() as client:
        found = scene.ask(client, "GET", "/v1/datasets?q=tall&limit=4")
        wide = scene.ask(client, "GET", "/v1/datasets?q=wide&limit=4")
        longest = scene.ask(client, "GET", "/v1/datasets?q=longest&limit=2")
    ids = [one["id"] for answer in (found, wide, longest) if answer is not None for one in answer.json()["items"]]
    ways = ("/v1/datasets/{}", "/datasets/{}", "/v1/datasets/{}/related", "/datasets/{}/rows", "/datasets/{}/charts")
    ways += ("/datasets/{}/values.csv", "/v1/datasets/{}/sketch")
    ways += tuple(f"/datasets/{{}}/{what}?feature=f{place}" for place in range(1, 6) for what in ("charts", "values.json"))

    def look(path: str) -> None:
        with scene.client() as client:
            scene.ask(client, "GET", path)

    scene.together(look, [way.format(id) for id in ids for way in ways], threads=8)


def many_searches(scene: Scene) -> None:
    """Sixty long searches by one requester at once, of which twenty may wait, and nobody else waits for them."""
    token = scene.account("requester")
    train = content_of("v2-lookup-levels")
    scene.together(lambda _: scene.search(token, train, strategy="exhaustive", steps=3), range(60), threads=30)
    time.sleep(2 if scene.quick else 30)
    _cancel_all(scene, token)


def many_keys(scene: Scene) -> None:
    """Key domains as large as they may be until no more are taken, and downloads of them by anybody."""
    token = scene.account("provider")
    size = 60_000 if scene.quick else 99_000
    keys = b"key\n" + b"".join(b"%07d\n" % number for number in range(size))
    many = (
        b"key,"
        + b",".join(b"p%d" % i for i in range(20))
        + b"\n"
        + b"".join(b"%06d%s\n" % (i, b",a" * 20) for i in range(size))
    )

    def register(number: int) -> None:
        with scene.client(token) as client:
            body = many if number % 2 else keys + b"x%d\n" % number
            scene.ask(client, "PUT", f"/v1/domains/endless-{number}/1", content=body, headers={"Content-Type": "text/csv"})

    scene.together(register, range(4), threads=4)

    def download(path: str) -> None:
        with scene.client() as client:
            scene.ask(client, "GET", path)

    ways = ["/v1/domains/endless-0/1/file"] * 6 + ["/domains/endless-0", "/domains/endless-1", "/domains"] * 2
    scene.together(download, ways, threads=6)


def keys_come_and_go(scene: Scene) -> None:
    """Lists of keys that are registered, asked for and removed again and again, under old names and new ones."""
    token = scene.account("provider")
    keys = b"key\n" + b"".join(b"%07d\n" % number for number in range(20_000 if scene.quick else 99_000))

    def churn(one: int) -> None:
        with scene.client(token) as client:
            for turn in range(2 if scene.quick else 8):
                address = f"/v1/domains/fleeting-{one}{'' if turn % 2 else f'-{turn}'}/1"
                scene.ask(client, "PUT", address, content=keys + b"x%d\n" % one, headers={"Content-Type": "text/csv"})
                scene.ask(client, "GET", f"{address}/file")
                scene.ask(client, "DELETE", address)

    scene.together(churn, range(4), threads=4)


def _cancel_all(scene: Scene, token: str) -> None:
    with scene.client(token) as client:
        for search in client.get("/v1/searches?limit=200").json().get("items", []):
            client.delete(f"/v1/searches/{search['id']}")
