"""The sketch file: Arrow IPC, readable by any Arrow tool, strict when we read it.

Columns `level` (int8), one text column per key part, then one float64 column per statistic; one record batch per key level;
the header as canonical JSON in the schema metadata under `saibot`. Uncompressed and without dictionaries, so that a reader
can map it into memory and a hostile file cannot unfold.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from saibot.errors import InvalidSketch, SaibotError
from saibot.sketch.header import FORMAT, READABLE, Header
from saibot.sketch.sketch import LevelTable, Sketch, column_name

SUFFIX = ".saibot"
MAX_FILE_BYTES = 1 << 31
MAX_HEADER_BYTES = 1 << 24
MAX_COLUMNS = 10_000


def write_sketch(sketch: Sketch) -> bytes:
    """The file of a sealed sketch. The same sketch gives the same bytes."""
    header = sketch.header
    parts = [part.name for part in header.key.parts] if header.key else []
    columns = [column_name(monomial) for monomial in sketch.key_basis.monomials] if sketch.levels else []
    fields = [pa.field("level", pa.int8())]
    fields += [pa.field(f"key:{name}", pa.string()) for name in parts]
    fields += [pa.field(name, pa.float64()) for name in columns]
    document = header.model_dump(mode="json") | {"digest": sketch.digest}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    schema = pa.schema(fields, metadata={"saibot": text})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for number, table in enumerate(sketch.levels):
            arrays: list[Any] = [pa.array(np.full(len(table), number, np.int8))]
            arrays += [pa.array(part.tolist(), pa.string()) for part in table.keys]
            # A coarser level has one key; the remaining part columns do not exist for it (composite keys have no levels).
            arrays += [pa.array(np.ascontiguousarray(table.values[:, i])) for i in range(table.values.shape[1])]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
    return bytes(sink.getvalue())


def read_sketch(source: bytes | Path) -> Sketch:
    """Read and check a sketch; anything but a sound file of a known version raises InvalidSketch."""
    try:
        sketch = _read(_load(source))
        sketch.check()
        return sketch
    except InvalidSketch:
        raise
    except SaibotError as problem:
        raise InvalidSketch(f"the sketch cannot be read: {problem.message}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        if isinstance(source, Path):
            raise InvalidSketch(
                f"{source.name} is not a sketch file, or it is cut off or damaged.",
                hint="`saibot privatize TABLE` makes a sketch of a table.",
            ) from None
        raise InvalidSketch("this is not a sketch file, or it is cut off or damaged.") from None


def _load(source: bytes | Path) -> pa.Buffer:
    if isinstance(source, Path):
        if source.stat().st_size > MAX_FILE_BYTES:
            raise InvalidSketch(f"the sketch is larger than {MAX_FILE_BYTES >> 20} MiB.")
        return pa.py_buffer(source.read_bytes())
    if len(source) > MAX_FILE_BYTES:
        raise InvalidSketch(f"the sketch is larger than {MAX_FILE_BYTES >> 20} MiB.")
    return pa.py_buffer(source)


def _read(buffer: pa.Buffer) -> Sketch:
    with pa.ipc.open_file(pa.BufferReader(buffer)) as reader:
        schema = reader.schema
        if len(schema) > MAX_COLUMNS:
            raise InvalidSketch("the sketch has too many columns.")
        header = _read_header(schema)
        allowed = (pa.int8(), pa.string(), pa.float64())
        if any(field.type not in allowed for field in schema):
            raise InvalidSketch("the sketch holds a column of a type that sketches do not have.")
        batches = [pa.ipc.read_record_batch(message, schema) for message in _batch_messages(buffer)]
    for batch in batches:
        batch.validate(full=True)
        if any(column.null_count for column in batch.columns):
            raise InvalidSketch("the sketch holds an empty cell.")
    sketch = Sketch(header, ())
    parts = [f"key:{part.name}" for part in header.key.parts] if header.key else []
    columns = [column_name(monomial) for monomial in sketch.key_basis.monomials] if header.key else []
    if schema.names != ["level", *parts, *columns]:
        raise InvalidSketch("the sketch's columns do not fit its header.")
    levels = []
    for number, batch in enumerate(batches):
        if (batch.column("level").to_numpy() != number).any():
            raise InvalidSketch("the sketch's key levels are out of order.")
        keys = tuple(np.array(batch.column(name).to_pylist(), dtype=object) for name in parts)
        values = np.column_stack([batch.column(name).to_numpy() for name in columns])
        levels.append(LevelTable(keys, values))
    whole = Sketch(header, tuple(levels))
    whole.__dict__["plan"] = sketch.plan  # of the same header: confirming a plan takes longer than all the rest
    return whole


def _batch_messages(buffer: pa.Buffer) -> list[Any]:
    """The record batches as they stand in the file, none of them unpacked: a hostile one could fill the memory."""
    stream = pa.ipc.MessageReader.open_stream(pa.BufferReader(buffer.slice(len(b"ARROW1\0\0"))))
    messages: list[Any] = list(stream)[1:]  # the first is the schema
    for message in messages:
        if message.type != "record batch" or _is_compressed(bytes(message.metadata)):
            raise InvalidSketch("the sketch is compressed or holds dictionaries, which sketches are not and do not.")
    return messages


def _is_compressed(metadata: bytes) -> bool:
    """Whether a record batch's flatbuffer (Message.fbs) has a compression: field 3 of its header, which is field 2."""

    def field(table: int, number: int) -> int | None:
        vtable = table - int.from_bytes(metadata[table : table + 4], "little", signed=True)
        size, slot = int.from_bytes(metadata[vtable : vtable + 2], "little"), 4 + 2 * number
        offset = int.from_bytes(metadata[vtable + slot : vtable + slot + 2], "little") if slot < size else 0
        return table + offset if offset else None

    def follow(place: int) -> int:
        return place + int.from_bytes(metadata[place : place + 4], "little")

    header = field(follow(0), 2)
    return header is None or field(follow(header), 3) is not None


def _read_header(schema: pa.Schema) -> Header:
    text = (schema.metadata or {}).get(b"saibot")
    if text is None or set(schema.metadata) != {b"saibot"}:
        raise InvalidSketch("this is an Arrow file, but not a sketch.")
    if len(text) > MAX_HEADER_BYTES:
        raise InvalidSketch("the sketch's header is too large.")
    document = json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidSketch("this is an Arrow file, but not a sketch.")
    if document.get("version") not in READABLE:
        raise InvalidSketch(
            f"the sketch has format version {document.get('version')!r}; this saibot reads {READABLE[0]} to {READABLE[-1]}.",
            hint="Upgrade saibot, or ask the provider for an older format.",
        )
    try:
        # JSON has no tuples: strict validation in its JSON mode accepts lists for them and nothing else loosely.
        return Header.model_validate_json(text)
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise InvalidSketch(f"the sketch's header is not valid at {place!r}: {first['msg']}.") from None


def _refuse_constant(name: str) -> None:
    raise InvalidSketch("the sketch's header holds a number that is not finite.")
