"""A platform under load: many people browse, publish and search at once, from another process, and it stays quick.

The server runs in a process of its own; this one plays the clients over loopback. Each client acts, thinks for 1 to 3
seconds, and acts again. Afterwards, with nobody else there, each way to list and filter is timed by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np

from saibot.bench.stock import DOMAINS, PLACES, WORDS, Stock, fill, renamed, title
from saibot.errors import SaibotError
from saibot.platform import Settings, create_app
from saibot.sketch import write_sketch

if TYPE_CHECKING:
    from fastapi import FastAPI

THINK = (1.0, 3.0)
BROWSING = ("list", "words", "domain", "feature", "facets", "show")
ACTIONS = ("list", "words", "domain", "feature", "facets", "show", "download", "publish", "search")
WEIGHTS = (26, 20, 10, 6, 8, 18, 5, 5, 2)
REPEATED = 30


@dataclass(frozen=True)
class PlatformBench:
    """Milliseconds of this machine; what must hold anywhere: no error but 429, browsing quick, memory flat."""

    clients: int
    seconds: float
    stored: int
    requests: int
    statuses: dict[str, int]
    errors: int  # answers other than success and 429, and calls without an answer
    browsing_p50_ms: float
    browsing_p95_ms: float
    p95_ms: dict[str, float]
    published: int
    searches_done: int
    search_seconds_p50: float | None
    memory_mb: float  # the server's own, at the end
    memory_growth: float  # of the last quarter over the second quarter of the run
    alone_p95_ms: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Seen:
    """What the clients have seen."""

    milliseconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: Counter[str] = field(default_factory=Counter)
    search_seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


def bench_platform(
    *, clients: int, seconds: float, stored: int, tell: Callable[[str, float | None], None], database: str | None = None
) -> PlatformBench:
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as folder:
        settings = Settings(data=Path(folder) / "data", database=database, log_level="warning", pages=False)
        stock = fill(settings, stored=stored, clients=clients, tell=tell)
        tell("starting the server", None)
        with _server(settings) as (address, pid):
            _warm_up(address, stock)
            seen = asyncio.run(_load(address, pid, stock, clients, seconds, tell))
            tell("listing alone", None)
            alone = _alone(address)
            memory = _memory_mb(pid)
    return _summary(seen, clients=clients, seconds=seconds, stored=stored, alone=alone, memory=memory)


def served() -> FastAPI:
    """What the server process runs, by settings from its environment."""
    return create_app(Settings())


# ------------------------------------------------------------------------------------------------ the server


@contextmanager
def _server(settings: Settings) -> Iterator[tuple[str, int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"SAIBOT_DATA": str(settings.data), "SAIBOT_LOG_LEVEL": "warning", "SAIBOT_PAGES": "false"}
    if settings.database is not None:
        environment["SAIBOT_DATABASE"] = settings.database
    command = [sys.executable, "-m", "uvicorn", "--factory", "saibot.bench.platform:served", "--port", str(port)]
    command += ["--no-access-log", "--log-level", "warning"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, process)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(f"{address}/healthz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SaibotError("the server of the benchmark did not start.")


def _warm_up(address: str, stock: Stock) -> None:
    """One of everything, so that what is loaded at the first use is there: what is measured is a server that runs."""
    rng = random.Random(0)
    with httpx.Client(base_url=address, timeout=120) as client:
        sketch = write_sketch(renamed(stock.bases[0], "warm-up", title(rng)))
        headers = {"Authorization": f"Bearer {stock.providers[0]}", "Content-Type": "application/octet-stream"}
        made = client.post("/v1/datasets", content=sketch, headers=headers).raise_for_status().json()
        client.get(f"/v1/datasets/{made['id']}").raise_for_status()
        client.headers["Authorization"] = f"Bearer {stock.requesters[0]}"
        options = {"options": json.dumps({"target": "outcome", "steps": 1})}
        search = client.post("/v1/searches", files={"train": stock.train}, data=options).raise_for_status().json()
        while search["status"] in ("queued", "running"):
            time.sleep(0.1)
            search = client.get(f"/v1/searches/{search['id']}").raise_for_status().json()
        if search["status"] != "done":
            raise SaibotError(f"the first search of the benchmark {search['status']}: {search['error']}")


def _memory_mb(pid: int) -> float:
    """Memory that is the process's own: what it maps from files can be dropped at any time."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


# ------------------------------------------------------------------------------------------------ the clients


async def _load(
    address: str, pid: int, stock: Stock, clients: int, seconds: float, tell: Callable[[str, float | None], None]
) -> Seen:
    seen = Seen()
    started = time.monotonic()
    async with AsyncExitStack() as open_clients:
        people = []
        security = ssl.create_default_context()
        for number in range(clients):  # a connection each; one pool of all would cost more than the server does
            wire = httpx.AsyncHTTPTransport(verify=security, limits=httpx.Limits(max_connections=1, keepalive_expiry=4))
            http = await open_clients.enter_async_context(httpx.AsyncClient(base_url=address, transport=wire, timeout=60))
            people.append(_Person(number, http, stock, seen, started + seconds).live())
        watching = asyncio.create_task(_watch(pid, seen, started, seconds, tell))
        await asyncio.gather(*people)
        await watching
    return seen


async def _watch(pid: int, seen: Seen, started: float, seconds: float, tell: Callable[[str, float | None], None]) -> None:
    while (passed := time.monotonic() - started) < seconds:
        seen.memory.append(_memory_mb(pid))
        tell("browsing, publishing and searching", passed / seconds)
        await asyncio.sleep(1)


class _Person:
    """One client, who browses without a token half of the time, as visitors do."""

    def __init__(self, number: int, http: httpx.AsyncClient, stock: Stock, seen: Seen, end: float) -> None:
        self._rng = random.Random(number)
        self._http, self._stock, self._seen, self._end = http, stock, seen, end
        self._provider, self._requester = stock.providers[number], stock.requesters[number]
        self._number, self._made = number, 0
        self._ids: list[tuple[str, str]] = []

    async def live(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, THINK[1]))
        while time.monotonic() < self._end:
            action = self._rng.choices(ACTIONS, WEIGHTS)[0]
            await getattr(self, f"_{action}")()
            await asyncio.sleep(self._rng.uniform(*THINK))

    async def _ask(
        self, kind: str, method: str, path: str, *, token: str | None = None, **more: Any
    ) -> httpx.Response | None:
        headers = more.pop("headers", {}) | {"Authorization": f"Bearer {token or self._requester}"}
        started = time.perf_counter()
        try:
            answer = await self._http.request(method, path, headers=headers, **more)
        except httpx.HTTPError as problem:
            self._seen.statuses[type(problem).__name__] += 1
            return None
        self._seen.milliseconds[kind].append(1000 * (time.perf_counter() - started))
        self._seen.statuses[str(answer.status_code)] += 1
        return answer

    async def _browse(self, kind: str, **query: Any) -> None:
        answer = await self._ask(kind, "GET", "/v1/datasets", params=query)
        if answer is not None and answer.status_code == 200:
            page = answer.json()
            self._ids = [(entry["id"], entry["digest"]) for entry in page["items"]] or self._ids
            if page["next"] and self._rng.random() < 0.3:
                await self._ask(kind, "GET", "/v1/datasets", params=query | {"cursor": page["next"]})

    async def _list(self) -> None:
        await self._browse("list", sort=self._rng.choice(("published", "rows", "epsilon", "name")))

    async def _words(self) -> None:
        await self._browse("words", q=f"{self._rng.choice(WORDS)} {self._rng.choice(PLACES)[:2]}")

    async def _domain(self) -> None:
        await self._browse("domain", domain=f"places-{self._rng.randrange(DOMAINS)}")

    async def _feature(self) -> None:
        await self._browse("feature", feature=self._rng.choice(WORDS), provider=f"agency-{self._rng.randrange(300):03d}")

    async def _facets(self) -> None:
        await self._ask("facets", "GET", "/v1/facets", params={"q": self._rng.choice((*WORDS, ""))})

    async def _show(self) -> None:
        if self._ids:
            await self._ask("show", "GET", f"/v1/datasets/{self._rng.choice(self._ids)[0]}")

    async def _download(self) -> None:
        if self._ids:
            await self._ask("download", "GET", f"/v1/sketches/{self._rng.choice(self._ids)[1]}")

    async def _publish(self) -> None:
        self._made += 1
        sketch = renamed(self._rng.choice(self._stock.bases), f"new-{self._number}-{self._made}", title(self._rng))
        headers = {"Content-Type": "application/octet-stream"}
        content = write_sketch(sketch)
        await self._ask("publish", "POST", "/v1/datasets", token=self._provider, content=content, headers=headers)

    async def _search(self) -> None:
        files = {"train": self._stock.train, "test": self._stock.test}
        options = {"options": json.dumps({"target": "outcome", "steps": 2})}
        started = time.perf_counter()
        answer = await self._ask("search", "POST", "/v1/searches", files=files, data=options)
        while answer is not None and answer.status_code in (200, 202, 429) and time.monotonic() < self._end:
            if answer.status_code != 429 and answer.json()["status"] not in ("queued", "running"):
                self._seen.statuses[f"search {answer.json()['status']}"] += 1
                self._seen.search_seconds.append(time.perf_counter() - started)
                await self._ask("result", "GET", f"/v1/searches/{answer.json()['id']}/result")
                return
            if answer.status_code == 429:
                return
            await asyncio.sleep(1)
            answer = await self._ask("watch", "GET", f"/v1/searches/{answer.json()['id']}")


def _alone(address: str) -> dict[str, float]:
    """p95 of every way to list and filter, one request after the other."""
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "list": ("/v1/datasets", {}),
        "list by rows": ("/v1/datasets", {"sort": "rows"}),
        "list by name": ("/v1/datasets", {"sort": "name"}),
        "common word": ("/v1/datasets", {"q": "set"}),
        "two words": ("/v1/datasets", {"q": "north ri"}),
        "rare word": ("/v1/datasets", {"q": "000777"}),
        "no match": ("/v1/datasets", {"q": "north nowhere"}),
        "domain": ("/v1/datasets", {"domain": "places-3"}),
        "provider": ("/v1/datasets", {"provider": "agency-007"}),
        "feature and word": ("/v1/datasets", {"feature": "rain", "q": "old"}),
        "counts": ("/v1/facets", {}),
        "counts of a word": ("/v1/facets", {"q": "north"}),
        "corpus slice": ("/v1/corpus", {"domain": "places-3"}),
    }
    found = {}
    with httpx.Client(base_url=address, timeout=60) as client:
        for name, (path, query) in ways.items():
            times = []
            for _ in range(REPEATED):
                started = time.perf_counter()
                client.get(path, params=query).raise_for_status()
                times.append(1000 * (time.perf_counter() - started))
                time.sleep(0.03)  # below the rate that the platform allows
            found[name] = _p95(times)
    return found


# ------------------------------------------------------------------------------------------------ the summary


def _p95(values: list[float]) -> float:
    return float(np.percentile(values, 95)) if values else 0.0


def _summary(
    seen: Seen, *, clients: int, seconds: float, stored: int, alone: dict[str, float], memory: float
) -> PlatformBench:
    browsing = [each for kind in BROWSING for each in seen.milliseconds[kind]]
    fine = {"200", "201", "202", "206", "429", "search done"}
    quarter = max(len(seen.memory) // 4, 1)
    before, after = seen.memory[quarter : 2 * quarter] or [1.0], seen.memory[-quarter:] or [1.0]
    return PlatformBench(
        clients=clients,
        seconds=seconds,
        stored=stored,
        requests=sum(len(times) for times in seen.milliseconds.values()),
        statuses=dict(seen.statuses),
        errors=sum(count for status, count in seen.statuses.items() if status not in fine),
        browsing_p50_ms=float(np.median(browsing)) if browsing else 0.0,
        browsing_p95_ms=_p95(browsing),
        p95_ms={kind: _p95(times) for kind, times in sorted(seen.milliseconds.items())},
        published=seen.statuses["201"],
        searches_done=seen.statuses["search done"],
        search_seconds_p50=float(np.median(seen.search_seconds)) if seen.search_seconds else None,
        memory_mb=memory,
        memory_growth=float(np.mean(after) / np.mean(before)) if seen.memory else 1.0,
        alone_p95_ms=alone,
    )
