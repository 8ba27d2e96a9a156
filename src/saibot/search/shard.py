"""Shards: the values of many candidates over one key domain, in a memory-mapped Arrow file.

A shard holds one row per feature: who it belongs to, what is known of it, and its lookup values for every key (deviations
from its own mean, catch-all last), as one contiguous block. Values are float32: half of what a sweep reads, and far finer
than any noise. A row may have further arrays under names of their own (`extra`), of any width; a reader that knows nothing
of them passes over them. Files are never changed once written: adding makes a new shard, removing writes the shard anew
without the rows, so that what was withdrawn is really gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saibot.errors import InvalidInput
from saibot.safe_file import writing

TEXT = ("digest", "dataset", "feature", "unit")
NUMBERS = ("mean", "spread", "reliability", "offset", "scale", "rows")
VERSION = b"2"  # 1 said nothing of its version
EXTRA = "extra:"
OPEN = "open"  # a further array of one number: 1 in rows of open tables, which are exact


@dataclass(frozen=True)
class ShardRows:
    """Rows of a shard: text and numbers by name, the values (rows, keys), and further arrays (rows, width) by name."""

    text: dict[str, np.ndarray]
    numbers: dict[str, np.ndarray]
    values: np.ndarray
    extra: dict[str, np.ndarray] = field(default_factory=dict)
    factors: str = ""  # version of the shared factors that helped these values, `version@group` for a group's; or none

    def __len__(self) -> int:
        return len(self.values)

    def take(self, chosen: np.ndarray) -> ShardRows:
        return ShardRows(
            {name: column[chosen] for name, column in self.text.items()},
            {name: column[chosen] for name, column in self.numbers.items()},
            self.values[chosen],
            {name: array[chosen] for name, array in self.extra.items()},
            self.factors,
        )


def write_shard(path: Path, rows: ShardRows) -> None:
    """Whole and on disk under its name when this returns; before that, not there."""
    columns: dict[str, Any] = {name: pa.array(rows.text[name].tolist(), pa.string()) for name in TEXT}
    columns |= {name: pa.array(rows.numbers[name].astype(np.float64)) for name in NUMBERS}
    columns["values"] = _lists(rows.values)
    columns |= {f"{EXTRA}{name}": _lists(array) for name, array in rows.extra.items()}
    batch = pa.record_batch(columns).replace_schema_metadata({b"saibot-shard": VERSION, b"factors": rows.factors})
    with (
        writing(path, public=True) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema) as writer,
    ):
        writer.write_batch(batch)


def open_shard(path: Path) -> ShardRows:
    """Map a shard into memory: its values are read from disk only where they are touched."""
    with pa.memory_map(str(path)) as source:
        batch = pa.ipc.open_file(source).get_batch(0)
    if (batch.schema.metadata or {}).get(b"saibot-shard") != VERSION:
        raise InvalidInput(f"the shard {path.name} has another format version.", hint="Pack the corpus anew: `saibot pack`.")
    text = {name: np.array(batch.column(name).to_pylist(), dtype=object) for name in TEXT}
    numbers = {name: batch.column(name).to_numpy() for name in NUMBERS}
    extra = {name.removeprefix(EXTRA): _rows(batch, name) for name in batch.schema.names if name.startswith(EXTRA)}
    return ShardRows(text, numbers, _rows(batch, "values"), extra, batch.schema.metadata.get(b"factors", b"").decode())


def concatenate(parts: Sequence[ShardRows]) -> ShardRows:
    """All rows of all parts, which the same factors helped; arrays that some parts lack, or have narrower, get NaN."""
    return ShardRows(
        {name: np.concatenate([part.text[name] for part in parts]) for name in TEXT},
        {name: np.concatenate([part.numbers[name] for part in parts]) for name in NUMBERS},
        np.concatenate([part.values for part in parts]),
        {name: _filled(parts, name) for name in dict.fromkeys(name for part in parts for name in part.extra)},
        parts[0].factors,
    )


def _filled(parts: Sequence[ShardRows], name: str) -> np.ndarray:
    width = max(part.extra[name].shape[1] for part in parts if name in part.extra)
    whole = np.full((sum(map(len, parts)), width), np.nan, np.float32)
    start = 0
    for part in parts:
        if name in part.extra:
            whole[start : start + len(part), : part.extra[name].shape[1]] = part.extra[name]
        start += len(part)
    return whole


def _lists(array: np.ndarray) -> pa.FixedSizeListArray:
    """A row's numbers as one cell, all rows in one block."""
    flat = np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), array.shape[1])


def _rows(batch: pa.RecordBatch, name: str) -> np.ndarray:
    column = batch.column(name)
    rows: np.ndarray = column.values.to_numpy(zero_copy_only=True).reshape(len(batch), column.type.list_size)
    return rows
