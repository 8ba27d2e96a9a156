"""Read a public key domain from a CSV or Parquet file: first column the key, further columns its parents."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from saibot.domains import KeyDomain
from saibot.errors import InvalidDomain


def read_domain(path: Path, *, id: str, version: int) -> KeyDomain:
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
    try:
        columns = {
            name: ["" if value is None else str(value) for value in table.column(name).to_pylist()]
            for name in table.column_names
        }
    except (ValueError, OverflowError):  # a date of the year 12000
        raise InvalidDomain(
            f"the key domain file {path} holds keys that have no text.", hint="Write its keys as text."
        ) from None
    (_, keys), *parents = columns.items()
    return KeyDomain.of(id, keys, version=version, parents=dict(parents))


def _read(path: Path) -> pa.Table:
    if path.suffix in (".parquet", ".pq"):
        return parquet.read_table(path)
    with pa.input_stream(str(path), compression="detect") as stream:
        header = stream.read(1 << 16).split(b"\n", 1)[0].decode("utf-8-sig").strip()
    names = csv.read_csv(pa.py_buffer((header + "\n").encode()), parse_options=csv.ParseOptions()).column_names
    text = csv.ConvertOptions(column_types={name: pa.string() for name in names}, strings_can_be_null=False)
    with pa.input_stream(str(path), compression="detect") as stream:
        return csv.read_csv(stream, convert_options=text)
