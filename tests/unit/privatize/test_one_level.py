"""A cell has one level at most, whatever type holds it and however its letters are put together: two would make a row longer
than the bound that noise is measured by."""

from __future__ import annotations

import unicodedata
from datetime import date, datetime
from itertools import combinations

import ibis
import pyarrow as pa
import pytest
from pydantic import ValidationError

from saibot.privatize.card import FeatureFacts
from saibot.privatize.cells import is_level

ALIKE = ("\u00e9", "e\u0301", " \u00e9", "\u212b", "\u00c5", "A\u030a", "\ufb01", "fi", "\u1e9b\u0323", "s\u0323\u0307")
NUMBERS = ("1", "1.0", "01", "+1", "1e0", "-0", "0", "0.0", "1e-05", "0.00001", "true", "True", "false", "inf", "nan")
DAYS = ("1970-01-02", "1970-01-02 00:00:00", "1970-01-02T00:00:00", "19700102")
LEVELS = (*ALIKE, *NUMBERS, *DAYS)
CELLS = {
    "texts": pa.array(
        [*LEVELS, *(unicodedata.normalize("NFD", level) for level in LEVELS), *(f" {one} " for one in LEVELS)]
    ),
    "whole numbers": pa.array([0, 1, -1, 19700102]),
    "floats": pa.array([0.0, -0.0, 1.0, 1e-05, float("inf"), float("nan")]),
    "truths": pa.array([True, False]),
    "days": pa.array([date(1970, 1, 2)]),
    "times": pa.array([datetime(1970, 1, 2), datetime(1970, 1, 2, 12)]),
}


def accepted(levels: tuple[str, ...]) -> bool:
    try:
        FeatureFacts(levels=levels)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("kind", CELLS)
def test_of_any_two_levels_that_a_card_may_have_a_cell_is_one_at_most(kind: str) -> None:
    table = ibis.memtable(pa.table({"cell": CELLS[kind]}))
    pairs = [pair for pair in combinations(LEVELS, 2) if accepted(pair)]
    assert len(pairs) > 300
    hits = {
        f"{number}": is_level(table.cell, one, (one, other)).cast("int8")
        + is_level(table.cell, other, (one, other)).cast("int8")
        for number, (one, other) in enumerate(pairs)
    }
    most = ibis.duckdb.connect().to_pyarrow(table.select(**hits).aggregate(**{name: ibis._[name].max() for name in hits}))
    twice = [pairs[int(name)] for name in hits if most.column(name)[0].as_py() > 1]
    assert twice == []


@pytest.mark.parametrize("levels", [("\u00e9", "e\u0301"), ("a", " a"), ("\u212b", "\u00c5")])
def test_levels_that_read_alike_are_refused(levels: tuple[str, ...]) -> None:
    assert not accepted(levels)
