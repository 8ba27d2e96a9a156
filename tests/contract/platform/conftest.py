"""The contract is kept on every storage and through every doorway: SQLite and a real Postgres, HTTP and in process.

One platform serves all tests on one combination; every test uses accounts of its own.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from saibot.client.in_process import AppTransport
from saibot.platform import Settings, create_app
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.sketch import Sketch, write_sketch
from tests.support.fabricating import drawn_anew
from tests.support.object_store import KEYS, object_store
from tests.support.serving import listening

SHOPS = [f"{i:02d}" for i in range(1, 31)]
_names = itertools.count(1)


# ------------------------------------------------------------------------------------------------ sketches


def shops_card(name: str, features: dict[str, Any]) -> Card:
    return Card.parse({
        "dataset": {"name": name, "title": f"What {name} knows", "individual": "one receipt"},
        "budget": {"cap": {"epsilon": "1000", "delta": "1e-5"}},
        "features": features,
        "keys": {"shop": {"column": "shop", "domain": {"values": SHOPS, "id": "shops"}}},
    })  # fmt: skip


@pytest.fixture(scope="session")
def make_sketch(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Sketch]:
    """make_sketch(name, signal=True): real noise, a budget so large that what is found does not hang on luck."""
    ledgers = tmp_path_factory.mktemp("ledgers")
    levels = np.random.default_rng(3).uniform(20, 80, len(SHOPS))

    def make(
        name: str,
        *,
        signal: bool = True,
        seed: int = 1,
        target: bool = False,
        key: str | None = "shop",
        epsilon: str = "200",
    ) -> Sketch:
        rng = np.random.default_rng(seed)
        shop = rng.integers(0, len(SHOPS), 3000)
        level = levels[shop] if signal else rng.uniform(20, 80, len(SHOPS))[shop]
        frame = pd.DataFrame({"shop": np.array(SHOPS)[shop], "level": np.clip(level + rng.normal(0, 5, 3000), 0, 100)})
        features: dict[str, Any] = {"level": {"bounds": [0, 100], "unit": "point"}}
        if target:
            price = rng.normal(0, 1, 3000)
            sales = np.clip(0.6 * levels[shop] + 4 * price + rng.normal(0, 5, 3000), -20, 100)
            frame = pd.DataFrame({"shop": frame["shop"], "price": np.clip(price, -3, 3), "sales": sales})
            features = {"price": {"bounds": [-3, 3]}, "sales": {"bounds": [-20, 100]}}
        request = ReleaseRequest(
            shops_card(name, features), Budget(epsilon, "1e-6"), key=key, neighbours=Neighbours.REPLACE_ONE
        )
        return privatize(frame, request, Ledger(ledgers / f"{next(_names)}")).sketch

    return make


@pytest.fixture(scope="session")
def made_sketches(make_sketch: Callable[..., Sketch]) -> dict[str, Sketch]:
    """Some sketches, made once: `good` helps the request `train`/`test`, `useless` does not, `good2` is a later version."""
    return {
        "good": make_sketch("survey"),
        "good2": make_sketch("survey", seed=2),
        "useless": make_sketch("noise", signal=False, seed=5),
        "whole": make_sketch("totals", key=None, seed=6),
        "train": make_sketch("mine", target=True, seed=7),
        "test": make_sketch("mine-held-out", target=True, seed=8),
    }


@pytest.fixture
def sketches(made_sketches: dict[str, Sketch]) -> dict[str, bytes]:
    """The same for one test, with a last digit of their own: tests share platforms, and few are about copies."""
    return {name: write_sketch(drawn_anew(sketch)) for name, sketch in made_sketches.items()}


@pytest.fixture(scope="module")
def module_sketches(made_sketches: dict[str, Sketch]) -> dict[str, bytes]:
    """And for all tests of a module."""
    return {name: write_sketch(drawn_anew(sketch)) for name, sketch in made_sketches.items()}


# ------------------------------------------------------------------------------------------------ servers


@dataclass
class Server:
    """A platform under test, and clients for it."""

    settings: Settings
    make_client: Callable[[], httpx.Client]
    app: Any
    clients: list[httpx.Client] = field(default_factory=list)

    def client(self, token: str | None = None) -> httpx.Client:
        client = self.make_client()
        if token is not None:
            client.headers["Authorization"] = f"Bearer {token}"
        self.clients.append(client)
        return client

    @property
    def admin(self) -> httpx.Client:
        return self.client((self.settings.data / "admin-token").read_text().strip())

    def account(self, *roles: str, name: str | None = None) -> httpx.Client:
        """A client with a new token; its account is `client.account`."""
        name = name or f"{roles[0]}-{next(_names)}"
        answer = self.admin.post("/v1/tokens", json={"name": name, "roles": list(roles)})
        assert answer.status_code == 201, answer.text
        client = self.client(answer.json()["token"])
        client.account = name  # type: ignore[attr-defined]
        return client


@pytest.fixture(scope="session", params=["sqlite in process", "sqlite over http", "postgres over http"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    database = request.getfixturevalue("postgres")() if request.param.startswith("postgres") else None
    settings = Settings(
        data=tmp_path_factory.mktemp("platform") / "data",
        database=database,
        workers=1,
        pages=False,
        max_upload_bytes=1 << 20,
        log_level="error",
        write_burst=100_000,
        read_burst=100_000,
    )
    start = started_in_process if "in process" in request.param else started_over_http
    yield from start(settings)


def started_in_process(settings: Settings) -> Iterator[Server]:
    app = create_app(settings)
    transport = AppTransport(app)
    transport.start()
    server = Server(settings, lambda: httpx.Client(transport=transport, base_url="http://platform", timeout=60), app)
    yield server
    for client in server.clients:
        client.close()
    transport.stop()


def started_over_http(settings: Settings) -> Iterator[Server]:
    app = create_app(settings)
    with listening(app) as address:
        server = Server(settings, lambda: httpx.Client(base_url=address, timeout=60), app)
        yield server
        for client in server.clients:
            client.close()


# ------------------------------------------------------------------------------------------------ verbs


def publish(client: httpx.Client, content: bytes, **query: str) -> httpx.Response:
    headers = {"Content-Type": "application/octet-stream"}
    return client.post("/v1/datasets", content=content, headers=headers, params=query)


def ask(client: httpx.Client, train: bytes, test: bytes | None = None, **options: Any) -> httpx.Response:
    import json

    files = {"train": ("train.saibot", train)} | ({"test": ("test.saibot", test)} if test is not None else {})
    return client.post("/v1/searches", files=files, data={"options": json.dumps({"target": "sales"} | options)})


def wait(client: httpx.Client, id: str, *, seconds: float = 120) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = client.get(f"/v1/searches/{id}").json()
        if found["status"] in ("done", "failed", "cancelled"):
            return found
        time.sleep(0.05)
    raise AssertionError(f"the search is still {found}")


@dataclass(frozen=True)
class Verbs:
    publish: Callable[..., httpx.Response] = publish
    ask: Callable[..., httpx.Response] = ask
    wait: Callable[..., dict[str, Any]] = wait


@pytest.fixture(scope="session")
def verbs() -> Verbs:
    return Verbs()


@pytest.fixture(scope="session")
def start_in_process() -> Callable[[Settings], Iterator[Server]]:
    return started_in_process


@pytest.fixture
def fresh(tmp_path: Path) -> Settings:
    """Settings of a platform that is this test's alone."""
    return Settings(data=tmp_path / "data", workers=1, pages=False, log_level="error", write_burst=100_000)


@pytest.fixture(scope="session")
def golden() -> bytes:
    """A sketch with simulated noise."""
    return (Path(__file__).parent.parent / "golden" / "lookup-levels.saibot").read_bytes()


@pytest.fixture(scope="session")
def start_over_http() -> Callable[[Settings], Iterator[Server]]:
    return started_over_http


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address of an object store that several servers share, and what is in it."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with object_store() as found:
        yield found
