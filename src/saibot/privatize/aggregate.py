"""Exact statistics of a table: integer sums of monomials per key, computed by the engine in one query.

Sums of integers do not depend on the order of rows or the number of threads, so the same rows give the same bits on every
engine. The result is as sensitive as the rows themselves and never leaves `privatize`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add, mul

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saibot.errors import InvalidInput, InvalidTable, SaibotError
from saibot.privatize.cells import comparable_text, day_in, individual_in, number_in, texts_of
from saibot.privatize.engines import DEFAULT_ENGINE
from saibot.privatize.grid import Grid, component_value, grid_values, indicator_values, norm_squared, to_steps
from saibot.privatize.logarithms import log2_in
from saibot.privatize.read import Source
from saibot.privatize.schema import Column, KeyPartColumn, ReleaseKey, card_features
from saibot.semiring import Basis
from saibot.sketch.header import Feature

_LONGEST = "longest"


@dataclass(frozen=True)
class ExactStatistics:
    """Integer sums on the grid: one array (keys + catch-all, monomials) per key level, and the whole table's."""

    basis: Basis
    grid: Grid
    levels: tuple[np.ndarray, ...]
    whole: np.ndarray
    rows: int
    no_numbers: dict[str, tuple[int, int]] = field(default_factory=dict)  # text column: cells that are none, cells


@dataclass(frozen=True)
class Rows:
    """What to aggregate: columns on a grid, a key, and how many rows an individual may keep."""

    source: Source
    columns: list[Column]
    components: tuple[Feature, ...]  # where columns were reduced to them
    key: ReleaseKey | None
    id_column: str | None
    rows_per_individual: int
    secret: str = field(default="", repr=False)  # of the account: which rows an individual with too many keeps

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.components or self.columns)

    @property
    def key_parts(self) -> tuple[KeyPartColumn, ...]:
        return self.key.parts if self.key else ()

    @property
    def card_features(self) -> int:
        """Features of the card behind these columns: no more columns than that are other than 0 in one row."""
        return len(self.components) or card_features(self.columns)


def count_rows(rows: Rows) -> int:
    """The number of rows that are kept; public under replace-one with one row per individual, and sensitive otherwise."""
    counted = rows.source.fetch(kept_rows(rows).aggregate(n=ibis._.count()))
    return int(counted.column("n")[0].as_py())


def grid_rows(rows: Rows, grid: Grid) -> ibis.Table:
    """The prepared table: features f0, f1, ... on the grid and key parts k0, k1, ... as they are."""
    table = kept_rows(rows)
    # In a step of its own: an engine reads a text as a number wherever that is written.
    numeric = [column for column in rows.columns if column.facts.levels is None]
    named_columns = dict.fromkeys(column.column for column in numeric)
    plain = {name: fresh_name(f"number{i}", table) for i, name in enumerate(named_columns)}
    table = table.mutate(**{at: number_in(table[name]) for name, at in plain.items()})
    logs = dict.fromkeys(column.column for column in numeric if column.facts.log)
    logarithms = {name: fresh_name(f"log{i}", table) for i, name in enumerate(logs)}
    table = table.mutate(**{at: log2_in(table[plain[name]]) for name, at in logarithms.items()}) if logs else table
    numbers = {column.name: (logarithms if column.facts.log else plain)[column.column] for column in numeric}
    named = {}
    if rows.components:
        places = {fresh_name(f"component_value{i}", table): one for i, one in enumerate(rows.components)}
        table = table.mutate(**{at: component_value(table, numbers, rows.columns, one) for at, one in places.items()})
        named = {f"f{i}": grid_values(table[at], one, grid) for i, (at, one) in enumerate(places.items())}
    else:
        for number, column in enumerate(rows.columns):
            assert column.feature is not None
            named[f"f{number}"] = (
                indicator_values(table[column.column], column.feature, column.facts.levels or (), grid)
                if column.feature.kind == "indicator"
                else grid_values(table[numbers[column.name]], column.feature, grid)
            )
    names = list(named)
    for number, text in enumerate(text_columns(rows)):
        named[f"t{number}"] = (table[text].strip() != "").fill_null(False).cast("int64")
        named[f"n{number}"] = table[plain[text]].notnull().cast("int64")
    for number, part in enumerate(rows.key_parts):
        cell = table[part.column]
        named[f"k{number}"] = day_in(cell, rows.source.engine) if part.dates else cell
        spelling = rows.source.engine.spelling(cell) if cell.type().is_string() else None
        if spelling is not None:
            named[f"w{number}"] = spelling
    return to_steps(table.select(**named), names, grid, card_features=rows.card_features)


def aggregate(rows: Rows, grid: Grid, *, order: int) -> ExactStatistics:
    """All monomials up to `order`, per key of the domain and over the whole table."""
    basis = Basis(rows.features, order)
    table = grid_rows(rows, grid)
    positions = {name: f"f{i}" for i, name in enumerate(rows.features)}
    sums = {}
    for number, monomial in enumerate(basis.monomials):
        if monomial.order == 0:
            sums["m0"] = table.count()
        else:
            product = reduce(mul, (table[positions[name]] for name in monomial.features))
            sums[f"m{number}"] = product.sum().fill_null(0).cast("int64")
    texts = text_columns(rows)
    sums |= {f"{kind}{i}": table[f"{kind}{i}"].sum().fill_null(0) for i in range(len(texts)) for kind in "tn"}
    sums[_LONGEST] = norm_squared(table, list(positions.values())).max().fill_null(0)
    parts = [f"k{i}" for i in range(len(rows.key.parts))] if rows.key else []
    written = [name for name in table.columns if name.startswith("w")]
    fetched = rows.source.fetch(table.group_by(parts + written).aggregate(**sums) if parts else table.aggregate(**sums))
    # The bound that all sensitivities rest on, in integers: whatever floats did on the way here, it holds or nothing leaves.
    if fetched.num_rows and (pc.max(fetched.column(_LONGEST)).as_py() or 0) > grid.norm_squared:
        raise SaibotError(
            "internal: a row left the norm clip longer than the bound; nothing was released. Please report this."
        )
    cells = np.column_stack([fetched.column(f"m{i}").to_numpy() for i in range(basis.size)]).astype(np.int64)
    check_room(int(cells[:, 0].sum()), grid, order)
    levels = fold_keys(rows.key, fetched, cells) if rows.key else ()
    whole = cells.sum(axis=0, dtype=np.int64) if len(cells) else np.zeros(basis.size, np.int64)
    no_numbers = {}
    for i, column in enumerate(texts):
        filled, read = (int(pc.sum(fetched.column(f"{kind}{i}")).as_py() or 0) for kind in "tn")
        no_numbers[column] = (filled - read, filled)
    return ExactStatistics(basis, grid, levels, whole, int(whole[0]), no_numbers)


def text_columns(rows: Rows) -> list[str]:
    """Columns of text that numbers are read from."""
    schema = rows.source.table.schema()
    numeric = [column.column for column in rows.columns if column.facts.levels is None]
    return [name for name in dict.fromkeys(numeric) if schema[name].is_string()]


def check_room(rows: int, grid: Grid, order: int) -> None:
    """Sums that wrapped around would be no sums. The grid leaves room for a thousand times as many rows as were promised."""
    if rows * grid.one**order > 1 << 62:
        raise InvalidTable("the table has far more rows than its card allows.", hint="Raise max_rows in the card.")


def fold_keys(key: ReleaseKey, fetched: pa.Table, cells: np.ndarray) -> tuple[np.ndarray, ...]:
    """Spread the groups that occurred over the whole public domain; keys outside it share the catch-all."""
    index = np.zeros(len(cells), np.int64)
    outside = np.zeros(len(cells), bool)
    for number, part in enumerate(key.parts):
        position = key_positions(fetched.column(f"k{number}"), part)
        outside |= position < 0
        index = index * len(part.domain) + np.maximum(position, 0)
    finest = np.zeros((key.level_sizes[0], cells.shape[1]), np.int64)
    np.add.at(finest, np.where(outside, len(finest) - 1, index), cells)
    levels = [finest]
    for level, size in enumerate(key.level_sizes[1:], start=1):
        coarse = np.zeros((size, cells.shape[1]), np.int64)
        np.add.at(coarse, key.parts[0].domain.parent_index(level), finest)
        levels.append(coarse)
    return tuple(levels)


def key_positions(column: pa.ChunkedArray, part: KeyPartColumn) -> np.ndarray:
    """For every cell its place in the domain, -1 outside it. Keys are brought to normal form once per distinct value."""
    encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    places = part.domain.places(texts_of(encoded.dictionary))
    return places[encoded.indices.to_numpy()] if len(places) else np.zeros(0, np.int64)


def kept_rows(rows: Rows) -> ibis.Table:
    """At most r rows of each individual, chosen by a rule that looks at nobody else's; rows without an id are left out.

    They are ordered by a keyed hash of what their cells mean: by a value itself, everybody's smallest would be kept, and by
    the text of a column's type, one person's 5.5 would spell everybody's 5 anew and keep other rows of theirs.
    """
    table = rows.source.table
    if rows.id_column is None:
        return table
    if not rows.source.engine.numbers_rows:
        raise InvalidInput(
            f"the {rows.source.engine.name.capitalize()} engine cannot keep to so many rows per individual.",
            hint=f"Use --backend {DEFAULT_ENGINE}.",
        )
    individual = individual_in(table[rows.id_column])
    names = dict.fromkeys([column.column for column in rows.columns] + [part.column for part in rows.key_parts])
    meaning = reduce(add, [ibis.literal(rows.secret), *(comparable_text(table[name]) + "\x1f" for name in names)])
    ties = [table[name] for name in names]  # rows that mean the same here may still differ in how they are written
    order = [meaning.hexdigest("sha256"), *ties]
    number = ibis.row_number().over(ibis.window(group_by=individual, order_by=order))
    name = fresh_name("row_of_individual", table)
    numbered = table.filter(individual.notnull()).mutate(**{name: number})
    return numbered.filter(numbered[name] < rows.rows_per_individual)


def fresh_name(name: str, table: ibis.Table) -> str:
    """A name for a column of our own that does not cover one of the table's."""
    while name in table.columns:
        name += "_"
    return name
