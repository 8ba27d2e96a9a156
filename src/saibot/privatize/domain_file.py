"""Read a public key domain from a CSV or Parquet file: first column the key, further columns its parents, unless named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from saibot.domains import KeyDomain, normal_key
from saibot.errors import InvalidDomain


def read_domain(
    path: Path, *, id: str, version: int, key: str | None = None, levels: Sequence[str] | None = None
) -> KeyDomain:
    """The domain of a file. `key` names the column of its keys, `levels` those of its coarser levels, fine to coarse.

    The file is public, but errors tell rows by their number only, the first one below the heading being row 1.
    """
    try:
        table = _read(path)
    except FileNotFoundError:
        raise InvalidDomain(
            f"the key domain file {path} is missing.",
            hint="A key needs a public list of its values; see the card's [keys] section.",
        ) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InvalidDomain(
            f"the key domain file {path} is no readable CSV or Parquet file.", hint="Check that the file is complete."
        ) from None
    if table.num_columns == 0 or len(set(table.column_names)) < table.num_columns:
        raise InvalidDomain(
            f"the key domain file {path} has no column, or two of one name.",
            hint="Its first column holds the keys, each further one a coarser level.",
        )
    keyed = key or table.column_names[0]
    chosen = [keyed, *([name for name in table.column_names if name != keyed] if levels is None else levels)]
    for name in chosen:
        if name not in table.column_names or chosen.count(name) > 1:
            raise InvalidDomain(
                f"the key domain file {path} has no column {name!r}, or it is named twice.",
                hint=f"Its columns are {', '.join(table.column_names[:10])}.",
            )
    try:
        columns = {
            name: ["" if value is None else normal_key(str(value)) for value in table.column(name).to_pylist()]
            for name in chosen
        }
    except (ValueError, OverflowError):  # a date of the year 12000
        raise InvalidDomain(
            f"the key domain file {path} holds keys that have no text.", hint="Write its keys as text."
        ) from None
    (_, keys), *parents = columns.items()
    _check_rows(path, keys, parents)
    domain = KeyDomain.of(id, keys, version=version, parents=dict(parents))
    domain.with_levels(levels or ())  # refuses levels that are not nested
    return domain


def _check_rows(path: Path, keys: list[str], parents: list[tuple[str, list[str]]]) -> None:
    """Name the first row that cannot be, by its number."""
    seen: dict[str, int] = {}
    for number, key in enumerate(keys, start=1):
        if not key:
            raise InvalidDomain(f"row {number} of the key domain file {path} has no key.", hint="Fill it in, or remove it.")
        if seen.setdefault(key, number) != number:
            raise InvalidDomain(
                f"the key domain file {path} holds a key twice: in row {seen[key]} and in row {number}.",
                hint="Each key stands in it once, with its parents beside it.",
            )
    for level, column in parents:
        if "" in column:
            raise InvalidDomain(
                f"row {column.index('') + 1} of the key domain file {path} has no parent in column {level!r}.",
                hint="Every key belongs to one key of each coarser level; leave out columns that are none.",
            )


def _read(path: Path) -> pa.Table:
    if path.suffix in (".parquet", ".pq"):
        return parquet.read_table(path)
    with pa.input_stream(str(path), compression="detect") as stream:
        header = stream.read(1 << 16).split(b"\n", 1)[0].decode("utf-8-sig").strip()
    names = csv.read_csv(pa.py_buffer((header + "\n").encode()), parse_options=csv.ParseOptions()).column_names
    text = csv.ConvertOptions(column_types={name: pa.string() for name in names}, strings_can_be_null=False)
    with pa.input_stream(str(path), compression="detect") as stream:
        return csv.read_csv(stream, convert_options=text)
