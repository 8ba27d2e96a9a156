"""Callers who hold connections: heads that never end, bodies that trickle, answers that are never read."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress

from tests.campaigns.scene import Scene
from tests.support.forging import content_of

HOLD_SECONDS = 15.0


def _open(scene: Scene, held: ExitStack) -> socket.socket | None:
    try:
        return held.enter_context(socket.create_connection(scene.place, timeout=5))
    except OSError as problem:
        scene.note(type(problem).__name__)
        return None


def _hold(scene: Scene, callers: list[socket.socket], drop: bytes) -> None:
    """Each sends a few bytes now and then; those that the server has closed are counted."""
    end = time.monotonic() + (2 if scene.quick else HOLD_SECONDS)
    for one in callers:
        one.setblocking(False)
    there = list(callers)
    while time.monotonic() < end:
        for one in list(there):
            try:
                one.send(drop)
            except BlockingIOError:
                continue
            except OSError:
                there.remove(one)
                scene.note("closed")
        time.sleep(0.5)
    for one in there:
        with suppress(OSError):
            scene.note(one.recv(100)[9:12].decode() or "closed")
            continue
        scene.note("held")


def many_connections(scene: Scene) -> None:
    """As many connections as one address can get, which say nothing at all; those that are closed are opened again."""
    end = time.monotonic() + (2 if scene.quick else HOLD_SECONDS)
    with ExitStack() as held:
        for _ in range(200 if scene.quick else 5_000):
            if _open(scene, held) is None or time.monotonic() > end:
                break
            scene.note("opened")
        time.sleep(max(0.0, end - time.monotonic()))


def unfinished_heads(scene: Scene) -> None:
    """Hundreds of heads that never end."""
    with ExitStack() as held:
        callers = [one for _ in range(100 if scene.quick else 600) if (one := _open(scene, held)) is not None]
        for one in callers:
            with suppress(OSError):
                one.sendall(b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\n")
        _hold(scene, callers, b"X-More: 1\r\n")


def endless_heads(scene: Scene) -> None:
    """Heads that grow as fast as the server takes them."""
    with ExitStack() as held:
        callers = [one for _ in range(4) if (one := _open(scene, held)) is not None]
        for one in callers:
            with suppress(OSError):
                one.sendall(b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\n")
        line = b"".join(b"X-%06d: %s\r\n" % (number, b"y" * 80) for number in range(10_000))
        end = time.monotonic() + (2 if scene.quick else HOLD_SECONDS)
        while callers and time.monotonic() < end:
            for one in list(callers):
                try:
                    one.sendall(line)
                except OSError:
                    callers.remove(one)
                    scene.note("closed")
        scene.statuses["held"] += len(callers)


def slow_bodies(scene: Scene) -> None:
    """Hundreds of uploads, of an account and of nobody, of a byte now and then."""
    token = scene.account("provider")
    with ExitStack() as held:
        callers = [one for _ in range(100 if scene.quick else 400) if (one := _open(scene, held)) is not None]
        for number, one in enumerate(callers):
            own = f"Authorization: Bearer {token}\r\n" if number % 2 else ""
            head = f"POST /v1/datasets HTTP/1.1\r\nHost: x\r\n{own}Content-Length: 60000000\r\n\r\n"
            with suppress(OSError):
                one.sendall(head.encode())
        _hold(scene, callers, b"x")


def unread_streams(scene: Scene) -> None:
    """Hundreds of streams of events that nobody reads, of searches that wait."""
    token = scene.account("requester")
    train = content_of("v2-lookup-levels")
    scene.together(lambda _: scene.search(token, train, strategy="exhaustive", steps=3), range(3), threads=3)
    with scene.client(token) as client:
        ids = [one["id"] for one in client.get("/v1/searches").json()["items"]]
    with ExitStack() as held:
        callers = [one for _ in range(100 if scene.quick else 400) if (one := _open(scene, held)) is not None]
        for number, one in enumerate(callers):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            address = f"/v1/searches/{ids[number % len(ids)]}/events"
            head = f"GET {address} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
            with suppress(OSError):
                one.sendall(head.encode())
        _hold(scene, callers, b"")
    with scene.client(token) as client:
        for id in ids:
            client.delete(f"/v1/searches/{id}")


def unread_answers(scene: Scene) -> None:
    """Hundreds of large answers that nobody reads."""
    with scene.client() as client:
        found = client.get("/v1/datasets?q=tall&limit=1").json()["items"]
        domains = client.get("/v1/domains").json()["items"]
    paths = [f"/v1/datasets/{one['id']}/sketch" for one in found] + [f"/v1/domains/{one['id']}/1/file" for one in domains]
    paths += ["/v1/datasets?limit=200", "/metrics"]
    with ExitStack() as held:
        callers = [one for _ in range(40 if scene.quick else 200) if (one := _open(scene, held)) is not None]
        for number, one in enumerate(callers):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with suppress(OSError):
                one.sendall(f"GET {paths[number % len(paths)]} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        _hold(scene, callers, b"")
