"""Golden sketches and a forger's tools.

`forge` writes files as an attacker would, digest recomputed where the attacker can. The digest itself is spelled out here a
second time, from DESIGN section 13: were the package's own to change, every sketch in the world would stop being readable.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from saibot.errors import InvalidSketch
from saibot.sketch import Sketch, read_sketch

GOLDEN = Path(__file__).parents[1] / "contract" / "golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.saibot"))
KEYED = [name for name in NAMES if "union" not in name]
Document = dict[str, Any]


def content_of(name: str) -> bytes:
    return (GOLDEN / f"{name}.saibot").read_bytes()


def same(one: Sketch, other: Sketch) -> bool:
    return one.header == other.header and all(
        all(np.array_equal(a, b) for a, b in zip(x.keys, y.keys, strict=True)) and np.array_equal(x.values, y.values)
        for x, y in zip(one.levels, other.levels, strict=True)
    )


def refused(content: bytes) -> str:
    """The message of the refusal; anything but InvalidSketch, with one line for people, fails the test."""
    with pytest.raises(InvalidSketch) as caught:
        read_sketch(content)
    message = str(caught.value)
    assert message and "\n" not in message
    return message


def refused_or_same(content: bytes, original: Sketch) -> bool:
    """True if refused. A file that is read after all must mean what the original means."""
    try:
        found = read_sketch(content)
    except InvalidSketch:
        return True
    assert same(found, original), "a changed file was read as another sketch"
    return False


def canonical(document: Document) -> bytes:
    less = {name: value for name, value in document.items() if name not in ("digest", "signature")}
    return json.dumps(less, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest_of(document: Document, batches: list[pa.RecordBatch]) -> str:
    sha = hashlib.sha256(canonical(document))
    for number, batch in enumerate(batches):
        sha.update(f"\x1elevel {number} {batch.num_rows}\x1e".encode())
        for field in batch.schema:
            if pa.types.is_string(field.type):
                keys = [(key or "").encode() for key in batch.column(field.name).to_pylist()]
                sha.update(np.array([len(key) for key in keys], "<u4").tobytes() + b"".join(keys))
        for field in batch.schema:
            if pa.types.is_floating(field.type):
                sha.update(batch.column(field.name).to_numpy(zero_copy_only=False).astype("<f8").tobytes())
    return sha.hexdigest()


def opened(content: bytes) -> tuple[Document, list[pa.RecordBatch]]:
    with pa.ipc.open_file(pa.py_buffer(content)) as reader:
        document = json.loads(reader.schema.metadata[b"saibot"])
        return document, [reader.get_batch(i) for i in range(reader.num_record_batches)]


def written(
    document: Document | bytes,
    batches: list[pa.RecordBatch],
    *,
    fields: pa.Schema | None = None,
    more_metadata: dict[str, str] | None = None,
    options: pa.ipc.IpcWriteOptions | None = None,
) -> bytes:
    text = document if isinstance(document, bytes) else json.dumps(document, sort_keys=True).encode()
    schema = (fields or batches[0].schema).with_metadata({"saibot": text} | (more_metadata or {}))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(pa.record_batch(batch.columns, schema=schema))
    return bytes(sink.getvalue())


def forge(content: bytes, change: Callable[[Document], object], *, reseal: bool = True) -> bytes:
    """The file with another header, and with the digest that belongs to it."""
    document, batches = opened(content)
    schema = pa.ipc.open_file(pa.py_buffer(content)).schema
    document = copy.deepcopy(document)
    change(document)
    if reseal:
        document["digest"] = digest_of(document, batches)
    return written(document, batches, fields=schema)


def forge_columns(content: bytes, change: Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]) -> bytes:
    """The file with other columns or rows, and with the digest that belongs to them."""
    document, batches = opened(content)
    batches = change(batches)
    document["digest"] = digest_of(document, batches)
    return written(document, batches)


def set_at(*path: str | int, to: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


def drop_at(*path: str | int) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return change


def changed_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    place = batch.schema.names.index(name)
    return batch.set_column(place, pa.field(name, column.type), column)
