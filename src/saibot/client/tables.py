"""The requester's own tables, whatever they are: read as Arrow columns in row order, and written back in kind."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from saibot.errors import InvalidInput, InvalidTable
from saibot.privatize.cells import texts_of
from saibot.privatize.frames import frame_names, is_frame, library_of
from saibot.privatize.read import ARROW_ENDINGS, PARQUET_ENDINGS, TableLike, no_cells_in_errors, open_table
from saibot.privatize.text_file import CSV_ENDINGS, separator_of
from saibot.report.spreadsheet import harmless
from saibot.safe_file import writing


def is_path(table: TableLike) -> bool:
    return isinstance(table, str | Path)


def is_csv(table: TableLike) -> bool:
    return is_path(table) and Path(table).name.lower().endswith(CSV_ENDINGS)


def read_columns(table: TableLike, columns: Sequence[str], *, text: Sequence[str] = ()) -> pa.Table:
    """These columns of a table in the order of its rows; `text` are read as text from CSV, where `01` is not 1."""
    wanted = list(dict.fromkeys(columns))
    if is_path(table) or not is_frame(table):
        source = open_table(table, inferred=True, text_columns=tuple(text))
        _check_there(wanted, tuple(source.table.columns), of_text=is_csv(table))
        return source.fetch(source.table.select(*wanted))
    _check_there(wanted, column_names(table))
    return pa.table({name: _column(table, name) for name in wanted})


def column_names(table: TableLike) -> tuple[str, ...]:
    if is_frame(table):
        return tuple(frame_names(table))
    if is_csv(table):
        with _text_of(Path(table)) as lines:
            return tuple(next(csv.reader(lines, delimiter=separator_of(Path(table))), []))
    return tuple(open_table(table, inferred=True).table.columns)


def numbers(table: pa.Table, name: str) -> np.ndarray:
    """A column as float64, NaN where a cell is missing or not finite. Text is refused by the column's name."""
    column = table.column(name)
    kind = column.type
    if pa.types.is_null(kind):
        raise InvalidTable(f"column {name!r} has no value at all.", hint="Leave it out.")
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        said = "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else f"{kind}"
        raise InvalidTable(
            f"column {name!r} holds {said}, and a model needs numbers.",
            hint="Leave it out, or make it a column of numbers; a join column is named with --key.",
        )
    values = pc.fill_null(column.cast(pa.float64(), safe=False), float("nan")).to_numpy()
    return np.where(np.isfinite(values), values, np.nan)


def key_codes(table: pa.Table, name: str) -> tuple[np.ndarray, list[str]]:
    """A key column as the number of each row's key, and the normal text of every number; a missing key is empty."""
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    try:
        encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column, null_encoding="encode")
    except pa.ArrowException:
        raise InvalidTable(
            f"a key needs single values, but column {name!r} holds {column.type}.",
            hint="Give each field that is a key a column of its own.",
        ) from None
    cells = texts_of(encoded.dictionary)
    texts = list(dict.fromkeys([*cells, ""]))  # the missing key last, or where a cell of it stands
    place = {text: i for i, text in enumerate(texts)}
    codes = np.array([place[cell] for cell in cells] or [0], np.int64)
    indices = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return np.where(indices < 0, place[""], codes[indices]), texts


# ------------------------------------------------------------------------------------------------ in kind


def with_columns(table: TableLike, new: dict[str, np.ndarray]) -> Any:
    """The same kind of table with these columns added at its end; an Arrow table for a path."""
    if is_path(table):
        table = read_columns(table, column_names(table))
    clash = next((name for name in new if name in column_names(table)), None)
    if clash is not None:
        raise InvalidTable(f"the table has a column {clash!r} already.", hint="It was augmented before, it seems.")
    kind = library_of(table)
    if kind == "pandas":
        return table.assign(**new)
    if kind == "polars":
        import polars as pl

        return table.with_columns(pl.Series(name, values) for name, values in new.items())
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        table = read_columns(table, column_names(table))
    for name, values in new.items():
        table = table.append_column(name, pa.array(values))
    return table


def write_augmented(table: TableLike, new: dict[str, np.ndarray], path: Path) -> None:
    """Write the table with its new columns: CSV, Parquet or Arrow by the path's ending, all of it or nothing.

    From CSV to CSV every cell of the old columns stays the text it was. New columns are called as strangers call their
    datasets and features: in CSV no such name is a formula to a spreadsheet.
    """
    ending = path.name.lower()
    writers: dict[tuple[str, ...], Callable[[pa.Table, Path], None]] = {
        CSV_ENDINGS: lambda rows, to: _write_csv(rows, to, like=path),
        PARQUET_ENDINGS: parquet.write_table,
        ARROW_ENDINGS: _write_arrow,
    }
    write = next((writer for endings, writer in writers.items() if ending.endswith(endings)), None)
    if write is None:
        raise InvalidInput(f"the ending of {path.name} is not known.", hint="CSV, TSV, Parquet and Arrow files are written.")
    if is_csv(table) and ending.endswith(CSV_ENDINGS):
        names = column_names(table)
        table = read_columns(table, names, text=names)
    if ending.endswith(CSV_ENDINGS):
        new = {harmless(name): values for name, values in new.items()}
    widened = with_columns(table, new)
    rows = widened if isinstance(widened, pa.Table) else pa.table({n: _column(widened, n) for n in column_names(widened)})
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with writing(path, public=True) as temporary:
            write(rows, temporary)
    except (pa.ArrowException, ValueError, OverflowError):  # a date of the year 12000 in CSV, an interval in Parquet
        raise InvalidTable(
            f"the table holds what cannot be written to {path.name}.", hint="An .arrow file holds every kind of column."
        ) from None


def _write_csv(rows: pa.Table, path: Path, *, like: Path) -> None:
    opener = gzip.open if like.name.lower().endswith(".gz") else open
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator_of(like), lineterminator="\n")
        writer.writerow(rows.column_names)
        for batch in rows.to_batches(max_chunksize=65_536):
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _write_arrow(rows: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


# ------------------------------------------------------------------------------------------------ inside


def _column(table: TableLike, name: str) -> Any:
    """One column of a frame as Arrow. What Arrow says about a bad cell quotes it, so it is said again without."""
    if column_names(table).count(name) > 1:
        raise InvalidTable(f"the table has several columns {name!r}.", hint="Give each a name of its own.")
    if isinstance(table, pa.Table | pa.RecordBatch):
        return table.column(name)
    series = table[name]
    if library_of(table) == "polars":
        with no_cells_in_errors():
            return series.to_arrow()
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InvalidTable(
            f"column {name!r} holds cells of several types.", hint="Bring it to one type: text, numbers or dates."
        ) from None


def _check_there(wanted: Sequence[str], present: Sequence[str], *, of_text: bool = False) -> None:
    """Every column is there. Of a text file none is listed: without a header line they would be the first row's cells."""
    for name in wanted:
        if name not in present:
            listed = f"It has {', '.join(map(repr, present))}."
            hint = "The names of its columns are its first line." if of_text else listed
            raise InvalidTable(f"the table has no column {name!r}.", hint=hint)


@contextmanager
def _text_of(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise InvalidTable(f"there is no table {path}.")
    try:
        opener = gzip.open if path.name.lower().endswith(".gz") else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    except (OSError, UnicodeDecodeError, EOFError, csv.Error):
        raise InvalidTable(f"the table {path} cannot be read.", hint="Check that the file is complete.") from None
