"""The sketch file: Arrow IPC, readable by any Arrow tool, strict when we read it.

Columns `level` (int8), one text column per key part, then one float64 column per statistic; one record batch per key level;
the header as canonical JSON in the schema metadata under `saibot`. Uncompressed and without dictionaries, so that a reader
can map it into memory and a hostile file cannot unfold.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from saibot.errors import InvalidSketch, SaibotError
from saibot.safe_arrow import mapped, read_arrow, read_schema
from saibot.sketch.allowed import MAX_COLUMNS, check_sizes, check_text
from saibot.sketch.header import FORMAT, READABLE, GlobalBlock, Header
from saibot.sketch.signing import signer_of
from saibot.sketch.sketch import LevelTable, Sketch, column_name, text_buffers

SUFFIX = ".saibot"
MAX_FILE_BYTES = 1 << 31
_TYPES = (pa.int8(), pa.string(), pa.float64())


def write_sketch(sketch: Sketch) -> bytes:
    """The file of a sealed sketch. The same sketch gives the same bytes."""
    sink = pa.BufferOutputStream()
    write_sketch_to(sink, sketch)
    return bytes(sink.getvalue())


def write_sketch_to(sink: pa.NativeFile, sketch: Sketch) -> None:
    """The same into a file that is open: the bytes are nowhere in memory in one piece."""
    header = sketch.header
    parts = [part.name for part in header.key.parts] if header.key else []
    columns = [column_name(monomial) for monomial in sketch.key_basis.monomials] if sketch.levels else []
    fields = [pa.field("level", pa.int8())]
    fields += [pa.field(f"key:{name}", pa.string()) for name in parts]
    fields += [pa.field(name, pa.float64()) for name in columns]
    document = header.model_dump(mode="json") | {"digest": sketch.digest}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    schema = pa.schema(fields, metadata={"saibot": text})
    with pa.ipc.new_file(sink, schema) as writer:
        for number, table in enumerate(sketch.levels):
            arrays: list[Any] = [pa.array(np.full(len(table), number, np.int8))]
            arrays += table.columns
            # A coarser level has one key; the remaining part columns do not exist for it (composite keys have no levels).
            arrays += [pa.array(np.ascontiguousarray(table.values[:, i])) for i in range(table.values.shape[1])]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def read_sketch(source: bytes | Path | pa.Buffer) -> Sketch:
    """Read and check a sketch; anything but a sound file of a known version raises InvalidSketch.

    A file is mapped into memory, as a buffer was before it came here: what is not read is not loaded.
    """
    try:
        sketch = _read(_load(source))
        sketch.check()
        signer_of(sketch.header)  # a signature that is not its own is refused, wherever a sketch is read
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


def read_header(source: bytes | Path | pa.Buffer) -> Header:
    """What a sketch says about itself. Its numbers are not looked at, nor whether the two fit together."""
    try:
        return _read_header(read_schema(_load(source), columns=MAX_COLUMNS))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        raise InvalidSketch("this is not a sketch file, or it is cut off or damaged.") from None


def read_document(source: pa.Buffer) -> dict[str, Any]:
    """The header of a sketch that was checked before, as it is written."""
    document: dict[str, Any] = json.loads(read_schema(source, columns=MAX_COLUMNS).metadata[b"saibot"])
    return document


def read_part(source: pa.Buffer, header: Header, features: Collection[str]) -> Sketch:
    """What a sketch with this header holds of some of its features: counts, sums, and products of two of them.

    Of a file that was checked before it was stored: nothing is checked again, and of a file that is mapped into memory no
    other column is read. So a part of the largest sketch takes the room of a small one.
    """
    with pa.ipc.open_file(pa.BufferReader(source)) as reader:
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    names = [feature.name for feature in header.features]
    places = [place for place, name in enumerate(names) if name in features]
    plan = header.stated_plan()
    part = Sketch(
        header.model_copy(
            update={
                "features": tuple(header.features[place] for place in places),
                "global_blocks": tuple(
                    _of_features(block, places, len(names)) for block in header.global_blocks if block.order <= 2
                ),
            }
        ),
        (),
    )
    part.__dict__["plan"] = plan and replace(plan, blocks=tuple(block for block in plan.blocks if block.order <= 2))
    if header.key is None:
        return part
    texts = [f"key:{one.name}" for one in header.key.parts]
    columns = [column_name(monomial) for monomial in part.key_basis.monomials]
    part.__dict__["levels"] = tuple(
        LevelTable(
            tuple(_own(batch.column(name)) for name in texts),
            np.column_stack([batch.column(name).to_numpy() for name in columns]),
        )
        for batch in batches
    )
    return part


def _of_features(block: GlobalBlock, places: Sequence[int], features: int) -> GlobalBlock:
    """The same statistics of some of the features, packed as in their basis."""
    kept = list(places)
    if block.order == 2:
        one, other = np.triu_indices(features)
        packed = np.zeros((features, features), np.intp)
        packed[one, other] = np.arange(len(one))
        kept = packed[np.ix_(places, places)][np.triu_indices(len(places))].tolist()
    return block if block.order == 0 else block.model_copy(update={"values": tuple(block.values[i] for i in kept)})


def _load(source: bytes | Path | pa.Buffer) -> pa.Buffer:
    size = source.stat().st_size if isinstance(source, Path) else memoryview(source).nbytes
    if size > MAX_FILE_BYTES:
        raise InvalidSketch(f"the sketch is larger than {MAX_FILE_BYTES >> 20} MiB.")
    return mapped(str(source)) if isinstance(source, Path) else pa.py_buffer(source)


def _read(buffer: pa.Buffer) -> Sketch:
    schema = read_schema(buffer, columns=MAX_COLUMNS)
    header = _read_header(schema)
    if any(field.type not in _TYPES for field in schema):
        raise InvalidSketch("the sketch holds a column of a type that sketches do not have.")
    check_sizes(header)
    sketch = Sketch(header, ())
    parts = [f"key:{part.name}" for part in header.key.parts] if header.key else []
    # Columns are counted before they are named: a basis of a high order has more than any machine can name.
    if len(schema) != 1 + len(parts) + (sketch.key_basis.size if header.key else 0):
        raise InvalidSketch("the sketch's columns do not fit its header.")
    columns = [column_name(monomial) for monomial in sketch.key_basis.monomials] if header.key else []
    if schema.names != ["level", *parts, *columns]:
        raise InvalidSketch("the sketch's columns do not fit its header.")
    levels = []
    for number, batch in enumerate(_batches(buffer)):
        if any(column.null_count for column in batch.columns):
            raise InvalidSketch("the sketch holds an empty cell.")
        if (batch.column("level").to_numpy() != number).any():
            raise InvalidSketch("the sketch's key levels are out of order.")
        values = np.column_stack([batch.column(name).to_numpy() for name in columns])
        levels.append(LevelTable(tuple(_own(batch.column(name)) for name in parts), values))
    whole = Sketch(header, tuple(levels))
    whole.__dict__["plan"] = sketch.plan  # of the same header: confirming a plan takes longer than all the rest
    return whole


def _own(column: pa.StringArray) -> pa.StringArray:
    """The same texts in memory of their own: the file's is given back, and nothing of it is left beside them."""
    offsets, letters = text_buffers(column)
    return pa.StringArray.from_buffers(len(column), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(bytes(letters)))


def _batches(buffer: pa.Buffer) -> tuple[pa.RecordBatch, ...]:
    try:
        return read_arrow(buffer, columns=MAX_COLUMNS).batches
    except pa.ArrowException:
        raise InvalidSketch("the sketch is compressed, damaged, or encoded in a way that sketches are not.") from None


def _read_header(schema: pa.Schema) -> Header:
    text = (schema.metadata or {}).get(b"saibot")
    if text is None or set(schema.metadata) != {b"saibot"}:
        raise InvalidSketch("this is an Arrow file, but not a sketch.")
    check_text(text)
    document = json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidSketch("this is an Arrow file, but not a sketch.")
    if document.get("version") not in READABLE:
        raise InvalidSketch(
            f"the sketch has format version {document.get('version')!r}; this saibot reads {READABLE[0]} to {READABLE[-1]}.",
            hint="Upgrade saibot, or ask the provider for an older format.",
        )
    del document  # it may be megabytes of numbers, which now come a second time
    try:
        # JSON has no tuples: strict validation in its JSON mode accepts lists for them and nothing else loosely.
        return Header.model_validate_json(text)
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise InvalidSketch(f"the sketch's header is not valid at {place!r}: {first['msg']}.") from None


def _refuse_constant(name: str) -> None:
    raise InvalidSketch("the sketch's header holds a number that is not finite.")
