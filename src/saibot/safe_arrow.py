"""Arrow files from elsewhere, in the one encoding that is accepted: IPC files of metadata version 5, nothing packed in them.

What is read is never larger than the file itself: no compression in either way that Arrow knows it, no dictionaries, no
metadata of single messages. Whether every buffer lies inside the file is checked before anything looks into it, so that a
crafted file ends in an error and not in a crash.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

MAGIC = b"ARROW1\0\0"
_VERSION_5 = 4  # as Schema.fbs numbers it
_RECORD_BATCH = 3  # as Message.fbs numbers its headers


@dataclass(frozen=True)
class ArrowContent:
    """The schema of a file and its record batches. They are views of the file's own bytes: nothing was copied."""

    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...]


def read_schema(buffer: pa.Buffer, *, columns: int) -> pa.Schema:
    """The columns of a file and its metadata, of a file with at most so many columns."""
    with pa.ipc.open_file(pa.BufferReader(buffer)) as reader:
        schema = reader.schema
    if len(schema) > columns:
        raise pa.ArrowInvalid("too many columns")
    return schema


def read_arrow(buffer: pa.Buffer, *, columns: int, types: Collection[pa.DataType] | None = None) -> ArrowContent:
    """A whole file, every buffer checked. Raises ArrowInvalid for another encoding, or a type that is not among `types`."""
    schema = read_schema(buffer, columns=columns)
    if types is not None and any(field.type not in types for field in schema):
        raise pa.ArrowInvalid("a column of another type")
    stream = pa.ipc.MessageReader.open_stream(pa.BufferReader(buffer.slice(len(MAGIC))))
    messages: list[Any] = list(stream)[1:]  # the first is the schema
    if any(not _is_plain(bytes(message.metadata)) for message in messages):
        raise pa.ArrowInvalid("packed, or of another encoding")
    batches = tuple(pa.ipc.read_record_batch(message, schema) for message in messages)
    if sum(batch.nbytes for batch in batches) > buffer.size:  # columns that share bytes: copies of them would not
        raise pa.ArrowInvalid("larger than its file")
    for batch in batches:
        batch.validate(full=True)
    return ArrowContent(schema, batches)


def mapped(path: str) -> pa.Buffer:
    """The bytes of a file, read from disk where they are touched."""
    with pa.memory_map(path) as file:
        return file.read_buffer()


def _is_plain(metadata: bytes) -> bool:
    """Whether a message (Message.fbs) is a record batch of version 5, with neither compression nor metadata of its own."""

    def field(table: int, number: int) -> int | None:
        vtable = table - int.from_bytes(metadata[table : table + 4], "little", signed=True)
        size, slot = int.from_bytes(metadata[vtable : vtable + 2], "little"), 4 + 2 * number
        offset = int.from_bytes(metadata[vtable + slot : vtable + slot + 2], "little") if slot < size else 0
        return table + offset if offset else None

    def follow(place: int) -> int:
        return place + int.from_bytes(metadata[place : place + 4], "little")

    message = follow(0)
    version, kind, header, own_metadata = field(message, 0), field(message, 1), field(message, 2), field(message, 4)
    if version is None or kind is None or header is None or own_metadata is not None:
        return False
    is_version_5 = int.from_bytes(metadata[version : version + 2], "little") == _VERSION_5
    return is_version_5 and metadata[kind] == _RECORD_BATCH and field(follow(header), 3) is None
