"""A platform with very many datasets, made quickly: real sketch files and shards, rows written in bulk.

A few tables are privatised; every dataset is one of these sketches under a name, title and digest of its own, and with a
last digit of its own, so that none is a copy of another. Nothing of this goes through the platform's doors, which are what
is measured afterwards.
"""

from __future__ import annotations

import os
import random
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import insert, text

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.backup import continue_numbers
from saibot.platform.clock import now
from saibot.platform.describe import terms_of
from saibot.platform.service import Platform
from saibot.platform.storage.file_names import sketch_file_name
from saibot.platform.storage.tables import datasets, terms, versions
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.search.corpus import Corpus
from saibot.search.key_maps import key_id
from saibot.search.packed_rows import pack
from saibot.search.shard import ShardRows
from saibot.sketch import SUFFIX, LevelTable, Sketch, payload_of, write_sketch
from saibot.wire import Dataset

DOMAINS, KEYS, ROWS = 20, 100, 4000
PROVIDERS = 300
WORDS = [
    "air",
    "rain",
    "school",
    "road",
    "clinic",
    "market",
    "river",
    "farm",
    "energy",
    "noise",
    "rent",
    "crime",
    "bus",
    "tree",
    "tax",
    "birth",
    "soil",
    "port",
    "visit",
    "trade",
]
PLACES = ["north", "south", "east", "west", "upper", "lower", "old", "new", "great", "little"]
ADMIN = Caller("bench", frozenset({"admin"}), "")
SHARD_ROWS = 20_000
BATCH = 2000


@dataclass(frozen=True)
class Stock:
    """What the clients of a load test need: tokens, and sketches to publish and to ask with."""

    providers: list[str]
    requesters: list[str]
    bases: list[Sketch]
    train: bytes
    test: bytes


def fill(settings: Settings, *, stored: int, clients: int, tell: Callable[[str, float | None], None]) -> Stock:
    """Store so many datasets and give out tokens for so many clients."""
    tell("privatising", None)
    bases = [_sketch(number) for number in range(DOMAINS)]
    platform = Platform(settings)
    try:
        corpus = Corpus(settings.data / "corpus")
        packed = [pack(base, None) for base in bases]
        done = 0
        for batch in _batches(stored):
            _store(platform, corpus, bases, packed, batch)
            done += len(batch)
            tell("storing sketches", done / max(stored, 1))
        if not platform.database.is_sqlite:
            with platform.database.write() as connection:  # as Postgres does by itself where tables grow slowly
                connection.execute(text("ANALYZE"))
        accounts = platform.accounts
        roles = [
            ("provider", [f"provider-{i:03d}" for i in range(clients)]),
            ("requester", [f"asker-{i}" for i in range(clients)]),
        ]
        tokens = {role: [accounts.create(ADMIN, name, [role]).token for name in names] for role, names in roles}
    finally:
        platform.close()
    train, test = (write_sketch(_sketch(0, request=True, seed=seed)) for seed in (1, 2))
    return Stock(tokens["provider"], tokens["requester"], bases, train, test)


def renamed(base: Sketch, name: str, title: str) -> Sketch:
    dataset = base.header.dataset.model_copy(update={"name": name, "title": title})
    values = base.levels[0].values.copy()
    values[0, 0] += zlib.crc32(name.encode()) * 2.0**-44
    levels = (LevelTable(base.levels[0].keys, values), *base.levels[1:])
    sketch = Sketch(base.header.model_copy(update={"dataset": dataset}), levels).sealed()
    sketch.__dict__["plan"] = base.plan  # the same, and costly to check a hundred thousand times
    return sketch


def title(rng: random.Random) -> str:
    return f"{rng.choice(PLACES)} {rng.choice(WORDS)} {rng.choice(WORDS)} {rng.randrange(1990, 2030)}"


# ------------------------------------------------------------------------------------------------ inside


def _sketch(number: int, *, request: bool = False, seed: int = 0) -> Sketch:
    """A table over one of the domains, privatised; a request's has a target that the domain's level explains."""
    rng = np.random.default_rng((number, seed, request))
    level = np.random.default_rng(number).uniform(20, 80, KEYS)
    key = rng.integers(0, KEYS, ROWS)
    keys = [f"{number}-{i:03d}" for i in range(KEYS)]
    columns = {"place": np.array(keys)[key], WORDS[number]: np.clip(level[key] + rng.normal(0, 10, ROWS), 0, 100)}
    if request:
        columns = {"place": columns["place"], "own": rng.uniform(-1, 1, ROWS)}
        columns["outcome"] = np.clip(0.6 * level[key] + 5 * columns["own"] + rng.normal(0, 5, ROWS), 0, 100)
    bounds: dict[str, Any] = {n: {"bounds": [-1, 1] if n == "own" else [0, 100]} for n in columns if n != "place"}
    card = Card.parse(
        {
            "dataset": {"name": f"base-{number}", "title": "base"},
            "budget": {"cap": {"epsilon": "100", "delta": "1e-5"}},
            "features": bounds,
            "keys": {"place": {"column": "place", "domain": {"values": keys, "id": f"places-{number}"}}},
        }
    )
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as folder:
        asked = ReleaseRequest(card, Budget("10", "1e-6"), key="place", neighbours=Neighbours.REPLACE_ONE)
        return privatize(pd.DataFrame(columns), asked, Ledger(Path(folder))).sketch


def _batches(stored: int) -> Iterator[range]:
    for start in range(0, stored, SHARD_ROWS):
        yield range(start, min(start + SHARD_ROWS, stored))


def _store(platform: Platform, corpus: Corpus, bases: list[Sketch], packed: list[ShardRows], numbers: range) -> None:
    root = platform.settings.data / "sketches"
    rng = random.Random(numbers.start)
    rows: dict[Any, list[dict[str, Any]]] = {datasets: [], versions: [], terms: []}
    digests: list[list[tuple[str, str]]] = [[] for _ in bases]
    whose: dict[str, str] = {}
    for number in numbers:
        which = number % len(bases)
        sketch = renamed(bases[which], f"set-{number:06d}", title(rng))
        content = write_sketch(sketch)
        path = root / sketch_file_name(sketch.digest)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.link(path, corpus.folder / "sketches" / f"{sketch.digest}{SUFFIX}")
        whose[sketch.digest] = f"agency-{rng.randrange(PROVIDERS):03d}"
        _describe(rows, sketch, number + 1, whose[sketch.digest], len(content), rng)
        digests[which].append((sketch.digest, sketch.header.dataset.name))
    with platform.database.write() as connection:
        for table in (datasets, versions, terms):
            for start in range(0, len(rows[table]), BATCH):
                connection.execute(insert(table), rows[table][start : start + BATCH])
        if not platform.database.is_sqlite:
            continue_numbers(connection, datasets)
    for base, own, named in zip(bases, packed, digests, strict=True):
        assert base.header.key is not None
        corpus.add_rows(key_id(base.header.key), _repeated(own, named), whose)


def _describe(
    rows: dict[Any, list[dict[str, Any]]], sketch: Sketch, number: int, provider: str, size: int, rng: Any
) -> None:
    header, published = sketch.header, now()
    document = Dataset.of(
        sketch,
        id=f"d{number:016x}",
        provider=provider,
        visibility="public",
        version=1,
        bytes=size,
        published=published,
        expires=None,
    )
    assert header.key is not None
    rows[datasets].append(
        {
            "number": number,
            "id": document.id,
            "provider": provider,
            "name": document.name,
            "key_name": header.key.name,
            "visibility": "public" if rng.random() < 0.95 else "restricted",
            "state": "live",
            "version": 1,
            "digest": sketch.digest,
            "published": published,
            "expires": None,
            "rows": header.rows,
            "epsilon": float(header.budget["epsilon"]),
            "sort_name": document.name,
            "domains": header.key.parts[0].domain,
            "document": document.model_dump_json(),
        }
    )
    entry = {"dataset": number, "version": 1, "digest": sketch.digest, "bytes": size, "published": published}
    rows[versions].append(entry | {"account": provider, "packed": True, "payload": payload_of(sketch)})
    rows[terms] += [{"term": term, "dataset": number} for term in sorted(terms_of(header, provider))]


def _repeated(own: ShardRows, named: list[tuple[str, str]]) -> ShardRows:
    """The rows of one sketch under many names."""
    count, width = len(named), len(own)
    text = {name: np.tile(column, count) for name, column in own.text.items()}
    text["digest"] = np.repeat(np.array([digest for digest, _ in named], dtype=object), width)
    text["dataset"] = np.repeat(np.array([name for _, name in named], dtype=object), width)
    numbers = {name: np.tile(column, count) for name, column in own.numbers.items()}
    return ShardRows(text, numbers, np.tile(own.values, (count, 1)))
