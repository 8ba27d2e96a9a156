"""Columns of a pandas, polars or Arrow table as Arrow columns of few types, each cell by itself.

Frames choose one type for a whole column, and often by looking at its rows. What a column was declared as stays where
every cell means the same in it (integers, floats, truths, texts, days, times); whatever else it is, a column of Python
objects above all, becomes text, cell by cell: what is no text already in the normal form of `saibot.privatize.cells`, and
texts as they are, since a column of texts alone comes to the engine as it is, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saibot.errors import InvalidTable
from saibot.privatize.cells import NO_TEXT, text_of, texts_of


def is_frame(table: Any) -> bool:
    in_memory = library_of(table) in ("pandas", "polars") and type(table).__name__ == "DataFrame"
    return in_memory or isinstance(table, pa.Table | pa.RecordBatch)


def frame_names(table: Any) -> list[str]:
    """Of the columns, as text: pandas calls some by numbers."""
    names: Iterable[Any] = table.schema.names if isinstance(table, pa.Table | pa.RecordBatch) else table.columns
    return [str(name) for name in names]


def frame_columns(table: Any, wanted: Sequence[str] | None, *, id_column: str | None = None) -> pa.Table:
    """The wanted columns that are there (all of them by default), in normal types.

    Of the id column whole numbers keep all their digits, also where somebody's text has made objects of them all: as nearest
    floats, two individuals would become one.
    """
    names = frame_names(table)
    chosen = [name for name in names if wanted is None or name in wanted]
    for name in chosen:
        if chosen.count(name) > 1:
            raise InvalidTable(f"the table has several columns {name!r}.", hint="Give each a name of its own.")
    return pa.table({name: _column(table, names.index(name), ids=name == id_column) for name in chosen})


def _column(table: Any, position: int, *, ids: bool) -> pa.ChunkedArray:
    if isinstance(table, pa.Table | pa.RecordBatch):
        return normal_column(table.column(position))
    if library_of(table) == "polars":
        import polars as pl

        series = table.to_series(position)
        if "128" in str(series.dtype):  # one cell beyond 64 bits makes such integers of all, which Arrow does not have
            series = series.cast(pl.String if ids else pl.Float64)
        return _text_column(series.to_list(), ids) if str(series.dtype) == "Object" else normal_column(series.to_arrow())
    return _pandas_column(table.iloc[:, position], ids)


def _pandas_column(series: Any, ids: bool) -> pa.ChunkedArray:
    import pandas as pd

    kind = series.dtype
    if isinstance(kind, pd.CategoricalDtype):
        categories = normal_column(_pandas_column(pd.Series(kind.categories), ids))
        codes = pa.array(series.cat.codes.to_numpy().astype(np.int64), mask=(series.cat.codes < 0).to_numpy())
        return pa.chunked_array([categories.combine_chunks().take(codes)])
    if isinstance(kind, np.dtype) and kind.kind in "iufb":
        values = series.to_numpy()
        return normal_column(pa.array(values.astype(np.float64) if kind.itemsize == 2 and kind.kind == "f" else values))
    times = isinstance(kind, np.dtype) and kind.kind == "M"
    if times or isinstance(kind, pd.DatetimeTZDtype | pd.ArrowDtype | pd.StringDtype):
        return normal_column(pa.array(series, from_pandas=True))
    if hasattr(kind, "numpy_dtype") and not isinstance(kind, pd.SparseDtype):  # Int64, Float64, boolean
        return normal_column(pa.array(series, from_pandas=True))
    cells = series.astype(object)
    return _text_column([None if missing else cell for cell, missing in zip(cells, cells.isna(), strict=True)], ids)


def _text_column(cells: Iterable[Any], ids: bool) -> pa.ChunkedArray:
    """Python objects of any kinds as texts; a missing one stays missing."""

    def text(cell: Any) -> str | None:
        if isinstance(cell, str):
            return cell
        if ids and isinstance(cell, int | np.integer) and not isinstance(cell, bool):
            return str(int(cell))
        try:
            return text_of(cell) or None
        except NO_TEXT:
            return None

    return pa.chunked_array([pa.array([text(cell) for cell in cells], pa.string())])


def normal_column(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """An Arrow column of a type that engines read alike. A decimal becomes its nearest float, whatever its scale."""
    values = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    kind = values.type
    if pa.types.is_dictionary(kind):
        return normal_column(values.cast(kind.value_type))
    if pa.types.is_decimal(kind):
        return pc.cast(pc.cast(values, pa.string()), pa.float64())
    if pa.types.is_float16(kind):
        return pc.cast(values, pa.float64())
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(values), pa.string())])
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _readable(values).cast(pa.string() if values.nbytes < 1 << 31 else pa.large_string())
    if pa.types.is_string(kind):
        return _readable(values)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return values.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit))
    if pa.types.is_date64(kind):
        return values.cast(pa.date32())
    if pa.types.is_fixed_size_binary(kind):
        return values.cast(pa.binary())  # which engines know; refused like all of them where a number or a level is needed
    if isinstance(kind, pa.UuidType):
        return pa.chunked_array([pa.array([t or None for t in texts_of(values.combine_chunks())], pa.string())])
    return values


def _readable(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same texts, with those that are no UTF-8 missing. Arrow does not look at them, and Polars crashes on them."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        cells = [cell.as_buffer() for chunk in texts.chunks for cell in chunk]
        return pa.chunked_array([pa.array([None if cell is None else _decoded(cell) for cell in cells], texts.type)])
    return texts


def _decoded(cell: pa.Buffer) -> str | None:
    try:
        return bytes(cell).decode()
    except UnicodeDecodeError:
        return None


def library_of(table: Any) -> str:
    """The package that a table is of: pandas, polars, pyarrow."""
    return type(table).__module__.split(".")[0]
