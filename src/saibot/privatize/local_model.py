"""The local model: individuals who do not trust whoever collects privatise their own row, with the same mechanisms.

A single row is a table of one row, and any two rows are neighbours, so a plan for replace-one protects everything about it,
its key included. A report is the sketch of such a table; `saibot.sketch.collect` adds reports up, and needs no row for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from saibot.errors import InvalidTable
from saibot.privacy.ledger import Ledger
from saibot.privatize.card import Card
from saibot.privatize.noise import NoiseSource
from saibot.privatize.privatize import Released, privatize
from saibot.privatize.release_request import Progress, ReleaseRequest
from saibot.privatize.text_file import is_text_file, records

Cell = str | int | float | bool | None
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TRUTHS = {"true": 1.0, "false": 0.0}


def contribute(
    row: Mapping[str, Cell],
    request: ReleaseRequest,
    ledger: Ledger,
    *,
    noise: NoiseSource | None = None,
    progress: Progress = lambda stage, part: None,
) -> Released:
    """One individual's report of their own row, charged to their own ledger; the same request again costs nothing.

    `row` has a cell for every column that the request reads. What else it holds of the card's columns only serves to
    recognise the row; other columns are not looked at.
    """
    # Nobody is asked about doubts: that a row is of no use to the collection would show in a report that is not sent.
    own = replace(request, model="local", yes=True)
    return privatize(_table(row, own), own, ledger, noise=noise, progress=progress)


def read_row(path: Path) -> dict[str, Cell]:
    """Somebody's own row: a CSV or TSV file of names and one row below them, or a JSON object."""
    if is_text_file(path):
        return _from_text(path)
    if path.suffix.lower() != ".json":
        raise InvalidTable(f"the ending of {path.name} is not known.", hint="A row is a CSV, TSV or JSON file.")
    if not path.is_file():
        raise InvalidTable(f"there is no row {path}.")
    try:
        row = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError, RecursionError):
        raise InvalidTable(f"the file {path} is no JSON.", hint='Write {"COLUMN": CELL, ...} into it.') from None
    if not isinstance(row, dict) or not all(isinstance(cell, Cell) for cell in row.values()):
        raise InvalidTable(
            f"the file {path} does not hold a single row.",
            hint='Write {"COLUMN": CELL, ...} into it; a cell is a text, a number, true, false or null.',
        )
    return row


def card_columns(card: Card) -> list[str]:
    """Every column that the card names for a feature or a key."""
    named = [facts.column or name for name, facts in card.features.items()]
    named += [facts.column or name for name, facts in card.keys.items() if facts.parts is None]
    return list(dict.fromkeys(named))


def _from_text(path: Path) -> dict[str, Cell]:
    lines = records(path)
    names, cells, more = next(lines, None), next(lines, None), next(lines, None)
    if names is None or cells is None:
        raise InvalidTable(f"the file {path} holds no row.", hint="It has the names of the columns, and one row below them.")
    if more is not None:
        raise InvalidTable(
            f"the file {path} holds more than one row.",
            hint="Everybody contributes their own row alone; `saibot privatize` is for whoever is trusted with a table.",
        )
    if len(cells) != len(names) or len(set(names)) < len(names):
        raise InvalidTable(
            f"the row in {path} does not fit the names above it.", hint="Every column has a name of its own and one cell."
        )
    return dict(zip(names, cells, strict=True))


def _table(row: Mapping[str, Cell], request: ReleaseRequest) -> pa.Table:
    """The row as a table, each cell of the type that the card says its column has."""
    card = request.card
    texts = set(_key_columns(card, request.key))
    numbers: set[str] = set()
    for name in request.features or card.features:
        if facts := card.features.get(name):  # an unknown one is refused with the rest of the request
            (numbers if facts.levels is None else texts).add(facts.column or name)
    wanted = [column for column in card_columns(card) if column in texts | numbers]
    for column in wanted:
        if column not in row:
            raise InvalidTable(
                f"the row has no cell for column {column!r}.",
                hint=f"It needs one for each of {', '.join(wanted)}; an empty one where the value is missing.",
            )
    cells = {
        column: pa.array([_number(row[column], column)], pa.float64())
        if column in numbers - texts
        else pa.array([_text(row[column], column)], pa.string())
        for column in card_columns(card)
        if column in row
    }
    return pa.table(cells)


def _key_columns(card: Card, name: str | None) -> Iterator[str]:
    if name is None or name not in card.keys:
        return
    for part in card.keys[name].parts or (name,):
        yield card.keys[part].column or part


def _number(cell: Cell, column: str) -> float | None:
    match cell:
        case None | "":
            return None
        case str():
            text = cell.strip().lower()
            if _NUMBER.fullmatch(text):
                return float(text)
            if text in _TRUTHS:
                return _TRUTHS[text]
        case _:
            try:
                return float(cell)
            except OverflowError:
                pass
    raise InvalidTable(
        f"the cell of column {column!r} is no number.", hint=f"Write a number, or nothing ({column}=) where it is missing."
    )


def _text(cell: Cell, column: str) -> str | None:
    """A key or a level as it would stand in a text file."""
    if isinstance(cell, str) and any(
        "\ud800" <= letter <= "\udfff" for letter in cell
    ):  # half a letter, which no file holds
        raise InvalidTable(f"the cell of column {column!r} is no text.", hint="Write it in UTF-8.")
    match cell:
        case None | "":
            return None
        case bool():
            return "true" if cell else "false"
        case float() if cell.is_integer():
            return str(int(cell))
        case _:
            return str(cell)
