"""Open a table, whatever it is: a file, a data frame, an Arrow table or any ibis table. No row is looked at here."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa

from saibot.errors import InvalidTable

BackendName = Literal["duckdb", "polars"]
TableLike = Any  # path, pandas or polars frame, Arrow table, ibis table: told apart in `open_table`

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
ARROW_ENDINGS = (".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class Source:
    """An opened table and the engine that will aggregate it."""

    table: ibis.Table
    engine: Any  # ibis backend
    path: Path | None

    def fetch(self, expression: ibis.Table) -> pa.Table:
        """Run an expression. Engine errors quote cells, so they are replaced by one that does not."""
        with no_cells_in_errors():
            return self.engine.to_pyarrow(expression)

    def content(self) -> Iterator[bytes]:
        """The bytes that identify the rows: the file as it is, or else the rows themselves, in whatever order they come.

        A view has no order of its own, and a release does not depend on any: the same rows shuffled are the same source.
        """
        if self.path is not None:
            with self.path.open("rb") as file:
                while chunk := file.read(1 << 22):
                    yield chunk
            return
        comparable = [name for name, kind in self.table.schema().items() if _has_an_order(kind)]
        with no_cells_in_errors():
            for batch in self.engine.to_pyarrow_batches(self.table.order_by(comparable) if comparable else self.table):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as writer:
                    # A copy: engines leave anything at all in memory below a missing cell, and a copy leaves nothing there.
                    writer.write_batch(batch.take(np.arange(batch.num_rows)))
                yield bytes(sink.getvalue())


def _has_an_order(kind: dt.DataType) -> bool:
    return bool(kind.is_numeric() or kind.is_boolean() or kind.is_string() or kind.is_temporal())


def open_table(source: TableLike, *, text_columns: tuple[str, ...] = (), backend: BackendName = "duckdb") -> Source:
    """`text_columns` are read as text from CSV: a key `01` is not the number 1."""
    if isinstance(source, ibis.Table):
        own = source._find_backend(use_default=True)
        return Source(source, own, None)
    engine = ibis.duckdb.connect() if backend == "duckdb" else ibis.polars.connect()
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise InvalidTable(f"there is no table {path}.")
        if _is_blank(path):
            raise InvalidTable(f"the file {path} is empty.", hint="A table begins with the names of its columns.")
        with no_cells_in_errors():
            return Source(_read_file(engine, path, text_columns, backend), engine, path)
    with no_cells_in_errors():
        try:
            table = ibis.memtable(source)
        except Exception:
            raise InvalidTable(
                f"a {type(source).__name__} is no table.",
                hint="Give a path, a pandas, polars or Arrow table, or an ibis table.",
            ) from None
    return Source(table, engine, None)


def _is_blank(path: Path) -> bool:
    """Nothing in it, or in a text file nothing but white space. Reads no further than the first letter."""
    name = path.name.lower()
    if not name.endswith(CSV_ENDINGS):
        return path.stat().st_size == 0
    with no_cells_in_errors(), gzip.open(path) if name.endswith(".gz") else path.open("rb") as file:
        while chunk := file.read(1 << 16):
            if chunk.strip():
                return False
    return True


def _read_file(engine: Any, path: Path, text_columns: tuple[str, ...], backend: BackendName) -> ibis.Table:
    name = path.name.lower()
    if name.endswith(PARQUET_ENDINGS):
        return engine.read_parquet(path)
    if name.endswith(ARROW_ENDINGS):
        with pa.memory_map(str(path)) as file:
            return ibis.memtable(pa.ipc.open_file(file).read_all())
    if not name.endswith(CSV_ENDINGS):
        raise InvalidTable(f"the ending of {path.name} is not known.", hint="CSV, TSV, Parquet and Arrow files are read.")
    separator = "\t" if ".tsv" in name else ","
    if backend == "polars":
        import polars as pl

        overrides = {column: pl.String for column in text_columns}
        return engine.read_csv(
            path, infer_schema_length=None, schema_overrides=overrides, separator=separator, try_parse_dates=True
        )
    # The dialect is fixed: were it sniffed, one row with a quote in it could change how all the others are read.
    dialect: dict[str, Any] = {"delim": separator, "header": True, "quote": '"', "escape": '"', "comment": "", "skip": 0}
    # All rows are sniffed: a column is numeric because all of it is, not because its first rows happen to be.
    header = engine.read_csv(path, sample_size=1000, all_varchar=True, **dialect).columns
    types = {column: "VARCHAR" for column in text_columns if column in header}
    options: dict[str, Any] = {"types": types} if types else {}
    return engine.read_csv(path, sample_size=-1, **dialect, **options)


@contextmanager
def no_cells_in_errors() -> Iterator[None]:
    """What engines complain about they quote: it is said again without."""
    try:
        yield
    except InvalidTable:
        raise
    except BaseException as problem:
        if not _is_of_the_engine(problem):
            raise
        raise InvalidTable(
            f"the table cannot be read ({type(problem).__name__}).",
            hint="Check that the file is complete, that its columns have one type each, and its dates four digits of year.",
        ) from None


def _is_of_the_engine(error: BaseException) -> bool:
    """Not ctrl-C; but also what Polars raises where it gives up, which is made so that `except Exception` misses it."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
