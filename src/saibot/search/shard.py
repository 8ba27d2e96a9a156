"""Shards: the values of many candidates over one key domain, in a memory-mapped Arrow file.

A shard holds one row per feature: who it belongs to, what is known of it, and its lookup values for every key (deviations
from its own mean, catch-all last), as one contiguous block. Files are never changed once written: adding makes a new shard,
removing writes the shard anew without the rows, so that what was withdrawn is really gone.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

TEXT = ("digest", "dataset", "feature", "unit")
NUMBERS = ("mean", "spread", "reliability", "offset", "scale", "rows")


@dataclass(frozen=True)
class ShardRows:
    """Rows of a shard: text and numbers by name, and the values (rows, keys)."""

    text: dict[str, np.ndarray]
    numbers: dict[str, np.ndarray]
    values: np.ndarray
    factors: str = ""  # version of the shared factors that helped these values, `version@group` for a group's; or none

    def __len__(self) -> int:
        return len(self.values)

    def take(self, chosen: np.ndarray) -> ShardRows:
        return ShardRows(
            {name: column[chosen] for name, column in self.text.items()},
            {name: column[chosen] for name, column in self.numbers.items()},
            self.values[chosen],
            self.factors,
        )


def write_shard(path: Path, rows: ShardRows) -> None:
    """All or nothing: written beside its place, then moved there."""
    keys = rows.values.shape[1]
    flat = pa.array(np.ascontiguousarray(rows.values).reshape(-1))
    columns: list[Any] = [pa.array(rows.text[name].tolist(), pa.string()) for name in TEXT]
    columns += [pa.array(rows.numbers[name].astype(np.float64)) for name in NUMBERS]
    columns.append(pa.FixedSizeListArray.from_arrays(flat, keys))
    batch = pa.record_batch(columns, names=[*TEXT, *NUMBERS, "values"]).replace_schema_metadata({"factors": rows.factors})
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)


def open_shard(path: Path) -> ShardRows:
    """Map a shard into memory: its values are read from disk only where they are touched."""
    with pa.memory_map(str(path)) as source:
        batch = pa.ipc.open_file(source).get_batch(0)
    values = batch.column("values")
    flat = values.values.to_numpy(zero_copy_only=True)
    text = {name: np.array(batch.column(name).to_pylist(), dtype=object) for name in TEXT}
    numbers = {name: batch.column(name).to_numpy() for name in NUMBERS}
    factors = (batch.schema.metadata or {}).get(b"factors", b"").decode()
    return ShardRows(text, numbers, flat.reshape(len(batch), values.type.list_size), factors)


def concatenate(parts: Sequence[ShardRows]) -> ShardRows:
    return ShardRows(
        {name: np.concatenate([part.text[name] for part in parts]) for name in TEXT},
        {name: np.concatenate([part.numbers[name] for part in parts]) for name in NUMBERS},
        np.concatenate([part.values for part in parts]),
        parts[0].factors,
    )
