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

import numpy as np

from saibot.errors import InvalidTable

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_LONGEST_LINE = 1 << 20
_BLOCK = 1 << 22


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


def check_quotes(path: Path) -> None:
    """Refuse a file with a quote in the middle of a cell that is not in quotes.

    An engine takes such a quote as it is, until somebody's cell begins with one: then it ends that cell, and all rows
    between the two are swallowed. Every other quote opens a cell, or follows the one that closed it; the others close one.
    """
    separator = ord(separator_of(path))
    allowed = np.zeros(256, bool)
    allowed[[separator, ord("\n"), ord("\r"), ord('"')]] = True
    before, opened = ord("\n"), 0
    with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
        block = file.read(max(_BLOCK, 3)).removeprefix(b"\xef\xbb\xbf") or file.read(_BLOCK)
        while block:
            following = file.read(_BLOCK)
            around = np.frombuffer(bytes([before]) + block + (following[:1] or b"\n"), np.uint8)
            places = np.flatnonzero(around[1:-1] == ord('"')) + 1
            opens = (np.arange(len(places)) + opened) % 2 == 0
            if not allowed[np.where(opens, around[places - 1], around[places + 1])].all():
                raise InvalidTable(
                    f"the file {path} has a quote inside a cell that is not in quotes.",
                    hint='A cell with a quote in it is written in quotes, and its own quote twice: "5"" pipe".',
                )
            before, opened = int(around[-2]), opened + len(places)
            block = following


def records(path: Path) -> Iterator[list[str]]:
    """The cells of every line, one after the other; lines with nothing in them are left out."""
    if not path.is_file():
        raise InvalidTable(f"there is no table {path}.")
    try:
        with _opened(path) as file:
            for cells in csv.reader(_lines(file, path), delimiter=separator_of(path), strict=True):
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


def _lines(file: IO[str], path: Path) -> Iterator[str]:
    top = True
    while line := file.readline(_LONGEST_LINE):
        if top and line.endswith("\r"):  # engines see one long line of names, and a table without rows
            raise InvalidTable(
                f"the lines of {path} end in carriage returns alone, as those of old programs do.",
                hint="Save it again as CSV in UTF-8: its lines then end as they do everywhere.",
            )
        top = False
        if len(line) == _LONGEST_LINE:  # a file without line ends would fill the memory
            raise csv.Error
        yield line
