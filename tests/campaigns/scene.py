"""A server in a process of its own with some datasets in it, attackers who come to it, and a bystander who is measured."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from saibot.sketch import read_sketch, write_sketch
from tests.support.forging import content_of

KNOWN = 25  # datasets that are there before anybody attacks
TARGET = "delay"
BINARY = {"Content-Type": "application/octet-stream"}


@dataclass
class Scene:
    """What an attack needs: who to be, what to send, and where to write down what came back."""

    address: str
    admin: str  # a token
    quick: bool
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)  # digests of what was acknowledged, by the id of the dataset
    made: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def place(self) -> tuple[str, int]:
        url = httpx.URL(self.address)
        return str(url.host), int(url.port or 80)

    def client(self, token: str | None = None, *, timeout: float = 120) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.address, headers=headers, timeout=timeout)

    def account(self, *roles: str) -> str:
        """The token of a new account."""
        with self.lock:
            self.made += 1
            name = f"attacker-{self.made}"
        with self.client(self.admin) as client:
            answer = client.post("/v1/tokens", json={"name": name, "roles": list(roles)})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def ask(self, client: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response | None:
        """An answer, noted; None where the server hung up."""
        try:
            answer = client.request(method, path, **more)
        except httpx.TransportError as problem:
            self.note(type(problem).__name__)
            return None
        self.note(str(answer.status_code))
        if answer.status_code >= 500 and not (answer.status_code == 503 and "retry-after" in answer.headers):
            with self.lock:
                self.wrong.append(f"{method} {path.partition('?')[0]}: {answer.status_code}")
        return answer

    def note(self, status: str) -> None:
        with self.lock:
            self.statuses[status] += 1

    def publish(self, token: str, content: bytes) -> httpx.Response | None:
        with self.client(token) as client:
            answer = self.ask(client, "POST", "/v1/datasets", content=content, headers=BINARY)
        if answer is not None and answer.status_code == 201:
            with self.lock:
                self.kept[answer.json()["id"]] = answer.json()["digest"]
        return answer

    def search(self, token: str, train: bytes, test: bytes | None = None, **options: Any) -> httpx.Response | None:
        files = {"train": ("train.saibot", train)} | ({"test": ("test.saibot", test)} if test is not None else {})
        with self.client(token) as client:
            asked = {"options": json.dumps({"target": TARGET} | options)}
            return self.ask(client, "POST", "/v1/searches", files=files, data=asked)

    def lost(self) -> list[str]:
        """What was acknowledged and is not there, or not what it was."""
        with self.client(self.admin) as client:
            return [id for id, digest in list(self.kept.items()) if not self._has(client, id, digest)]

    def _has(self, client: httpx.Client, id: str, digest: str) -> bool:
        while True:
            answer = client.get(f"/v1/datasets/{id}/sketch", headers={"If-None-Match": f'"{digest}"'})
            if answer.status_code != 429:
                return answer.status_code == 304
            time.sleep(int(answer.headers["retry-after"]))

    @staticmethod
    def together(work: Callable[[Any], object], over: Iterable[Any], *, threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            for outcome in [pool.submit(work, one) for one in over]:
                outcome.result()


@dataclass(frozen=True)
class Measured:
    """What was seen while an attack went on."""

    peak_mb: float
    least_mb: float  # of its two largest processes: the server, and one that searches
    processes_mb: tuple[int, ...]  # of the server and its children then
    requests: int
    p95_ms: float
    slowest_ms: float
    refused: dict[str, int]  # answers to the bystander that were none
    searches: int
    slowest_search_s: float

    def above(self, idle_mb: float) -> Measured:
        return replace(self, peak_mb=self.peak_mb - idle_mb, least_mb=self.least_mb - idle_mb)


class Watcher:
    """The bystander's process, and what it has said so far."""

    def __init__(self, scene: Scene, pid: int) -> None:
        command = [sys.executable, "-m", "tests.campaigns.bystander"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        told = {"pid": pid, "address": scene.address, "token": scene.account("requester"), "target": TARGET}
        told["train"] = content_of("v2-lookup-levels").hex()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        self._lines: list[list[Any]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(json.loads(line))

    def searches(self) -> int:
        return sum(line[0] == "search" for line in self._lines)

    def between(self, start: float, end: float) -> Measured:
        lines = [line for line in list(self._lines) if start <= line[1] <= end]
        times = [line[2] for line in lines if line[0] == "seen"]
        refused = Counter(str(line[3]) for line in lines if line[0] == "seen" and line[3] not in (200, 202))
        refused.update(f"search {line[3]} {line[4]}" for line in lines if line[0] == "search" and line[3] != "done")
        memory = [line[2] for line in lines if line[0] == "memory"]
        peak = max(memory, key=lambda one: sum(one.values()), default={})
        return Measured(
            peak_mb=sum(peak.values()),
            least_mb=min((sum(sorted(one.values())[-2:]) for one in memory), default=0.0),
            processes_mb=tuple(round(one) for one in peak.values()),
            requests=len(times),
            p95_ms=float(np.percentile(times, 95)) if times else float("nan"),
            slowest_ms=max(times, default=float("nan")),
            refused=dict(refused),
            searches=sum(line[0] == "search" for line in lines),
            slowest_search_s=max((line[2] for line in lines if line[0] == "search"), default=float("nan")),
        )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def attacked_server(folder: Path, *, database: str | None, quick: bool) -> Iterator[tuple[Scene, int]]:
    """A real server with the settings that ship, some datasets in it and a search behind it; and its process."""
    settings = {"SAIBOT_DATA": str(folder / "data"), "SAIBOT_LOG_LEVEL": "error", "SAIBOT_ACCEPT_UNSAFE": "true"}
    settings |= {"SAIBOT_DATABASE": database} if database else {}
    command = [sys.executable, "-m", "saibot.cli", "serve", "--port", "0", "--workers", "1", "--json"]
    log = (folder / "server.log").open("w")
    process = subprocess.Popen(command, env=os.environ | settings, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        told = itertools.takewhile(lambda line: line not in ("}\n", ""), iter(process.stdout.readline, None))
        ready = json.loads("".join(told) + "}")
        scene = Scene(ready["address"], Path(ready["admin_token_file"]).read_text().strip(), quick)
        library = scene.account("provider", "requester")
        for number in range(KNOWN):
            assert scene.publish(library, named(f"known-{number}")) is not None
        _search_once(scene, library)
        scene.statuses.clear()
        yield scene, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()


def named(name: str, base: str = "v2-lookup-levels") -> bytes:
    sketch = read_sketch(content_of(base))
    facts = sketch.header.dataset.model_copy(update={"name": name, "title": name})
    return write_sketch(replace(sketch, header=sketch.header.model_copy(update={"dataset": facts})).sealed())


def _search_once(scene: Scene, token: str) -> None:
    asked = scene.search(token, content_of("v2-lookup-levels"), steps=1)
    assert asked is not None and asked.status_code == 202, asked and asked.text
    with scene.client(token) as client:
        while (found := client.get(f"/v1/searches/{asked.json()['id']}").json())["status"] in ("queued", "running"):
            time.sleep(0.1)
    assert found["status"] == "done", found
