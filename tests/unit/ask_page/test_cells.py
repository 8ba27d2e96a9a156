"""What a cell means to the page: a number, a key, a level, somebody's id. The same as to the engine."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import ibis
import pyarrow as pa
import pytest

from saibot.privatize.cells import comparable_text, day_in, individual_in, is_level, number_in, texts_of
from saibot.privatize.engines import open_engine
from saibot.privatize.grid import Grid, check_bounds, grid_values
from saibot.privatize.read import open_table
from saibot.sketch import Feature
from tests.support.page_script import run_script

WORDS = """
    1 -1 +1 1. .5 -.5e3 1e5 1E+05 1e400 -1e400 1e-400 4.9e-324 2.5e-324 00012 0x10 inf -Inf +INFINITY infinit nan NaN true
    TRUE yes 1_000 1,5 ٣ 1e e5 . + --1 1.2.3 9007199254740993 -0 -0.0 0.00001 -0.00001 0.0000100 1.0 1.00 +1.0 104.1 104.10
    12345678901234567890.0 1e-05"""
NUMBERS = (*WORDS.split(), "", "  ", " False ", "1 000", "\t7\n", "\v7\f", "\u00a07", "\x1c7", "1" * 400)
TIMES = (
    *("2013-01-01", "2013-01-01T10:00:00", "2013-01-01 10:00:00.500", "2013-01-01T00:00:00.000", "2013-01-01 00:00:00"),
    *(" 2013-01-01 ", "2013-01-01x", "2013-01-01 ", "😀😀😀😀😀😀😀😀😀😀 x", "Straße", "e\u0301", "\u00e9", "NAN", " nan"),
    *("10:15:00.0", "a\x1fb", "é T"),
)
TEXTS = [*NUMBERS, *TIMES]


def of_engine(*expressions) -> list[list]:
    """What the engine makes of the texts of a file: an empty cell is missing there."""
    cells = pa.array([text or None for text in TEXTS], pa.string())
    source = open_table(pa.table({"place": range(len(TEXTS)), "cell": cells}))
    table = source.table
    made = {f"e{i}": expression(table.cell) for i, expression in enumerate(expressions)}
    found = source.fetch(table.select("place", **made)).sort_by("place")
    return [found.column(name).to_pylist() for name in made]


def test_numbers_are_the_nearest_floats_of_the_same_texts():
    (wanted,) = of_engine(number_in)
    # JSON has no infinite numbers, nor a zero with a sign.
    body = """
        const { numberOf } = await page("cells");
        return data.map((text) => { const x = numberOf(text); return x === null ? null : String(x); });"""
    found = [None if text is None else float(text.replace("Infinity", "inf")) for text in run_script(body, TEXTS)]
    assert found == wanted
    assert sum(number is not None for number in wanted) > 25


def test_individuals_and_what_orders_their_rows_are_the_same():
    whose, order = of_engine(individual_in, comparable_text)
    body = (
        'const c = await page("cells"); return [data.map((t) => c.individualOf(t)), data.map((t) => c.comparableText(t))];'
    )
    assert run_script(body, TEXTS) == [whose, order]


@pytest.mark.parametrize("by_day", [False, True])
def test_keys_have_the_same_texts(by_day: bool):
    engine = open_engine()
    (cells,) = of_engine(lambda cell: day_in(cell, engine) if by_day else cell)
    body = 'const { keyOf } = await page("cells"); return data.texts.map((t) => keyOf(t, data.byDay));'
    assert run_script(body, {"texts": TEXTS, "byDay": by_day}) == texts_of(pa.array(cells, pa.string()))


@pytest.mark.parametrize(
    "levels",
    [
        ["1", "2"],
        ["1", "1.0"],
        ["7.0", "07"],
        ["é", "Straße"],
        ["0", "x"],
        ["2013-01-01", "1e-05"],
        ["true", "false"],
        ["-0"],
    ],
)
def test_levels_are_hit_by_the_same_cells(levels: list[str]):
    hits = of_engine(*(lambda cell, level=level: is_level(cell, level, levels) for level in levels))
    body = """
        const { stepsOfFeature } = await page("grid"), row = new Float64Array(data.levels.length);
        const steps = stepsOfFeature({ levels: data.levels }, 3);
        return data.texts.map((t) => { steps(t, row, 0); return Array.from(row); });"""
    found = run_script(body, {"texts": TEXTS, "levels": levels})
    assert found == [[8 * hit for hit in row] for row in zip(*hits, strict=True)]


def of_bounds(lower: float, upper: float, rng: random.Random) -> dict:
    """A feature, and cells around its bounds and where rounding goes either way."""
    bits, missing, wide = rng.choice([15, 9, 3]), rng.uniform(lower, upper), (upper - lower) * 0.2
    half = (upper - lower) / 2**bits / 2
    numbers = [
        lower,
        upper,
        missing,
        math.nextafter(lower, -math.inf),
        *(rng.uniform(lower - wide, upper + wide) for _ in range(200)),
    ]
    numbers += [lower + k * half for k in rng.sample(range(2 ** (bits + 1)), min(200, 2**bits))]
    return {"facts": [lower, upper, missing], "bits": bits, "cells": [*map(repr, numbers), "", "x", "inf"]}


def test_cells_land_on_the_same_step_of_the_grid():
    rng = random.Random(3)
    pairs = [
        (0, 120),
        (-30, 120),
        (0.1, 0.7),
        (1e6, 1e6 + 1),
        (-1e-3, 1e-3),
        (1234567890123.125, 2e12),
        (0, 1e19),
        (1 / 3, 2 / 3),
    ]
    pairs += [tuple(sorted(rng.uniform(-1e3, 1e3) for _ in range(2))) for _ in range(8)]
    asked = [of_bounds(float(lower), float(upper), rng) for lower, upper in pairs]
    body = """
        const { stepsOfFeature } = await page("grid"), row = new Float64Array(1);
        return data.map(({ facts: [lower, upper, missing], bits, cells }) => {
          const steps = stepsOfFeature({ lower, upper, missing }, bits);
          return cells.map((cell) => { steps(cell, row, 0); return row[0]; });
        });"""
    for one, found in zip(asked, run_script(body, asked), strict=True):
        lower, upper, missing = one["facts"]
        feature, grid = (
            Feature(name="x", kind="numeric", lower=lower, upper=upper, missing=missing),
            Grid(one["bits"], Decimal(1)),
        )
        source = open_table(pa.table({"place": range(len(one["cells"])), "cell": pa.array(one["cells"])}))
        steps = (grid_values(number_in(source.table.cell), feature, grid) + ibis.literal(0.5, "float64")).floor()
        wanted = source.fetch(source.table.select("place", steps=steps.cast("int64"))).sort_by("place").column("steps")
        assert found == wanted.to_pylist(), (lower, upper)


def test_bounds_that_do_not_land_on_the_box_are_refused():
    body = """
        const { checkBounds } = await page("grid");
        return data.map(([lower, upper]) => {
          try {
            checkBounds({ kind: "numeric", name: "x", lower, upper }, 15);
            return "fine";
          } catch (problem) { return problem.message; }
        });"""
    found = run_script(body, [[0, 1], [1e15, 1e15 + 1], [123456789012.0, 123456789012.5]])
    assert found[0] == "fine"
    assert "too close together" in found[1]
    for said, (lower, upper) in zip(found, [(0, 1), (1e15, 1e15 + 1), (123456789012.0, 123456789012.5)], strict=True):
        try:
            check_bounds(Feature(name="x", kind="numeric", lower=lower, upper=upper), Grid(15, Decimal(1)))
        except Exception:
            assert said != "fine"
        else:
            assert said == "fine"
