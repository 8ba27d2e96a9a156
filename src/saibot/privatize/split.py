"""Divide a table into a training and a test part, individual by individual, by the operating system's randomness.

Both parts may then be released with the full budget: every individual is in one of them only, and which one does not depend
on the data. A split by file order or by a hash of the content would let a replaced row push others across.

A split by key puts all rows of a key into one part: a model is then judged on keys that it has never seen. Replacing a row
may move it to another key and so to the other part, so the ledger is told of no split, and what both parts cost adds up.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from saibot.errors import InvalidInput, InvalidTable
from saibot.privacy.ledger import Ledger
from saibot.privacy.samples import Sample
from saibot.privatize.cells import individual_in
from saibot.privatize.engines import open_engine
from saibot.privatize.frames import frame_columns, frame_names, is_frame, normal_column
from saibot.privatize.known_rows import resembling, samples_of
from saibot.privatize.read import PARQUET_ENDINGS, Source
from saibot.privatize.text_file import CSV_ENDINGS


@dataclass(frozen=True)
class SplitFiles:
    """Where the parts are, the id under which the ledger knows them, and what the provider should hear."""

    train: Path
    test: Path
    id: str | None  # None for a split by key
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SplitFrames:
    """The parts of a table in memory, and the id to give with them: `split=parts.id`."""

    train: Any
    test: Any
    id: str | None  # None for a split by key
    notes: tuple[str, ...] = ()


def split_table(
    table: Path,
    ledger: Ledger,
    *,
    test: Decimal,
    id_column: str | None = None,
    key: str | None = None,
    out: Path | None = None,
) -> SplitFiles:
    """Write TABLE.train and TABLE.test beside the table (or into `out`), in its own format, cells unchanged.

    The ledger notes that these two files are disjoint by individual, so that their budgets do not add up; not where all
    rows of a `key` stay together, since an individual may change its key.
    """
    threshold = _threshold(test)
    _check_one_way(id_column, key)
    name = table.name.lower()
    ending = next((e for e in (*CSV_ENDINGS, *PARQUET_ENDINGS) if name.endswith(e)), None)
    if ending is None or not table.is_file():
        raise InvalidTable(f"{table} is no CSV or Parquet table that is there.")
    content = _read(table, ending)
    # Of a text file no column is listed: without a header line they would be the first row's cells.
    listed = f"It has {', '.join(map(repr, content.column_names))}."
    hint = listed if ending in PARQUET_ENDINGS else "The names of its columns are its first line."
    chosen = _chosen(content, threshold, _checked(id_column or key, content.column_names, hint))
    folder = out or table.parent
    folder.mkdir(parents=True, exist_ok=True)
    stem = table.name[: -len(ending)]
    train, held_out = (folder / f"{stem}.{part}{_plain(ending)}" for part in ("train", "test"))
    if key is not None:
        # Noted and never said to be written: the places then hold no parts of an earlier split either.
        ledger.begin_split(unit=None, train=str(train.resolve()), test=str(held_out.resolve()))
        _write_parts(content, chosen, train, held_out)
        return SplitFiles(train, held_out, None)
    samples = _samples(content, ledger, id_column)
    notes = _seen_before(samples, ledger)
    id = ledger.begin_split(unit=id_column, train=str(train.resolve()), test=str(held_out.resolve()))
    _write_parts(content, chosen, train, held_out)
    written = [ledger.fingerprint([path.read_bytes()]) for path in (train, held_out)]
    ledger.split_written(id, train_source=written[0], test_source=written[1])
    ledger.remember(samples, split=id)
    return SplitFiles(train, held_out, id, notes)


def split_frame(
    frame: Any, ledger: Ledger, *, test: Decimal, id_column: str | None = None, key: str | None = None
) -> SplitFrames:
    """Divide a pandas, polars or Arrow table in memory; both parts are of its own kind."""
    _check_one_way(id_column, key)
    if not is_frame(frame):
        raise InvalidTable(f"a {type(frame).__name__} is no pandas, polars or Arrow table.")
    names = frame_names(frame)
    wanted = _checked(id_column or key, names, f"It has {', '.join(map(repr, names))}.")
    content = frame_columns(frame, None, id_column=id_column)
    chosen = _chosen(content, _threshold(test), wanted)
    if key is not None:
        return SplitFrames(_filtered(frame, ~chosen), _filtered(frame, chosen), None)
    samples = _samples(content, ledger, id_column)
    notes = _seen_before(samples, ledger)
    id = ledger.begin_split(unit=id_column, train="", test="")
    ledger.split_written(id, train_source=b"", test_source=b"")
    ledger.remember(samples, split=id)
    return SplitFrames(_filtered(frame, ~chosen), _filtered(frame, chosen), id, notes)


def _check_one_way(id_column: str | None, key: str | None) -> None:
    if id_column is not None and key is not None:
        raise InvalidInput(
            "a table is divided by individual or by key, not by both.",
            hint="--id where both parts are privatised; --by-key to judge a model on keys it has not seen.",
        )


def _write_parts(content: pa.Table, chosen: np.ndarray, train: Path, held_out: Path) -> None:
    try:
        for path, mask in ((train, ~chosen), (held_out, chosen)):
            _write(content.filter(pa.array(mask)), path)
    except pa.ArrowException:
        raise InvalidTable(
            "the table has columns of a type that cannot be divided.", hint="Bring them to texts, numbers or dates."
        ) from None


def _filtered(frame: Any, mask: np.ndarray) -> Any:
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return frame.filter(pa.array(mask))
    return frame.loc[mask] if hasattr(frame, "loc") else frame.filter(mask)


def _samples(content: pa.Table, ledger: Ledger, id_column: str | None) -> list[Sample]:
    """Of all columns, since nobody has said yet which of them will be released."""
    source = Source(ibis.memtable(frame_columns(content, None)), open_engine(), None)
    columns = [name for name in content.column_names if name != id_column]
    together = samples_of(source, ledger, rows=content.num_rows, numbers=(), others=columns, id=id_column)
    numbers = [name for name, kind in source.table.schema().items() if kind.is_numeric() or kind.is_string()]
    return together + samples_of(source, ledger, rows=content.num_rows, numbers=[n for n in numbers if n in columns])


def _seen_before(samples: list[Sample], ledger: Ledger) -> tuple[str, ...]:
    earlier = [known for known in ledger.known() if known.account is None]
    return tuple(
        f"{sentence}: where both splits are used, an individual's totals of both add up."
        for sentence in resembling(samples, earlier)
    )


def _threshold(test: Decimal) -> int:
    if not 0 < test < 1:
        raise InvalidInput(f"--test is a fraction between 0 and 1, not {test}.")
    return int(test * (1 << 64))


def _checked(id_column: str | None, names: list[str], hint: str) -> str | None:
    if id_column is not None and id_column not in names:
        raise InvalidTable(f"the table has no column {id_column!r}.", hint=hint)
    if id_column is not None and names.count(id_column) > 1:
        raise InvalidTable(f"the table has several columns {id_column!r}.", hint="Give each a name of its own.")
    return id_column


def _chosen(content: pa.Table, threshold: int, id_column: str | None) -> np.ndarray:
    """For each row whether its individual goes to the test part: 64 random bits against a threshold."""

    def draw(count: int) -> np.ndarray:
        below: np.ndarray = np.frombuffer(secrets.token_bytes(8 * count), dtype="<u8") < np.uint64(threshold)
        return below

    if id_column is None:
        return draw(content.num_rows)
    column = content.column(id_column)
    try:
        # A decimal keeps its digits: as nearest floats, two individuals would become one.
        cells = column if pa.types.is_decimal(column.type) else normal_column(column)
        encoded = pc.dictionary_encode(cells.combine_chunks(), null_encoding="encode")
    except pa.ArrowException:
        raise InvalidTable(
            f"column {id_column!r} holds {column.type}, which tells no individuals apart.",
            hint="Name a column of texts or whole numbers with --id.",
        ) from None
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    whose = _individuals(encoded.dictionary)
    drawn: np.ndarray = draw(len(whose))[whose][encoded.indices.to_numpy()]
    return drawn


def _individuals(cells: pa.Array) -> np.ndarray:
    """For each of the cells of an id column a number of the individual: cells that mean the same have the same."""
    table = ibis.memtable(pa.table({"place": np.arange(len(cells)), "cell": cells}))
    fetched = Source(table, open_engine(), None).fetch(table.select("place", whose=individual_in(table.cell)))
    whose = fetched.sort_by("place").column("whose").combine_chunks()
    numbers: np.ndarray = pc.dictionary_encode(whose, null_encoding="encode").indices.to_numpy()
    return numbers


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
