"""Open a table, whatever it is: a file, a data frame, an Arrow table or any ibis table.

No type is inferred from rows here: all columns of a text file are text, a frame's columns are brought to normal types cell
by cell, and what Parquet files and databases declare is taken as declared. What a cell means is told in
`saibot.privatize.cells`.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from saibot.errors import InvalidTable
from saibot.privatize.engines import DEFAULT_ENGINE, BackendName, TableEngine, engine_of, open_engine
from saibot.privatize.frames import frame_columns, is_frame, normal_column
from saibot.privatize.text_file import CSV_ENDINGS, check_quotes, records

TableLike = Any  # path, pandas or polars frame, Arrow table, ibis table: told apart in `open_table`

PARQUET_ENDINGS = (".parquet", ".pq")
ARROW_ENDINGS = (".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class Source:
    """An opened table and the engine that will aggregate it."""

    table: ibis.Table
    engine: TableEngine
    path: Path | None

    def fetch(self, expression: ibis.Table) -> pa.Table:
        """Run an expression. Engine errors quote cells, so they are replaced by one that does not."""
        with no_cells_in_errors():
            return self.engine.fetch(expression)

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
            for batch in self.engine.batches(self.table.order_by(comparable) if comparable else self.table):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as writer:
                    # A copy: engines leave anything at all in memory below a missing cell, and a copy leaves nothing there.
                    writer.write_batch(batch.take(np.arange(batch.num_rows)))
                yield bytes(sink.getvalue())


def _has_an_order(kind: dt.DataType) -> bool:
    return bool(kind.is_numeric() or kind.is_boolean() or kind.is_string() or kind.is_temporal())


def open_table(
    source: TableLike,
    *,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    inferred: bool = False,
    text_columns: tuple[str, ...] = (),
    backend: BackendName = DEFAULT_ENGINE,
) -> Source:
    """A table as the engine sees it. Of a frame, only `columns` are read (default: all); `id_column` holds individuals.

    `inferred` lets the engine guess the types of a CSV file from all of its rows, but for `text_columns`. That is for a
    requester's own rows, which are not released; a release never reads them so.
    """
    if isinstance(source, ibis.Table):
        engine = engine_of(source._find_backend(use_default=True))
        return Source(engine.sound(source), engine, None)
    engine = open_engine(backend)
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise InvalidTable(f"there is no table {path}.")
        if _is_blank(path):
            raise InvalidTable(f"the file {path} is empty.", hint="A table begins with the names of its columns.")
        with no_cells_in_errors():
            guessed = text_columns if inferred else None
            return Source(_read_file(engine, path, guessed, columns, id_column), engine, path)
    with no_cells_in_errors():
        try:
            table = ibis.memtable(frame_columns(source, columns, id_column=id_column) if is_frame(source) else source)
        except InvalidTable:
            raise
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


def _read_file(
    engine: TableEngine,
    path: Path,
    text_columns: tuple[str, ...] | None,
    columns: Sequence[str] | None,
    id_column: str | None,
) -> ibis.Table:
    name = path.name.lower()
    if name.endswith(PARQUET_ENDINGS):
        return _read_parquet(engine, path)
    if name.endswith(ARROW_ENDINGS):
        with pa.memory_map(str(path)) as file:
            return ibis.memtable(frame_columns(pa.ipc.open_file(file).read_all(), columns, id_column=id_column))
    if not name.endswith(CSV_ENDINGS):
        raise InvalidTable(f"the ending of {path.name} is not known.", hint="CSV, TSV, Parquet and Arrow files are read.")
    if text_columns is None:
        check_quotes(path)
    return engine.read_text(path, _names(path), guessed_but=text_columns)


def _names(path: Path) -> list[str]:
    """The names in a text file's first line. A column without a name gets one; two of one name are refused."""
    names: list[str] = []
    for number, cell in enumerate(next(records(path), [])):
        name = cell.strip() or f"column{number}"
        if name in names:  # not quoted: without a heading it would be a cell
            raise InvalidTable(
                f"columns {names.index(name) + 1} and {number + 1} of the table have the same name.",
                hint="Give each a name of its own in the first line.",
            )
        names.append(name)
    return names


def _read_parquet(engine: TableEngine, path: Path) -> ibis.Table:
    """The types are declared in the file. Decimals that no engine holds exactly, and times in other zones, come by Arrow."""
    schema = parquet.read_schema(path)
    if any(pa.types.is_decimal256(kind) or pa.types.is_float16(kind) for kind in schema.types):
        table = parquet.read_table(path)
        return ibis.memtable(pa.table({name: normal_column(table.column(name)) for name in table.column_names}))
    return engine.read_parquet(path)


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
