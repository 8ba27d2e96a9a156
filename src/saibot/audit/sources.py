"""One and the same list of rows in every form that a provider may have it: files, data frames, tables of an engine.

Each library looks at the rows by itself and decides what its columns are, as it does for its users: that is the point. A
mixture that a library refuses is no table of that form, and is skipped.

What no reader could mend, because the library has replaced other rows' cells before anyone sees them, is not asked for:
whole numbers beyond 2^53 in keys, levels and ids (pandas makes floats of them beside a missing cell), truths and numbers in
one column (Polars and Arrow turn truths into 1 and 0 there). `saibot.audit.cells` has no such columns. Whole numbers beyond
64 bits are no Parquet file of Polars: it writes the whole column in a type of its own, which nobody else reads.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from saibot.audit.cells import ColumnKind
from saibot.privatize.engines import DEFAULT_ENGINE, BackendName
from saibot.privatize.read import TableLike

Row = dict[str, Any]
Columns = dict[str, ColumnKind]


class LibraryRefused(Exception):
    """The library makes no table of these rows; no program of ours was asked."""


@dataclass(frozen=True)
class SourceKind:
    """A form of table: how it is made, and the engine that reads it."""

    name: str
    make: Callable[[Sequence[Row], Columns, Path], TableLike]
    backend: BackendName = DEFAULT_ENGINE

    def table(self, rows: Sequence[Row], columns: Columns, folder: Path) -> TableLike:
        """The rows in this form; files go into the folder, under a name that does not depend on them."""
        try:
            return self.make(rows, columns, folder)
        except Exception as refused:
            raise LibraryRefused(type(refused).__name__) from None


# ------------------------------------------------------------------------------------------------ files


def _csv(rows: Sequence[Row], columns: Columns, folder: Path) -> Path:
    path = folder / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(columns))
        writer.writeheader()
        writer.writerows(rows)
    return path


def _zipped_csv(rows: Sequence[Row], columns: Columns, folder: Path) -> Path:
    path = folder / "table.csv.gz"
    path.write_bytes(gzip.compress(_csv(rows, columns, folder).read_bytes()))
    return path


def _csv_of_pandas(rows: Sequence[Row], columns: Columns, folder: Path) -> Path:
    path = folder / "table.csv"
    _pandas(rows, columns, folder).to_csv(path, index=False)
    return path


def _csv_of_pandas_times(rows: Sequence[Row], columns: Columns, folder: Path) -> Path:
    path = folder / "table.csv"
    _pandas_times(rows, columns, folder).to_csv(path, index=False)
    return path


def _parquet_of_pandas(rows: Sequence[Row], columns: Columns, folder: Path) -> Path:
    path = folder / "table.parquet"
    _pandas(rows, columns, folder).to_parquet(path)
    return path


def _parquet_of_polars(rows: Sequence[Row], columns: Columns, folder: Path) -> Path:
    path = folder / "table.parquet"
    frame = _polars(rows, columns, folder)
    if any(str(kind) == "Int128" for kind in frame.dtypes):
        raise LibraryRefused("Int128")
    frame.write_parquet(path)
    return path


def _parquet_of_arrow(rows: Sequence[Row], columns: Columns, folder: Path) -> Path:
    import pyarrow.parquet as parquet

    path = folder / "table.parquet"
    parquet.write_table(_arrow(rows, columns, folder), path)
    return path


def _feather(rows: Sequence[Row], columns: Columns, folder: Path) -> Path:
    import pyarrow.feather as feather

    path = folder / "table.arrow"
    feather.write_feather(_arrow(rows, columns, folder), str(path), compression="uncompressed")
    return path


# ------------------------------------------------------------------------------------------------ frames


def _pandas(rows: Sequence[Row], columns: Columns, folder: Path) -> Any:
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns))


def _pandas_objects(rows: Sequence[Row], columns: Columns, folder: Path) -> Any:
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns), dtype=object)


def _pandas_nullable(rows: Sequence[Row], columns: Columns, folder: Path) -> Any:
    return _pandas(rows, columns, folder).convert_dtypes()


def _pandas_categories(rows: Sequence[Row], columns: Columns, folder: Path) -> Any:
    frame = _pandas(rows, columns, folder)
    for name, kind in columns.items():
        if "bounds" not in kind.facts and name != "id":
            frame[name] = frame[name].astype("category")
    return frame


def _pandas_times(rows: Sequence[Row], columns: Columns, folder: Path) -> Any:
    """Dates as pandas' own time stamps."""
    import pandas as pd

    frame = _pandas(rows, columns, folder)
    for name, kind in columns.items():
        if kind.dates:
            frame[name] = pd.to_datetime(frame[name])
    return frame


def _pandas_texts(rows: Sequence[Row], columns: Columns, folder: Path) -> Any:
    """Keys and levels as pandas' texts, spelled one by one."""
    import pandas as pd

    frame = _pandas(rows, columns, folder)
    for name, kind in columns.items():
        if "bounds" not in kind.facts:
            texts = [None if row[name] is None else str(row[name]) for row in rows]
            frame[name] = pd.array(texts, dtype="string")
    return frame


def _polars(rows: Sequence[Row], columns: Columns, folder: Path) -> Any:
    import polars as pl

    return pl.DataFrame([tuple(row[name] for name in columns) for row in rows], schema=list(columns), orient="row",
                        strict=False, infer_schema_length=None)  # fmt: skip


def _arrow(rows: Sequence[Row], columns: Columns, folder: Path) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist([{name: row[name] for name in columns} for row in rows])


# ------------------------------------------------------------------------------------------------ engines


@cache
def _database() -> Any:
    import ibis

    return ibis.duckdb.connect()


def _duckdb_table(rows: Sequence[Row], columns: Columns, folder: Path) -> Any:
    return _database().create_table("audited", _arrow(rows, columns, folder), overwrite=True)


def _memtable(rows: Sequence[Row], columns: Columns, folder: Path) -> Any:
    import ibis

    return ibis.memtable(_polars(rows, columns, folder))


SOURCES = (
    SourceKind("csv", _csv),
    SourceKind("csv.gz", _zipped_csv),
    SourceKind("csv by pandas", _csv_of_pandas),
    SourceKind("csv by pandas, times", _csv_of_pandas_times),
    SourceKind("csv, polars engine", _csv, "polars"),
    SourceKind("csv by pandas, polars engine", _csv_of_pandas, "polars"),
    SourceKind("parquet by pandas", _parquet_of_pandas),
    SourceKind("parquet by polars", _parquet_of_polars),
    SourceKind("parquet by arrow", _parquet_of_arrow),
    SourceKind("parquet by arrow, polars engine", _parquet_of_arrow, "polars"),
    SourceKind("arrow file", _feather),
    SourceKind("pandas", _pandas),
    SourceKind("pandas objects", _pandas_objects),
    SourceKind("pandas nullable", _pandas_nullable),
    SourceKind("pandas categories", _pandas_categories),
    SourceKind("pandas times", _pandas_times),
    SourceKind("pandas texts", _pandas_texts),
    SourceKind("pandas, polars engine", _pandas, "polars"),
    SourceKind("polars", _polars),
    SourceKind("polars, polars engine", _polars, "polars"),
    SourceKind("arrow", _arrow),
    SourceKind("duckdb table", _duckdb_table),
    SourceKind("ibis memtable", _memtable),
)
