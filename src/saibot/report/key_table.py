"""A table of numbers by key, to take along: CSV for spreadsheets, Arrow for data frames, JSON for everything else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from saibot.report.spreadsheet import csv_text

KINDS = {"csv": "text/csv", "arrow": "application/vnd.apache.arrow.file", "json": "application/json"}


@dataclass(frozen=True)
class KeyTable:
    """One row for each key: its texts, one column for each part of the key, and numbers by name. NaN is an empty cell."""

    keys: Mapping[str, Sequence[str]]
    numbers: Mapping[str, np.ndarray]

    def written(self, kind: str) -> bytes:
        """As one of `KINDS`."""
        return {"csv": self.to_csv, "arrow": self.to_arrow, "json": self.to_json}[kind]()

    def to_csv(self) -> bytes:
        columns = [*self.keys.values(), *(_cells(column) for column in self.numbers.values())]
        return csv_text([*self.keys, *self.numbers], zip(*columns, strict=True)).encode("utf-8-sig")

    def to_arrow(self) -> bytes:
        texts = [pa.array([str(key) for key in column], pa.string()) for column in self.keys.values()]
        numbers = [pa.array(column.astype(float), from_pandas=True) for column in self.numbers.values()]
        batch = pa.record_batch([*texts, *numbers], names=[*self.keys, *self.numbers])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    def to_json(self) -> bytes:
        """A list of records."""
        names = [*self.keys, *self.numbers]
        columns = [*self.keys.values(), *(_cells(column) for column in self.numbers.values())]
        records = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return json.dumps(records, ensure_ascii=False, separators=(",", ":")).encode()


def _cells(column: np.ndarray) -> list[float | None]:
    """To nine digits: more than any noise leaves a meaning to."""
    return [None if not np.isfinite(value) else float(f"{value:.9g}") for value in column.tolist()]
