"""What an attacker sends: sound files whose numbers, sizes or encodings are meant to break whoever reads them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from saibot.domains import KeyDomain
from saibot.privacy.mechanisms import PlanRequest, make_plan
from tests.support.forging import Document, content_of, digest_of, opened, written


def unfolding(schema: pa.Schema, batches: list[pa.RecordBatch], *, codec: str = "zstd") -> bytes:
    """A file whose batches are compressed in the way of Arrow 0.17: named in the message's own metadata, version V4."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": codec})
    content = bytearray(sink.getvalue())
    for place in _messages(content):
        _hide_compression(content, place)
    return bytes(content)


def bomb(document: Document, batch: pa.RecordBatch, *, rows: int) -> bytes:
    """A sketch of `rows` rows that all are the first row of the batch, with a digest of its own."""
    large = batch.take(pa.array(np.zeros(rows, np.int32)))
    document = document | {"digest": digest_of(document, [large])}
    schema = batch.schema.with_metadata({"saibot": json.dumps(document, sort_keys=True)})
    return unfolding(schema, [pa.record_batch(large.columns, schema=schema)])


def sharing(batch: pa.RecordBatch) -> bytes:
    """A file of one batch of numbers whose columns all lie in the bytes of the first one."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content = bytes(sink.getvalue())
    start = 16 + int.from_bytes(content[12:16], "little")  # of the message behind the schema's
    size = int.from_bytes(content[start + 4 : start + 8], "little")
    message, body = bytearray(content[start + 8 : start + 8 + size]), content[start + 8 + size :]
    each = 8 * batch.num_rows
    whole = (each + 63) // 64 * 64
    for place in range(0, len(message) - 15, 8):
        if struct.unpack("<q", message[place + 8 : place + 16])[0] == each:
            message[place : place + 8] = struct.pack("<q", 0)
    for place in range(0, len(message) - 7, 4):
        if struct.unpack("<q", message[place : place + 8])[0] == whole * batch.num_columns:
            message[place : place + 8] = struct.pack("<q", whole)
    footer = int.from_bytes(content[-10:-6], "little")
    end = b"\xff\xff\xff\xff\0\0\0\0"
    return content[: start + 8] + bytes(message) + body[:whole] + end + content[-10 - footer :]


def _messages(content: bytearray) -> list[int]:
    """Where the flatbuffers of the record batches begin."""
    places, at = [], 8
    while content[at : at + 4] == b"\xff\xff\xff\xff" and (size := int.from_bytes(content[at + 4 : at + 8], "little")):
        start = at + 8
        root = start + _u32(content, start)
        if content[_field(content, root, 1) or 0] == 3:
            places.append(start)
        body = _field(content, root, 3)
        length = struct.unpack_from("<q", content, body)[0] if body else 0
        at = start + size + length
    return places


def _hide_compression(content: bytearray, start: int) -> None:
    root = start + _u32(content, start)
    header = _field(content, root, 2)
    assert header is not None
    table = header + _u32(content, header)
    vtable = table - struct.unpack_from("<i", content, table)[0]
    struct.pack_into("<H", content, vtable + 4 + 2 * 3, 0)


def _field(content: bytearray, table: int, number: int) -> int | None:
    vtable = table - struct.unpack_from("<i", content, table)[0]
    size, slot = struct.unpack_from("<H", content, vtable)[0], 4 + 2 * number
    offset = struct.unpack_from("<H", content, vtable + slot)[0] if slot < size else 0
    return table + offset if offset else None


def _u32(content: bytearray, place: int) -> int:
    return int(struct.unpack_from("<I", content, place)[0])


def taken_apart(content: bytes) -> Iterator[bytes]:
    """The file with each whole number of its messages and of its footer made huge, negative or zero, one at a time."""
    footer = len(content) - 10 - int.from_bytes(content[-10:-6], "little")
    ranges = [(start, start + 400) for start in _messages(bytearray(content))] + [(footer, len(content) - 10)]
    for begin, end in ranges:
        for place in range(begin - begin % 8, min(end, len(content)) - 8, 8):
            for number in (1 << 40, -1, 0, (1 << 62) + 8):
                changed = bytearray(content)
                struct.pack_into("<q", changed, place, number)
                yield bytes(changed)
    for part in (0, 8, 100, len(content) // 2, len(content) - 1):
        yield content[:part]


def packed(content: bytes) -> bytes:
    """The file with compressed batches, as Arrow does it today."""
    document, batches = opened(content)
    return written(document, batches, options=pa.ipc.IpcWriteOptions(compression="zstd"))


def sized_sketch(name: str, *, keys: int, features: int = 1, texts: str = "", private: bool = False) -> bytes:
    """A sound sketch of a size: one row a key, all features at the middle of their bounds. Open, or with simulated noise.

    `texts` go into every field that takes one, as often as it takes them.
    """
    document, _ = opened(content_of("v2-lookup-levels" if private else "v2-open-levels"))
    unit = {"unit": (texts * 100)[:100]}
    names = [f"f{number}" for number in range(features)]
    long = (texts * 2000)[:2000]
    listed = KeyDomain(f"things-{keys}", 1, tuple(f"{number:07d}" for number in range(keys)))
    part = {"name": "thing", "domain": listed.id, "version": 1, "size": keys}
    document |= {
        "dataset": {"name": name, "title": long or name, "description": long, "individual": long or "one row"},
        "features": [document["features"][0] | unit | {"name": each} for each in names],
        "global_blocks": [
            {"order": 1, "values": [0.0] * features},
            {"order": 2, "values": [0.0] * (features * (features + 1) // 2)},
        ],
        "key": {
            "name": "thing",
            "levels": [],
            "parts": [part | {"digest": listed.digest, "keys_digest": listed.keys_digest}],
        },
        "invariants": {"rows": keys},
        "bound_squared": str(features),
        "account": None,
        "spent": None,
    }
    if private:
        request = PlanRequest.from_json(document["plan"]["request"])
        sizes: dict[str, Any] = {"features": features, "keys": (keys + 1,), "levels": 1, "rows": keys}
        document["plan"] = make_plan(replace(request, bound_squared=Decimal(features), **sizes)).to_json()
    columns = {
        "level": pa.array(np.zeros(keys + 1, np.int8)),
        "key:thing": pa.array([*listed.values, "__other__"]),
        "c": pa.array(np.append(np.ones(keys), 0.0)),
        **{f"s:{each}": pa.array(np.zeros(keys + 1)) for each in names},
    }
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    document["digest"] = digest_of(document, [batch])
    return written(document, [batch])
