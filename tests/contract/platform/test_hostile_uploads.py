"""Two thousand damaged sketches: each is refused with the error shape or is the original; nothing else is ever stored."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from saibot.platform import Settings

COUNT = 2000


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, start_in_process: Any) -> Iterator[Any]:
    settings = Settings(
        data=tmp_path_factory.mktemp("hostile") / "data",
        workers=1,
        pages=False,
        max_upload_bytes=1 << 20,
        log_level="error",
        write_burst=1_000_000,
        read_burst=1_000_000,
    )
    yield from start_in_process(settings)


def test_no_damaged_sketch_is_ever_stored(platform: Any, sketches: dict[str, bytes], verbs: Any) -> None:
    provider = platform.account("provider")
    originals = [sketches["good"], sketches["whole"]]
    for content in originals:
        assert verbs.publish(provider, content).status_code == 201
    before = stored(platform)
    rng = random.Random(20)
    refused = 0
    for number in range(COUNT):
        original = originals[number % 2]
        content = MUTATIONS[number % len(MUTATIONS)](original, rng)
        answer = verbs.publish(provider, content)
        if answer.status_code == 200:  # read and written again, it was what is there already
            assert answer.json()["digest"] in {entry["digest"] for entry in before["datasets"]}
            continue
        refused += 1
        assert answer.status_code in (413, 422), (number, answer.status_code, answer.text)
        error = answer.json()["error"]
        assert set(error) == {"code", "message", "hint", "details"} and error["hint"]
    assert refused > COUNT * 0.9
    assert platform.client().get("/healthz").status_code == 200
    assert stored(platform) == before


def stored(platform: Any) -> dict[str, Any]:
    data = platform.settings.data
    platform.app.state.platform.shards.catch_up()
    return {
        "datasets": platform.client().get("/v1/datasets").json()["items"],
        "files": sorted(str(path.relative_to(data)) for path in (data / "sketches").rglob("*") if path.is_file()),
    }


# ------------------------------------------------------------------------------------------------ damage


def flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def grow(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + rng.randbytes(rng.randrange(1, 64)) + content[at:]


def shuffle(content: bytes, rng: random.Random) -> bytes:
    a, b, size = rng.randrange(len(content)), rng.randrange(len(content)), rng.randrange(1, 256)
    changed = bytearray(content)
    changed[a : a + size], changed[b : b + size] = changed[b : b + size], changed[a : a + size]
    return bytes(changed)


def noise(content: bytes, rng: random.Random) -> bytes:
    return b"ARROW1\0\0" + rng.randbytes(rng.randrange(2000)) + b"ARROW1"


def header(content: bytes, rng: random.Random) -> bytes:
    """A whole file with a changed header: the kind of change that an attacker, not a disk, makes."""
    with pa.ipc.open_file(content) as reader:
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        document = json.loads(reader.schema.metadata[b"saibot"])
        schema = reader.schema
    place, name = pick(document, rng)
    place[name] = rng.choice(WRONG)(place[name], rng)
    text = json.dumps(document) if rng.random() < 0.95 else json.dumps(document)[:-1]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema.with_metadata({"saibot": text})) as writer:
        for batch in batches:
            writer.write_batch(pa.record_batch(batch.columns, schema=writer_schema(schema, text)))
    return bytes(sink.getvalue())


def writer_schema(schema: pa.Schema, text: str) -> pa.Schema:
    return schema.with_metadata({"saibot": text})


def pick(document: Any, rng: random.Random) -> tuple[Any, Any]:
    """A place somewhere in the document."""
    while True:
        names = list(document) if isinstance(document, dict) else list(range(len(document)))
        name = rng.choice(names)
        inner = document[name]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            document = inner
        else:
            return document, name


WRONG: list[Callable[[Any, random.Random], Any]] = [
    lambda value, rng: None,
    lambda value, rng: -1,
    lambda value, rng: "x" * rng.choice((1, 300, 5000)),
    lambda value, rng: [value],
    lambda value, rng: {"a": value},
    lambda value, rng: 10 ** rng.choice((3, 30, 300)),
    lambda value, rng: value * 2 if isinstance(value, int | float) else f"{value}0",
    lambda value, rng: value / 2 if isinstance(value, int | float) else "1e-300",
    lambda value, rng: not value,
    lambda value, rng: "\x00\ud800" if rng.random() < 0.5 else "../../etc/passwd",
    lambda value, rng: float("nan") if rng.random() < 0.5 else float("inf"),
]
MUTATIONS = [flip, header, cut, header, grow, header, shuffle, header, noise, header]
