"""A platform under load: many people browse, publish and search at once, from another process, and it stays quick.

The server runs in a process of its own; this one plays the clients over loopback. Each client acts, thinks for 1 to 3
seconds, and acts again. Afterwards, with nobody else there, each way to list and filter is timed by itself.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx
import numpy as np

from research.benchmarks.stock import DOMAINS, PLACES, WORDS, Stock, fill, renamed, title
from saibot.errors import SaibotError
from saibot.platform import Settings
from saibot.sketch import write_sketch

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
    cores: dict[str, float]  # how many were busy with what: a machine that others use answers later
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
    cores: dict[str, float] = field(default_factory=dict)


def bench_platform(
    *, clients: int, seconds: float, stored: int, tell: Callable[[str, float | None], None], database: str | None = None
) -> PlatformBench:
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as folder:
        settings = Settings(data=Path(folder) / "data", database=database, log_level="warning", pages=False)
        stock = fill(settings, stored=stored, clients=clients, tell=tell)
        tell("starting the server", None)
        with served(settings) as (address, pid):
            _warm_up(address, stock)
            seen = asyncio.run(_load(address, pid, stock, clients, seconds, tell))
            tell("listing alone", None)
            alone = _alone(address)
            memory = _memory_mb(pid)
    return _summary(seen, clients=clients, seconds=seconds, stored=stored, alone=alone, memory=memory)


# ------------------------------------------------------------------------------------------------ the server


@contextmanager
def served(settings: Settings, *, pages: bool = False) -> Iterator[tuple[str, int]]:
    """A server of this data in a process of its own: its address, and its process."""
    environment = os.environ | {"SAIBOT_DATA": str(settings.data), "SAIBOT_LOG_LEVEL": "warning"}
    environment["SAIBOT_PAGES"] = "true" if pages else "false"
    if settings.database is not None:
        environment["SAIBOT_DATABASE"] = settings.database
    command = [sys.executable, "-m", "saibot.cli", "serve", "--port", "0", "--json"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        yield _address(process.stdout), process.pid
    finally:
        process.terminate()
        process.wait()


def _address(ready: IO[bytes]) -> str:
    """What the server says when it listens."""
    said = b""
    while line := ready.readline():
        said += line
        with suppress(json.JSONDecodeError):
            return str(json.loads(said)["address"])
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


def _processor_seconds(pid: int) -> dict[str, float]:
    """So far: the server's, its search processes', the clients', other processes', and those the machine was denied."""
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, softirq, stolen = (
        int(part) / tick for part in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    seconds = {"server": 0.0, "searches": 0.0, "clients": 0.0}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            number, _, rest = path.read_text().partition(" ")
            fields = rest.rpartition(")")[2].split()
            who = {str(pid): "server", str(os.getpid()): "clients"}.get(number, "searches" if fields[1] == str(pid) else "")
            if who:
                seconds[who] += (int(fields[11]) + int(fields[12])) / tick
    others = user + nice + system + irq + softirq - sum(seconds.values())
    return seconds | {"others": others, "denied": stolen}


# ------------------------------------------------------------------------------------------------ the clients


async def _load(
    address: str, pid: int, stock: Stock, clients: int, seconds: float, tell: Callable[[str, float | None], None]
) -> Seen:
    seen = Seen()
    gc.collect()
    gc.freeze()  # else looking for garbage here would be measured as waiting for the server
    started = time.monotonic()
    async with AsyncExitStack() as open_clients:
        people = []
        security = ssl.create_default_context()
        for number in range(clients):  # a connection each; one pool of all would cost more than the server does
            wire = httpx.AsyncHTTPTransport(verify=security, limits=httpx.Limits(max_connections=1, keepalive_expiry=4))
            http = await open_clients.enter_async_context(httpx.AsyncClient(base_url=address, transport=wire, timeout=60))
            people.append(_Person(number, http, stock, seen, started + seconds).live())
        watching = asyncio.create_task(_watch(pid, seen, started, seconds, tell))
        before = _processor_seconds(pid)
        await asyncio.gather(*people)
        passed = time.monotonic() - started
        seen.cores = {name: max(after - before[name], 0) / passed for name, after in _processor_seconds(pid).items()}
        await watching
    return seen


async def _watch(pid: int, seen: Seen, started: float, seconds: float, tell: Callable[[str, float | None], None]) -> None:
    while (passed := time.monotonic() - started) < seconds:
        seen.memory.append(_memory_mb(pid))
        tell("browsing, publishing and searching", passed / seconds)
        await asyncio.sleep(1)


class _Person:
    """One client: a provider when it publishes, a requester otherwise."""

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
        cores=seen.cores,
        alone_p95_ms=alone,
    )
