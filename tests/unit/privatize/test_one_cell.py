"""Cells that libraries and engines hold in several ways: what they mean, and what follows from it, is the same in all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from saibot.domains import KeyDomain
from saibot.domains.spelling import shortest
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, prepare
from saibot.privatize.aggregate import aggregate
from saibot.privatize.cells import individual_in, is_level, texts_of

from .conftest import BUDGET, REPLACE_ONE


def sums(table: Any, ledger: Ledger, dataset: dict[str, Any] | None = None, key: str | None = None) -> np.ndarray:
    facts = {"name": "t", "max_rows": 100} | (dataset or {})
    domain = {"k": {"domain": {"range": [1, 5]}}}
    card = Card.parse({"dataset": facts, "features": {"x": {"bounds": [0, 10]}}, "keys": domain})
    ready = prepare(table, ReleaseRequest(card, BUDGET, REPLACE_ONE, key=key), ledger)
    found = aggregate(ready.rows, ready.grid, order=2)
    return found.levels[0] if key else found.whole


@pytest.mark.parametrize("cell", [float("nan"), None])
def test_a_cell_that_is_no_number_in_a_parquet_file_is_missing_whatever_its_statistics_say(cell, tmp_path, ledger):
    """All numbers of the file lie within the bounds, and its statistics tell the engine so; a NaN is not among them."""
    table = pa.table({"x": pa.array([2.5, 2.5, cell], pa.float64())})
    parquet.write_table(table, tmp_path / "t.parquet")
    expected = sums(pa.table({"x": [2.5, 2.5, 5.0]}), ledger)
    assert np.array_equal(sums(tmp_path / "t.parquet", ledger), expected)


def test_a_whole_number_beyond_64_bits_in_a_polars_frame_is_a_large_number(ledger):
    usual, huge = pl.DataFrame({"x": [1, 2, 10]}), pl.DataFrame({"x": [1, 2, 2**70]}, strict=False)
    assert "128" in str(huge.schema["x"])
    assert np.array_equal(sums(huge, ledger), sums(usual, ledger))


def test_which_rows_are_kept_does_not_depend_on_how_a_frame_holds_missing_cells(tmp_path: Path):
    """Somebody's text turns a column of floats, whose missing cells are NaN, into one of objects, where they are None."""
    numbers = pd.DataFrame({"who": [1, 1, 2], "x": [5.0, 5.0, 5.0], "k": [5, None, 1]})
    objects = numbers.assign(k=pd.Series([5, None, "1"], dtype=object))
    kept = {"id": "who", "rows_per_individual": 1}
    for number in range(12):  # each ledger keeps other rows
        ledger = Ledger(tmp_path / str(number))
        assert np.array_equal(sums(numbers, ledger, kept, "k"), sums(objects, ledger, kept, "k"))


@pytest.mark.parametrize("spelled", ["NaN", "nan"])
def test_which_rows_are_kept_does_not_depend_on_whether_a_nan_is_a_number_or_a_text(spelled: str, tmp_path: Path):
    """Somebody's word in a column of floats makes a column of texts, in which everybody's NaN is spelled out."""
    numbers = pl.DataFrame({"who": [1, 1, 2], "x": [float("nan"), 5.0, 2.0], "k": [5, 1, 2]})
    texts = numbers.with_columns(x=pl.Series([spelled, "5.0", "2.0"]))
    kept = {"id": "who", "rows_per_individual": 1}
    for number in range(12):
        ledger = Ledger(tmp_path / str(number))
        assert np.array_equal(sums(numbers, ledger, kept, "k"), sums(texts, ledger, kept, "k"))


@pytest.mark.parametrize("whose", [[1.0, 1.0, 2.0], [float("nan"), float("nan"), 2.0]])
def test_whose_a_row_is_does_not_depend_on_whether_a_column_of_ids_holds_numbers_or_texts(
    whose: list[float], tmp_path: Path
):
    numbers = pl.DataFrame({"who": whose, "x": [1.0, 5.0, 2.0], "k": [5, 1, 2]})
    texts = numbers.with_columns(pl.col("who").cast(pl.String))
    kept = {"id": "who", "rows_per_individual": 1}
    for number in range(12):
        ledger = Ledger(tmp_path / str(number))
        assert np.array_equal(sums(numbers, ledger, kept, "k"), sums(texts, ledger, kept, "k"))


def test_an_individual_whose_id_is_written_in_two_ways_is_one(ledger):
    """A list of 1 and 1.0 is a column of numbers, until somebody's word makes it one of texts."""
    kept = {"id": "who", "rows_per_individual": 1}
    rows = {"x": [1.0, 5.0, 2.0], "k": [5, 1, 2]}
    words = pl.DataFrame(rows | {"who": [1, 1.0, "x"]}, strict=False)
    assert words["who"].to_list()[:2] == ["1", "1.0"]
    assert sums(words, ledger, kept, "k")[:, 0].sum() == 2


ODD_FLOATS = [0.0, -0.0, 1e16, -1e-5, 0.1, float("nan"), 1.0, 1e-7, 123456789.125, 2.0**53]


@example(ODD_FLOATS)
@given(st.lists(st.floats(-(2.0**53), 2.0**53) | st.just(float("nan")) | st.integers(-50, 50).map(float)))
def test_a_float_is_the_same_key_level_and_individual_where_somebodys_word_makes_a_text_of_it(floats: list[float]):
    """A word more in the column, and polars spells all the others."""
    numbers, words = (
        pl.DataFrame([(cell,) for cell in cells], schema=["a"], orient="row", strict=False, infer_schema_length=None)
        for cells in ([1.0, *floats], [1.0, *floats, "word"])
    )
    assert (numbers["a"].dtype, words["a"].dtype) == (pl.Float64, pl.String)
    known = sorted({text for text in texts_of(numbers["a"].to_arrow()) if text})
    domain = KeyDomain.of("d", known)
    found = []
    for frame in (numbers, words):
        table = ibis.memtable(frame.to_arrow())
        level = {f"l{i}": is_level(table.a, one, known[:5]) for i, one in enumerate(known[:5])}
        read = table.select(whose=individual_in(table.a), **level).to_pyarrow().slice(0, len(numbers)).to_pylist()
        cells = texts_of(frame["a"].to_arrow())[: len(numbers)]
        keys = [shortest(text) if text != "NaN" else "" for text in cells]
        found.append((read, domain.places(cells).tolist(), keys))
    assert found[0] == found[1]


def test_ids_that_are_written_otherwise_are_other_individuals(ledger):
    """Only what one float is written as in two ways is one: neither 104.1 and 104.10, nor digits beyond all floats."""
    ids = ["104.1", "104.10", "007", "7", "12345678901234567890", "12345678901234567891", "9.5e999", "8.5e999"]
    table = pl.DataFrame({"who": ids, "x": [1.0] * len(ids), "k": [1] * len(ids)})
    assert sums(table, ledger, {"id": "who", "rows_per_individual": 1}, "k")[:, 0].sum() == len(ids)
