"""The lines of a CSV or TSV file as text, in the dialect that tables are read in, without an engine that guesses.

For the few places that need a line or two: the names in the first one, or somebody's own row. Quotes and a byte order mark
are taken off; what cannot be understood is refused without being quoted.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import IO

from saibot.errors import InvalidTable

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_LONGEST_LINE = 1 << 20


def is_text_file(path: Path) -> bool:
    return path.name.lower().endswith(CSV_ENDINGS)


def separator_of(path: Path) -> str:
    return "\t" if ".tsv" in path.name.lower() else ","


def top_of(path: Path) -> tuple[int, str]:
    """How many empty lines come before the names, and how lines end there."""
    with _opened(path) as file:
        empty = 0
        while (line := file.readline(_LONGEST_LINE)) in ("\n", "\r\n"):
            empty += 1
        return empty, "\r\n" if line.endswith("\r\n") else "\n"


def records(path: Path) -> Iterator[list[str]]:
    """The cells of every line, one after the other; lines with nothing in them are left out."""
    if not path.is_file():
        raise InvalidTable(f"there is no table {path}.")
    try:
        with _opened(path) as file:
            for cells in csv.reader(_lines(file), delimiter=separator_of(path), strict=True):
                if cells:
                    yield cells
    except (csv.Error, UnicodeDecodeError, EOFError, OSError, zlib.error) as problem:
        raise InvalidTable(
            f"the file {path} cannot be read ({type(problem).__name__}).",
            hint='A table is text in UTF-8 with one row per line; a cell with a quote in it stands in "quotes".',
        ) from None


def _opened(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return TextIOWrapper(gzip.open(path), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _lines(file: IO[str]) -> Iterator[str]:
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:  # a file without line ends would fill the memory
            raise csv.Error
        yield line
