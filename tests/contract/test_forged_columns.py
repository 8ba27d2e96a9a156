"""A sketch whose columns do not fit its header is refused, also with the digest that belongs to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tests.support.forging import (
    KEYED,
    changed_column,
    content_of,
    digest_of,
    forge_columns,
    opened,
    refused,
    written,
)


def nulls(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    values = batches[0].column("c").to_pylist()
    return [changed_column(batches[0], "c", pa.array([None, *values[1:]], pa.float64())), *batches[1:]]


def null_keys(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    place = batches[0].schema.names[1]
    keys = batches[0].column(place).to_pylist()
    return [changed_column(batches[0], place, pa.array([None, *keys[1:]], pa.string())), *batches[1:]]


def not_finite(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    values = batches[0].column("c").to_pylist()
    return [changed_column(batches[0], "c", pa.array([float("nan"), *values[1:]], pa.float64())), *batches[1:]]


def extra_column(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [b.append_column(pa.field("s:ssn", pa.float64()), pa.array(np.zeros(b.num_rows))) for b in batches]


def dictionary(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    name = batches[0].schema.names[1]
    words = pa.array(sorted({word for b in batches for word in b.column(name).to_pylist()}))
    return [
        changed_column(b, name, pa.DictionaryArray.from_arrays([words.index(w).as_py() for w in b.column(name)], words))
        for b in batches
    ]


def large_text(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    name = batches[0].schema.names[1]
    return [changed_column(b, name, b.column(name).cast(pa.large_string())) for b in batches]


def single_precision(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [changed_column(b, "c", b.column("c").cast(pa.float32(), safe=False)) for b in batches]


def other_level(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [changed_column(b, "level", pa.array(np.full(b.num_rows, 5, np.int8))) for b in batches]


COLUMN_LIES: dict[str, Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]] = {
    "empty cells": nulls,
    "empty key cells": null_keys,
    "numbers that are not finite": not_finite,
    "an extra column": extra_column,
    "a column less": lambda bs: [b.select(b.schema.names[:-1]) for b in bs],
    "columns in another order": lambda bs: [b.select([*b.schema.names[:-2], *b.schema.names[:-3:-1]]) for b in bs],
    "a renamed column": lambda bs: [b.rename_columns([*b.schema.names[:-1], "s:other"]) for b in bs],
    "dictionary-encoded keys": dictionary,
    "large text": large_text,
    "single precision": single_precision,
    "a key row less": lambda bs: [bs[0].slice(1), *bs[1:]],
    "no catch-all": lambda bs: [bs[0].slice(0, bs[0].num_rows - 1), *bs[1:]],
    "a key row twice": lambda bs: [pa.concat_batches([bs[0], bs[0].slice(0, 1)]), *bs[1:]],
    "no rows": lambda bs: [b.slice(0, 0) for b in bs],
    "a level too many": lambda bs: [*bs, bs[-1]],
    "levels under another number": other_level,
}


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("change", [pytest.param(change, id=lie) for lie, change in COLUMN_LIES.items()])
def test_columns_that_do_not_fit_their_header_are_refused_even_with_their_digest(
    name: str, change: Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]
) -> None:
    refused(forge_columns(content_of(name), change))


def test_key_levels_in_another_order_or_left_out_are_refused() -> None:
    content = content_of("lookup-levels")
    refused(forge_columns(content, lambda batches: batches[::-1]))
    refused(forge_columns(content, lambda batches: batches[:1]))


def test_a_coarser_level_with_rows_left_out_is_refused() -> None:
    """The plan carries the sizes of all key levels, so a reader can tell."""
    refused(forge_columns(content_of("lookup-levels"), lambda batches: [batches[0], batches[1].slice(1)]))


def test_permuted_keys_under_the_old_digest_are_refused() -> None:
    """With a new digest they cannot be told from another domain: who knows the domain compares its own digest."""
    document, (batch, *rest) = opened(content_of("lookup-levels"))
    order = [1, 0, *range(2, batch.num_rows)]
    shuffled = changed_column(batch, "key:day", batch.column("key:day").take(pa.array(order)))
    refused(written(document, [shuffled, *rest]))


def test_rows_for_a_sketch_without_key_are_refused() -> None:
    document, _ = opened(content_of("union-laplace"))
    batch = pa.record_batch({"level": pa.array([0, 0], pa.int8())})
    document["digest"] = digest_of(document, [batch])
    refused(written(document, [batch]))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_compressed_file_is_refused(codec: str) -> None:
    """It could unfold to more than fits into memory, and a sketch is meant to be mapped into it."""
    document, batches = opened(content_of("semiring-composite"))
    big = pa.concat_batches(batches * 200)
    options = pa.ipc.IpcWriteOptions(compression=codec)
    assert "compressed" in refused(written(document, [big], options=options))
    refused(written(document, batches, options=options))


def test_a_text_column_with_offsets_out_of_range_is_refused() -> None:
    """Full validation, because a plain read believes the offsets."""
    content = content_of("lookup-levels")
    offsets = np.cumsum([0] + [10] * 5 + [9]).astype("<i4").tobytes()
    place = content.find(offsets)
    assert place > 0
    for wrong in (b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff"):
        damaged = bytearray(content)
        damaged[place + 12 : place + 16] = wrong
        refused(bytes(damaged))
