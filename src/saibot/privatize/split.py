"""Divide a table into a training and a test part, individual by individual, by the operating system's randomness.

Both parts may then be released with the full budget: every individual is in one of them only, and which one does not depend
on the data. A split by file order or by a hash of the content would let a replaced row push others across.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from saibot.errors import InvalidInput, InvalidTable
from saibot.privatize.read import CSV_ENDINGS, PARQUET_ENDINGS


@dataclass(frozen=True)
class SplitFiles:
    train: Path
    test: Path


def split_table(table: Path, *, test: Decimal, id_column: str | None = None, out: Path | None = None) -> SplitFiles:
    """Write TABLE.train and TABLE.test beside the table (or into `out`), in its own format, cells unchanged."""
    if not 0 < test < 1:
        raise InvalidInput(f"--test is a fraction between 0 and 1, not {test}.")
    name = table.name.lower()
    ending = next((e for e in (*CSV_ENDINGS, *PARQUET_ENDINGS) if name.endswith(e)), None)
    if ending is None or not table.is_file():
        raise InvalidTable(f"{table} is no CSV or Parquet table that is there.")
    content = _read(table, ending)
    if id_column is not None and id_column not in content.column_names:
        # Of a text file none is listed: without a header line they would be the first row's cells.
        listed = f"It has {', '.join(map(repr, content.column_names))}."
        hint = listed if ending in PARQUET_ENDINGS else "The names of its columns are its first line."
        raise InvalidTable(f"the table has no column {id_column!r}.", hint=hint)
    if id_column is not None and content.column_names.count(id_column) > 1:
        raise InvalidTable(f"the table has several columns {id_column!r}.", hint="Give each a name of its own.")
    chosen = _chosen(content, test, id_column)
    folder = out or table.parent
    folder.mkdir(parents=True, exist_ok=True)
    stem = table.name[: -len(ending)]
    files = SplitFiles(folder / f"{stem}.train{_plain(ending)}", folder / f"{stem}.test{_plain(ending)}")
    try:
        for path, mask in ((files.train, ~chosen), (files.test, chosen)):
            _write(content.filter(pa.array(mask)), path)
    except pa.ArrowException:
        raise InvalidTable(
            f"{table} has columns of a type that cannot be divided.", hint="Bring them to texts, numbers or dates."
        ) from None
    return files


def _chosen(content: pa.Table, test: Decimal, id_column: str | None) -> np.ndarray:
    """For each row whether its individual goes to the test part: 64 random bits against a threshold."""
    threshold = int(test * (1 << 64))

    def draw(count: int) -> np.ndarray:
        below: np.ndarray = np.frombuffer(secrets.token_bytes(8 * count), dtype="<u8") < np.uint64(threshold)
        return below

    if id_column is None:
        return draw(content.num_rows)
    column = content.column(id_column)
    try:
        cells = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        encoded = pc.dictionary_encode(cells.combine_chunks(), null_encoding="encode")
    except pa.ArrowException:
        raise InvalidTable(
            f"column {id_column!r} holds {column.type}, which tells no individuals apart.",
            hint="Name a column of texts or whole numbers with --id.",
        ) from None
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    drawn: np.ndarray = draw(len(encoded.dictionary))[encoded.indices.to_numpy()]
    return drawn


def _read(table: Path, ending: str) -> pa.Table:
    try:
        if ending in PARQUET_ENDINGS:
            return parquet.read_table(table)
        delimiter = csv.ParseOptions(delimiter="\t" if "tsv" in ending else ",")
        with pa.input_stream(str(table), compression="detect") as stream:
            names = csv.open_csv(stream, parse_options=delimiter).schema.names
        # Cells stay text, so that what is written is what was read: 01 does not become 1.
        text = csv.ConvertOptions(column_types={name: pa.string() for name in names}, strings_can_be_null=False)
        with pa.input_stream(str(table), compression="detect") as stream:
            return csv.read_csv(stream, parse_options=delimiter, convert_options=text)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InvalidTable(f"{table} cannot be read as a table.", hint="Check that the file is complete.") from None


def _plain(ending: str) -> str:
    return ending.removesuffix(".gz")


def _write(content: pa.Table, path: Path) -> None:
    if path.suffix in PARQUET_ENDINGS:
        parquet.write_table(content, path)
    else:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        csv.write_csv(content, path, csv.WriteOptions(delimiter=delimiter, quoting_style="needed"))
