"""Neighbouring tables that once moved what they may not: one individual's cell changed how all others were held."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pytest

from saibot.errors import BudgetExceeded
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Prepared, ReleaseRequest, contribute, prepare, privatize
from saibot.privatize.aggregate import ExactStatistics, aggregate
from saibot.privatize.noise import NoiseSource
from saibot.privatize.split import split_frame, split_table

from .conftest import BUDGET, REPLACE_ONE

OTHERS = 40
TEN = {"x": {"bounds": [0, 10]}}


def card(features: dict[str, Any], keys: dict[str, Any] | None = None, **dataset: Any) -> dict[str, Any]:
    return {"dataset": {"name": "t", "max_rows": 500} | dataset, "features": features, "keys": keys or {}}


def values(*keys: str) -> dict[str, Any]:
    return {"k": {"domain": {"values": list(keys), "id": "keys"}}}


def moved(one: ExactStatistics, other: ExactStatistics) -> float:
    """By how many rows' worth two tables differ, whole table or any key, in counts and sums."""
    pairs = zip([one.whole, *one.levels], [other.whole, *other.levels], strict=True)
    steps = [1] * one.basis.size
    for number, monomial in enumerate(one.basis.monomials):
        steps[number] = one.grid.one**monomial.order
    return max(float((np.abs(a - b) / np.array(steps)).max()) for a, b in pairs)


# ------------------------------------------------------------------------------------------------ texts


@pytest.mark.parametrize(
    ("features", "cell"),
    [
        (TEN, "\u00a09"),  # a blank that engines do not take off
        ({"x": {"levels": ["public", "other"]}}, "\u00a0public"),
        ({"x": {"levels": ["\u00c5", "other"]}}, "\u212b"),  # the sign for Angstrom, which NFC makes a letter
        ({"x": {"levels": ["\u1ec7", "other"]}}, "\u1eb9\u0302"),  # neither NFC nor NFD
    ],
)
@pytest.mark.parametrize("held", [pd.Series, pd.Categorical])
def test_a_number_among_texts_changes_no_text(exact, features, cell, held: Callable[[list[Any]], Any]):
    """A frame holds texts as texts, and as objects where somebody's cell is a number."""
    texts = pd.DataFrame({"x": held([cell] * OTHERS + ["1"])})
    mixed = pd.DataFrame({"x": held([cell] * OTHERS + [1])})
    assert moved(exact(texts, card(features)), exact(mixed, card(features))) <= 2


# ------------------------------------------------------------------------------------------------ ids

LONG_IDS = [2**60 + number for number in range(OTHERS)]  # all of them the same float


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pd.DataFrame({"who": [*LONG_IDS, 7], "x": 9.0}), pd.DataFrame({"who": [*LONG_IDS, "new"], "x": 9.0})),
        (
            pd.DataFrame({"who": pd.Categorical([*LONG_IDS, 7]), "x": 9.0}),
            pd.DataFrame({"who": pd.Categorical([*LONG_IDS, "new"]), "x": 9.0}),
        ),
        (
            pl.DataFrame({"who": [*LONG_IDS, 7], "x": [9.0] * (OTHERS + 1)}),
            pl.DataFrame({"who": [*LONG_IDS, 2**70], "x": [9.0] * (OTHERS + 1)}, strict=False),
        ),
        (
            pd.DataFrame({"who": [*(f"{b}p{i}" for i in range(OTHERS) for b in ("", " ")), "q"], "x": 9.0}),
            pd.DataFrame({"who": [*(f"{b}p{i}" for i in range(OTHERS) for b in ("", " ")), 7], "x": 9.0}),
        ),
    ],
    ids=["objects", "categories", "beyond 64 bits", "blanks"],
)
def test_somebodys_odd_id_makes_no_two_others_one(exact, one, other):
    facts = card(TEN, id="who", rows_per_individual=1)
    assert moved(exact(one, facts), exact(other, facts)) <= 2
    assert exact(one, facts).rows == len(one)


def test_somebodys_odd_id_ties_no_two_others_together_in_a_split(ledger):
    frame = pd.DataFrame({"who": [*(2**60 + number for number in range(200)), "new"], "x": 9.0})
    parts = split_frame(frame, ledger, test=Decimal("0.5"), id_column="who")
    assert 40 < len(parts.test) < 160  # all of them together would be in one part


# ------------------------------------------------------------------------------------------------ which rows are kept

DAYS = {"k": {"domain": {"dates": ["2024-01-01", "2024-01-03"]}}}
FIRST, SECOND = pd.Timestamp("2024-01-01 10:00:00.5"), pd.Timestamp("2024-01-02 11:00")


@pytest.mark.parametrize(
    ("keys", "cells", "usual", "odd"),
    [
        (None, (-0.0, 9.0), 1.0, "?"),
        (DAYS, (FIRST, SECOND), pd.Timestamp("2024-01-02"), "?"),
        (DAYS, (FIRST.tz_localize("UTC"), SECOND.tz_localize("UTC")), SECOND.tz_localize("UTC"), SECOND.tz_localize("EST")),
    ],
    ids=["zero with a sign", "times", "times in two zones"],
)
def test_which_rows_are_kept_does_not_depend_on_how_anothers_cell_is_held(keys, cells, usual, odd, tmp_path: Path):
    column = "k" if keys else "x"
    who = [number for number in range(OTHERS) for _ in cells] + [OTHERS]
    tables = [
        pd.DataFrame({"x": 9.0, "who": who}).assign(**{column: pd.Series([*(cells * OTHERS), last], dtype=kind)})
        for last, kind in ((usual, None), (odd, object))
    ]
    assert tables[0][column].dtype != object
    for number in range(4):  # each ledger keeps other rows
        ledger = Ledger(tmp_path / str(number))
        facts = Card.parse(card(TEN, keys, id="who", rows_per_individual=1))
        request = ReleaseRequest(facts, BUDGET, REPLACE_ONE, key="k" if keys else None, allocation="equal")
        ready: list[Prepared] = [prepare(table, request, ledger) for table in tables]
        assert moved(*(aggregate(one.rows, one.grid, order=2) for one in ready)) <= 2


# ------------------------------------------------------------------------------------------------ spellings

DAY, TIME = pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-01 10:00")


@pytest.mark.parametrize(
    ("keys", "cell", "usual", "odd"),
    [
        (values("2024-01-01", "b"), DAY, DAY, pd.Timestamp("2024-01-01 00:00:00.000001")),
        (values("2024-01-01 10:00:00", "b"), TIME, TIME, TIME + pd.Timedelta("1us")),
        (values("2024-01-01T10:00:00", "b"), TIME, TIME, TIME + pd.Timedelta("1ms")),
        (values("1234567890123456789", "b"), 1234567890123456789, 5, None),
        (values(str(10**16), "b"), 10**16, 5, None),
    ],
)
def test_a_key_is_found_however_a_csv_file_of_pandas_writes_its_column(exact, tmp_path, keys, cell, usual, odd):
    found = []
    for last in (usual, odd):
        pd.DataFrame({"x": 9.0, "k": [cell] * OTHERS + [last]}).to_csv(tmp_path / "t.csv", index=False)
        found.append(exact(tmp_path / "t.csv", card(TEN, keys), key="k"))
    assert moved(*found) <= 2 and found[0].levels[0][0, 0] >= OTHERS


@pytest.mark.parametrize(
    ("level", "cell"),
    [
        ("20240101", DAY),  # a day to Python, and no spelling of one
        ("2024-01-01", DAY + pd.Timedelta("1ns")),
    ],
)
def test_a_level_is_hit_by_the_same_times_in_a_column_of_times_and_of_objects(exact, level, cell):
    times = pd.DataFrame({"x": [cell] * (OTHERS + 1)})
    objects = pd.DataFrame({"x": pd.Series([cell] * OTHERS + ["?"], dtype=object)})
    facts = card({"x": {"levels": [level]}})
    assert moved(exact(times, facts), exact(objects, facts)) <= 2


# ------------------------------------------------------------------------------------------------ what leaves


@pytest.mark.parametrize("key", ["a", "elsewhere"])
def test_a_report_is_made_whatever_key_the_row_has(tmp_path: Path, key: str, seeded: Callable[[int], NoiseSource]):
    """One that is not sent would tell that the key is none of the domain."""
    facts = Card.parse(card(TEN, values("a", "b")))
    request = ReleaseRequest(facts, BUDGET, REPLACE_ONE, key="k", allocation="equal")
    made = contribute({"k": key, "x": 9}, request, Ledger(tmp_path), noise=seeded(1))
    assert made.sketch.header.model == "local"


def test_parts_divided_by_individual_are_no_parts_of_rows(ledger, tmp_path: Path, seeded: Callable[[int], NoiseSource]):
    """Replaced by a row with another's id, a row leaves one part and enters the other: both releases are about it."""
    pd.DataFrame({"who": [f"p{number // 2}" for number in range(60)], "x": 9.0}).to_csv(tmp_path / "t.csv", index=False)
    parts = split_table(tmp_path / "t.csv", ledger, test=Decimal("0.5"), id_column="who")
    facts = Card.parse(card(TEN) | {"budget": {"cap": {"epsilon": "1", "delta": "1e-6"}}})

    def release(path: Path, part: Any) -> None:
        request = ReleaseRequest(facts.for_request(part), BUDGET, REPLACE_ONE, part=part, allocation="equal")
        privatize(path, request, ledger, noise=seeded(1))

    release(parts.train, "train")
    with pytest.raises(BudgetExceeded):
        release(parts.test, "test")


@pytest.mark.parametrize("domain", [["abc", "ABC"], ["abc"], ["ABC", "xyz"]])
def test_a_database_column_that_compares_without_case_does_not_respell_other_rows(tmp_path: Path, domain: list[str]) -> None:
    def counts(first: str) -> np.ndarray:
        database = ibis.duckdb.connect()
        database.raw_sql("CREATE TABLE t (k VARCHAR COLLATE NOCASE, x DOUBLE)")
        database.raw_sql(f"INSERT INTO t VALUES ('{first}', 1)")
        database.raw_sql("INSERT INTO t SELECT 'abc', 1 FROM range(200)")
        card = {"dataset": {"name": "t"}, "features": {"x": {"bounds": [0, 1]}}}
        described = Card.parse(card | {"keys": {"k": {"domain": {"values": domain, "id": "d"}}}})
        request = ReleaseRequest(described, BUDGET, REPLACE_ONE, key="k", allocation="equal")
        ready = prepare(database.table("t"), request, Ledger(tmp_path / "home"))
        return aggregate(ready.rows, ready.grid, order=1).levels[0][:, 0]

    assert np.abs(counts("abc") - counts("ABC")).max() <= 1


def test_a_table_of_the_polars_engine_is_read_with_text_keys(tmp_path: Path) -> None:
    table = ibis.polars.connect().create_table("t", pl.DataFrame({"k": ["a", "b", "b"], "x": [1.0, 1.0, 0.0]}))
    card = {"dataset": {"name": "t"}, "features": {"x": {"bounds": [0, 1]}}}
    described = Card.parse(card | {"keys": {"k": {"domain": {"values": ["a", "b"], "id": "d"}}}})
    ready = prepare(table, ReleaseRequest(described, BUDGET, REPLACE_ONE, key="k"), Ledger(tmp_path / "home"))
    assert aggregate(ready.rows, ready.grid, order=1).levels[0][:, 0].tolist() == [1, 2, 0]
