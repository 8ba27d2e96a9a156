"""The names of a table's columns, from the first line of a text file, as far as that line can be one of names.

Names become public with the card. A file without a heading has a row of somebody's cells in that place, so a first line with
a cell that no column is called like is refused. Nothing below the first line is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from saibot.errors import InvalidTable
from saibot.privatize.text_file import records

_TRUTHS = {"true", "false", "yes", "no"}
_MISSING = {"na", "n/a", "nan", "null", "none", "inf", "infinity"}
_MONTH = (
    "(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?)"
)
_NUMBER = re.compile(r"[+-]?(\d[\d.,' ]*|\.\d+)(e[+-]?\d+)?\s?%?|0x[0-9a-f]+", re.IGNORECASE)  # 7, 1e-6, 1,234.50
_TIME = re.compile(
    rf"""\d{{1,4}} [-/.] \d{{1,2}} [-/.] \d{{1,4}} ([t\s].*)?  # 2013-01-30, 30.1.2013, 2013-01-30T10:15Z
      | \d{{8}}t\d{{4,6}}z?
      | \d{{1,2}} : \d{{2}} (:\d{{2}}(\.\d+)?)? \s? ([ap]\.?m\.? | z | [+-]\d{{1,2}}(:?\d{{2}})?)?
      | \d{{1,2}}(st|nd|rd|th)? [-\s.]+ {_MONTH} ([-\s.,]+ \d{{2,4}} .*)?  # 30 January 2013
      | {_MONTH} [-\s.]+ \d{{1,2}}(st|nd|rd|th)? ([-\s.,]+ \d{{2,4}} .*)?  # Jan 30, 2013
      | {_MONTH} [-\s.,]+ \d{{4}}""",
    re.VERBOSE | re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"[^\s@]+@[^\s@]+\.[^\s@]+|https?://.*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.DOTALL
)


def read_names(path: Path, *, sure: bool = False) -> list[str]:
    """The names of a text file's columns. With `sure`, somebody vouches for the line: odd names are taken as they are.

    Columns without a name, and those that share one, cannot be named in a card: with `sure`, they are left out.
    """
    line = [cell.strip() for cell in next(records(path), [])]
    if not line:
        raise InvalidTable(f"the file {path} is empty.", hint="A table begins with the names of its columns.")
    if sure:
        plain = [_plain(cell) for cell in line]
        return [cell for cell, name in zip(line, plain, strict=True) if name and plain.count(name) == 1]
    reason = why_no_names(line)
    if reason is not None:
        raise InvalidTable(
            f"the first line of {path} does not look like the names of its columns: {reason}.",
            hint="Write a first line with the names of the columns; if they really are called that, add --header-is-names.",
        )
    return line


def why_no_names(cells: Sequence[str]) -> str | None:
    """What shows that a line holds no names, in words that quote nothing of it; None where nothing shows it."""
    seen: dict[str, int] = {}
    for number, cell in enumerate(cells, start=1):
        kind = _kind(cell)
        if kind is not None:
            return f"its {_ordinal(number)} cell is {kind}"
        earlier = seen.setdefault(_plain(cell), number)
        if earlier != number:
            return f"its {_ordinal(earlier)} and {_ordinal(number)} cell are the same"
    return None


def _kind(cell: str) -> str | None:
    text = cell.strip()
    if not text:
        return "empty"
    if text.lower() in _TRUTHS:
        return "a truth value"
    if text.lower() in _MISSING:
        return "a mark for a missing value"
    if _TIME.fullmatch(text):
        return "a date or a time"
    if _NUMBER.fullmatch(text):
        return "a number"
    if _ADDRESS.fullmatch(text):
        return "an address or an identifier"
    if not any(letter.isalpha() for letter in text):
        return "without a letter"
    return None


def _plain(cell: str) -> str:
    """Engines tell columns apart without regard to case."""
    return cell.strip().casefold()


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
