"""Shards: the values of many candidates over one key domain, in a memory-mapped Arrow file.

A shard holds one row per feature: who it belongs to, what is known of it, and its lookup values for every key (deviations
from its own mean, catch-all last), as one contiguous block. Values are float32: half of what a sweep reads, and far finer
than any noise. A row may have further arrays under names of their own (`extra`), of any width; a reader that knows nothing
of them passes over them. Files are never changed once written: adding makes a new shard, removing writes the shard anew
without the rows, so that what was withdrawn is really gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saibot.errors import InvalidInput
from saibot.safe_arrow import mapped, read_arrow
from saibot.safe_file import writing

TEXT = ("digest", "dataset", "feature", "unit")
NUMBERS = ("mean", "spread", "reliability", "offset", "scale", "rows")
MOST_COLUMNS = 1000
VERSION = b"2"  # 1 said nothing of its version
EXTRA = "extra:"
OPEN = "open"  # a further array of one number: 1 in rows of open tables, which are exact
PROVIDER = "provider"  # another: the number of its provider in the corpus's index, 0 where that is nobody


class TextColumns(Mapping[str, np.ndarray]):
    """Columns of text as they lie in a file. One becomes an array of strings when it is asked for as a whole: a search needs
    the names of a few rows, and a million strings take a second to make."""

    def __init__(self, columns: Mapping[str, pa.StringArray]) -> None:
        self.columns = dict(columns)
        self._arrays: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            self._arrays[name] = np.array(self.columns[name].to_pylist(), dtype=object)
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


@dataclass(frozen=True)
class ShardRows:
    """Rows of a shard: text and numbers by name, the values (rows, keys), and further arrays (rows, width) by name."""

    text: Mapping[str, np.ndarray]
    numbers: dict[str, np.ndarray]
    values: np.ndarray
    extra: dict[str, np.ndarray] = field(default_factory=dict)
    factors: str = ""  # version of the shared factors that helped these values, `version@group` for a group's; or none

    def __len__(self) -> int:
        return len(self.values)

    @property
    def providers(self) -> np.ndarray:
        """The number of each row's provider; 0 where nobody is known to be it."""
        if PROVIDER not in self.extra:
            return np.zeros(len(self), np.int64)
        known = self.extra[PROVIDER][:, 0]
        numbers: np.ndarray = np.where(np.isfinite(known) & (known >= 0), known, 0).astype(np.int64)
        return numbers

    def of_provider(self, number: int) -> ShardRows:
        """The same rows, of this provider."""
        whose = np.full((len(self), 1), number, np.float32)
        return replace(self, extra=self.extra | {PROVIDER: whose}) if number else self

    def cell(self, name: str, row: int) -> str:
        """The text of one row."""
        if isinstance(self.text, TextColumns):
            return str(self.text.columns[name][row].as_py())
        return str(self.text[name][row])

    def named(self, names: Collection[str]) -> np.ndarray:
        """Which rows are of a dataset with one of these digests or names."""
        if not names:
            return np.zeros(len(self), bool)
        asked = pa.array(sorted(names), pa.string())
        columns = self.text.columns if isinstance(self.text, TextColumns) else self.text
        found = [pc.is_in(pa.array(columns[name], pa.string()), asked) for name in ("digest", "dataset")]
        either: np.ndarray = pc.or_(*found).to_numpy(zero_copy_only=False)
        return either

    def without(self, digests: Collection[str]) -> ShardRows:
        """The rows of all other sketches; the very same where there are none of these, for they are mapped, not copied."""
        if not digests:
            return self
        columns = self.text.columns if isinstance(self.text, TextColumns) else self.text
        theirs = pc.is_in(pa.array(columns["digest"], pa.string()), pa.array(sorted(digests), pa.string()))
        chosen = ~np.asarray(theirs.to_numpy(zero_copy_only=False), dtype=bool)
        return self if chosen.all() else self.take(chosen)

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
    """Map a shard into memory: its values are read from disk only where they are touched.

    Raises FileNotFoundError where a newer one has taken its place meanwhile: whoever holds the index opens the corpus anew.
    """
    try:
        (batch,) = read_arrow(mapped(str(path)), columns=MOST_COLUMNS).batches
        metadata = batch.schema.metadata or {}
        if metadata.get(b"saibot-shard") != VERSION:
            hint = "Pack the corpus anew: `saibot pack`."
            raise InvalidInput(f"the shard {path.name} has another format version.", hint=hint)
        if any(batch.column(name).null_count for name in (*TEXT, *NUMBERS)):
            raise ValueError("an empty cell")
        if any(batch.column(name).type != pa.string() for name in TEXT):
            raise ValueError("text")
        text = TextColumns({name: batch.column(name) for name in TEXT})
        numbers = {name: _numbers(batch, name) for name in NUMBERS}
        extra = {name.removeprefix(EXTRA): _rows(batch, name) for name in batch.schema.names if name.startswith(EXTRA)}
        return ShardRows(text, numbers, _rows(batch, "values"), extra, metadata.get(b"factors", b"").decode())
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, AttributeError):
        raise InvalidInput(f"the shard {path.name} is damaged.", hint="Pack the corpus anew: `saibot pack`.") from None


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


def _numbers(batch: pa.RecordBatch, name: str) -> np.ndarray:
    if batch.column(name).type != pa.float64():
        raise ValueError("numbers")
    column: np.ndarray = batch.column(name).to_numpy()
    return column


def _rows(batch: pa.RecordBatch, name: str) -> np.ndarray:
    column = batch.column(name)
    if not pa.types.is_fixed_size_list(column.type) or column.type.value_type != pa.float32() or column.null_count:
        raise ValueError("values")
    rows: np.ndarray = column.values.to_numpy(zero_copy_only=True).reshape(len(batch), column.type.list_size)
    return rows
