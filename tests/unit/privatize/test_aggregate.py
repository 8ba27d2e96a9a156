"""Exact statistics: the integers of a slow reference, whatever the engine, the threads and the order of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from saibot.domains import normal_key
from saibot.errors import InvalidInput, InvalidTable
from saibot.privacy import Neighbours
from saibot.privatize import Prepared
from saibot.privatize.aggregate import ExactStatistics, aggregate, count_rows
from saibot.privatize.cells import text_of

Exact = Callable[..., ExactStatistics]
BOUNDS = {"x": (0.0, 10.0), "y": (-1.0, 1.0), "z": (100.0, 300.0)}
CARD: dict[str, Any] = {
    "dataset": {"name": "t"},
    "features": {name: {"bounds": list(bounds)} for name, bounds in BOUNDS.items()} | {"o": {"levels": ["E", "J"]}},
    "keys": {
        "k": {"domain": {"values": ["a", "b", "c", "d"], "id": "k"}},
        "g": {"domain": {"range": [1, 3]}},
        "kg": {"parts": ["k", "g"]},
        "day": {"domain": {"dates": ["2013-01-30", "2013-02-02"]}, "levels": ["month", "year"]},
    },
}


def frame(n: int, *, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 12, n)
    return pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.05, np.nan, x),
            "y": rng.normal(0, 0.5, n),
            "z": rng.integers(90, 320, n),
            "o": rng.choice(["E", "J", "X"], n),
            "k": rng.choice(["a", "b", "c ", "zz", ""], n),
            "g": rng.integers(1, 5, n),
            "day": rng.choice(["2013-01-30", "2013-01-31", "2013-02-02", "2012-02-02"], n),
        }
    )


def slow_steps(value: float, lower: float, upper: float, one: int) -> int:
    """One cell on the grid, in exact fractions."""
    inside = (
        Fraction((lower + upper) / 2) if math.isnan(value) else min(max(Fraction(value), Fraction(lower)), Fraction(upper))
    )
    return math.floor(
        (2 * inside - Fraction(lower) - Fraction(upper)) / (Fraction(upper) - Fraction(lower)) * one + Fraction(1, 2)
    )


def slow_statistics(
    table: pd.DataFrame, features: tuple[str, ...], one: int, order: int
) -> dict[tuple[str, ...], list[int]]:
    """Per tuple of raw keys (k, g, day): every monomial's sum, in Python integers."""
    sums: dict[tuple[str, ...], list[int]] = {}
    for row in table.to_dict("records"):
        steps = []
        for name in features:
            if name == "o":
                steps += [one * (row["o"] == level) for level in ("E", "J")]
            else:
                steps.append(slow_steps(float(row[name]), *BOUNDS[name], one))
        monomials = [
            math.prod(steps[i] for i in chosen)
            for degree in range(order + 1)
            for chosen in combinations_with_replacement(range(len(steps)), degree)
        ]
        key = (normal_key(row["k"]), str(row["g"]), row["day"])
        sums[key] = [a + b for a, b in zip(sums.get(key, [0] * len(monomials)), monomials, strict=True)]
    return sums


def spread(
    sums: dict[tuple[str, ...], list[int]], domain: list[Any], of: Callable[[tuple[str, ...]], Any]
) -> list[list[int]]:
    """Sums over a domain, catch-all last."""
    width = len(next(iter(sums.values())))
    place = {key: i for i, key in enumerate(domain)}
    cells = [[0] * width for _ in range(len(domain) + 1)]
    for key, values in sums.items():
        row = cells[place.get(of(key), len(domain))]
        for i, value in enumerate(values):
            row[i] += value
    return cells


# ------------------------------------------------------------------------------------------------ the slow truth


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("features, order", [(("x",), 3), (("x", "y"), 2), (("x", "y", "z", "o"), 2), (("y", "z"), 4)])
def test_the_integers_are_those_of_a_slow_reference(
    exact: Exact, backend: str, features: tuple[str, ...], order: int
) -> None:
    table = frame(400)
    layout = {"layout": "semiring"}
    found = exact(table, CARD, key="k", features=features, order=order, backend=backend, **layout)
    slow = slow_statistics(table, features, found.grid.one, order)
    expected = spread(slow, ["a", "b", "c", "d"], lambda key: key[0])
    assert found.levels[0].tolist() == expected
    assert found.whole.tolist() == [sum(column) for column in zip(*expected, strict=True)]
    assert found.rows == 400


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
def test_a_composite_key_has_every_combination_first_part_slowest(exact: Exact, backend: str) -> None:
    table = frame(300)
    found = exact(table, CARD, key="kg", features=("x", "y"), backend=backend)
    slow = slow_statistics(table, ("x", "y"), found.grid.one, 2)
    domain = [(k, g) for k in "abcd" for g in ("1", "2", "3")]
    assert found.levels[0].tolist() == spread(slow, domain, lambda key: key[:2])
    # a row outside one part only is outside altogether
    only_g = pd.DataFrame({"x": [1.0], "y": [0.0], "k": ["a"], "g": [9]})
    assert exact(only_g, CARD, key="kg", features=("x", "y"), backend=backend).levels[0][:, 0].tolist() == [0] * 12 + [1]


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
def test_coarser_levels_are_the_sums_of_finer_ones(exact: Exact, backend: str) -> None:
    table = frame(300)
    found = exact(table, CARD, key="day", features=("x", "y"), backend=backend)
    slow = slow_statistics(table, ("x", "y"), found.grid.one, 2)
    days = ["2013-01-30", "2013-01-31", "2013-02-01", "2013-02-02"]

    def inside(length: int) -> Callable[[tuple[str, ...]], str]:
        return lambda key: key[2][:length] if key[2] in days else "other"

    assert found.levels[0].tolist() == spread(slow, days, inside(10))
    assert found.levels[1].tolist() == spread(slow, ["2013-01", "2013-02"], inside(7))
    assert found.levels[2].tolist() == spread(slow, ["2013"], inside(4))
    for level in found.levels:
        assert level.sum(axis=0).tolist() == found.whole.tolist()


def test_keys_outside_the_domain_share_one_catch_all(exact: Exact) -> None:
    cells = ["a", "A", " a", "a ", "ä", None, "", "__other__", "a\u0308", "zz"]
    found = exact(pd.DataFrame({"x": [5.0] * 10, "k": cells}), CARD, key="k", features=("x",))
    assert found.levels[0][:, 0].tolist() == [4, 0, 0, 0, 6]  # "A" is "a" in another case, and no key itself


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("day", [3_664_000, -800_000, 2**31 - 1], ids=["year 12001", "before Christ", "the last of all"])
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "Europe/Paris")], ids=str)
@pytest.mark.parametrize("key", ["day", "k"])
def test_days_that_python_cannot_hold_fall_into_the_catch_all(
    exact: Exact, tmp_path: Any, backend: str, day: int, kind: pa.DataType, key: str
) -> None:
    days = [15_736, day, 15_736]  # 2013-01-31
    column = pa.array(days, pa.int32()).cast(pa.date32())
    if kind != pa.date32():
        days = [(number * 86_400 + 43_200) * 10**6 for number in days if number < 2**31 - 1] + [2**63 - 1]
        column = pa.array(days, pa.int64()).cast(kind)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1.0] * len(days), key: column}), path)
    counted = exact(path, CARD, key=key, features=("x",), backend=backend).levels[0][:, 0]
    held = days.count(days[0]) if key == "day" else 0
    assert counted.sum() == len(days) and counted[-1] == len(days) - held
    assert counted[1] == held


def test_milliseconds_beyond_the_calendar_of_polars_fall_into_the_catch_all(exact: Exact, tmp_path: Any) -> None:
    noon = (15_736 * 86_400 + 43_200) * 1000  # 2013-01-31
    column = pa.array([noon, -(2**63), 2**63 - 1, None], pa.int64()).cast(pa.timestamp("ms"))
    pq.write_table(pa.table({"x": [1.0] * 4, "day": column}), tmp_path / "t.parquet")
    counted = exact(tmp_path / "t.parquet", CARD, key="day", features=("x",), backend="polars").levels[0][:, 0]
    assert counted[1] == 1 and counted[-1] == 3


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.duration("us"), pa.binary()], ids=str)
def test_levels_of_a_type_without_one_spelling_are_refused_by_it(exact: Exact, kind: pa.DataType) -> None:
    cells = pa.array([b"a"], kind) if kind == pa.binary() else pa.array([1], pa.int64()).view(kind)
    card = {"dataset": {"name": "t"}, "features": {"level": {"column": "o", "levels": ["a", "b"]}}}
    with pytest.raises(InvalidTable, match="feature 'level' has levels, but column 'o' holds"):
        exact(pa.table({"o": cells}), card)


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("cells", [[{"secret": 1}], [[1, 2]]], ids=["struct", "list"])
def test_a_key_that_is_no_single_value_is_refused_by_its_type(
    exact: Exact, tmp_path: Any, backend: str, cells: list[Any]
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1.0], "k": cells}), path)
    with pytest.raises(InvalidTable, match="key 'k' needs single values, but column 'k' holds"):
        exact(path, CARD, key="k", features=("x",), backend=backend)


def test_no_row_is_lost_and_no_key_is_left_out(exact: Exact) -> None:
    """Empty keys are there, with zeros: what is not in the vector gets no noise, and that alone breaks privacy."""
    found = exact(pd.DataFrame({"x": [5.0], "k": ["b"]}), CARD, key="k", features=("x",))
    assert found.levels[0].shape == (5, 3) and found.levels[0][:, 0].tolist() == [0, 1, 0, 0, 0]


def test_rows_of_nothing_but_missing_cells_are_counted_like_all_others(exact: Exact) -> None:
    table = pl.DataFrame(
        {"x": [None] * 5, "k": [None] * 5, "o": [None] * 5}, schema={"x": pl.Float64, "k": pl.String, "o": pl.String}
    )
    for backend in ("duckdb", "polars"):
        found = exact(table, CARD, key="k", features=("x", "o"), backend=backend)
        assert found.levels[0][:, 0].tolist() == [0, 0, 0, 0, 5] and not found.whole[1:].any()


# ------------------------------------------------------------------------------------------------ the same bits


def test_rows_in_any_order_give_the_same_bits(exact: Exact) -> None:
    table = frame(5000)
    first = exact(table, CARD, key="day")
    for seed in range(3):
        again = exact(table.sample(frac=1, random_state=seed), CARD, key="day")
        assert all(np.array_equal(a, b) for a, b in zip(again.levels, first.levels, strict=True))
        assert np.array_equal(again.whole, first.whole)


@pytest.mark.parametrize("bound", [None, Decimal("0.7")])
def test_any_number_of_threads_and_either_engine_give_the_same_bits(exact: Exact, bound: Decimal | None, full: bool) -> None:
    table = frame(1_000_000 if full else 300_000)  # several of DuckDB's row groups, so that threads have something to share
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    results = [exact(arrow, CARD, key="k", backend="polars", bound=bound)]
    for threads in (1, 2, 4):
        engine = ibis.duckdb.connect()
        engine.raw_sql(f"SET threads = {threads}")
        results.append(exact(engine.create_table("rows", arrow), CARD, key="k", bound=bound))
    for other in results[1:]:
        assert np.array_equal(other.levels[0], results[0].levels[0])


def test_float_sums_would_not_have_passed() -> None:
    """Why integers: the same floats in another order add up to other bits."""
    x = (frame(5000)["x"].fillna(5.0) - 5) / 5
    shuffled = x.sample(frac=1, random_state=1)
    assert float(np.add.accumulate(x.to_numpy())[-1]) != float(np.add.accumulate(shuffled.to_numpy())[-1])


# ------------------------------------------------------------------------------------------------ individuals


def individuals(**facts: Any) -> dict[str, Any]:
    return CARD | {"dataset": {"name": "t", "id": "who", "max_rows": 1000} | facts}


def test_at_most_r_rows_of_each_individual_are_kept(exact: Exact, ready: Callable[..., Prepared]) -> None:
    table = frame(600).assign(who=np.random.default_rng(1).integers(0, 100, 600))
    for r in (1, 2, 5, 1000):
        found = exact(table, individuals(rows_per_individual=r), key="k", features=("x",))
        assert found.rows == sum(min(r, count) for count in table.who.value_counts())
        checked = ready(table, individuals(rows_per_individual=r), key="k", features=("x",))
        assert count_rows(checked.rows) == found.rows and checked.row_count is None


def test_which_rows_are_kept_depends_on_nobody_else_and_not_on_their_order(exact: Exact) -> None:
    table = frame(300).assign(who=np.random.default_rng(2).integers(0, 60, 300))
    card = individuals(rows_per_individual=2)

    def kept(part: pd.DataFrame) -> np.ndarray:
        return exact(part, card, key="k", features=("x", "o")).levels[0]

    everyone = kept(table)
    assert np.array_equal(kept(table.sample(frac=1, random_state=7)), everyone)
    for who in range(5):  # without one individual, exactly its own rows are gone
        assert np.array_equal(kept(table[table.who != who]) + kept(table[table.who == who]), everyone)


def test_rows_without_an_individual_are_left_out(exact: Exact) -> None:
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "who": ["a", None, None]})
    assert exact(table, individuals(), features=("x",)).rows == 1


def test_individuals_are_told_apart_as_text_where_a_file_is_read(exact: Exact, tmp_path: Any) -> None:
    (tmp_path / "rows.csv").write_text("who,x\n01,1\n1,2\n1,3\n", encoding="utf-8")
    assert exact(tmp_path / "rows.csv", individuals(), features=("x",)).rows == 2


def test_columns_of_our_own_never_cover_one_of_the_tables(exact: Exact) -> None:
    """A column that happens to be called like a helper of ours is still the one that is summed, and the one joined on."""
    plain = pd.DataFrame({"x": [1.0, 9.0, 9.0], "y": [0.5, 0.1, 0.2], "who": ["a", "b", "c"], "k": ["a", "b", "b"]})
    same = individuals()
    names = {"x": "row_of_individual", "y": "norm_squared", "k": "component_value"}
    odd = same | {
        "features": {names[n]: {"bounds": list(BOUNDS[n])} for n in "xy"},
        "keys": {"k": CARD["keys"]["k"] | {"column": "component_value"}},
    }
    for extra in ({}, {"bound": Decimal("0.5")}):
        expected = exact(plain, same, key="k", features=("x", "y"), **extra)
        found = exact(plain.rename(columns=names), odd, key="k", **extra)
        assert np.array_equal(found.levels[0], expected.levels[0])


def test_an_engine_that_cannot_count_rows_of_individuals_says_so(exact: Exact) -> None:
    table = pd.DataFrame({"x": [1.0, 2.0], "who": ["a", "b"]})
    with pytest.raises(InvalidInput, match="backend duckdb"):
        exact(table, individuals(), features=("x",), backend="polars")


# ------------------------------------------------------------------------------------------------ details


@pytest.mark.parametrize(
    "cell, text",
    [
        (None, ""),
        (" a ", "a"),
        ("Zu\u0308rich", "Zürich"),
        (7, "7"),
        (7.0, "7"),
        (7.5, "7.5"),
        (-0.0, "0"),
        (float("nan"), ""),
        (float("inf"), "inf"),
        (Decimal("7.00"), "7"),
        (True, "true"),
        (False, "false"),
        (datetime(2013, 1, 2), "2013-01-02"),
        (datetime(2013, 1, 2, 3, 4, 5), "2013-01-02T03:04:05"),
        (datetime(2013, 1, 2).date(), "2013-01-02"),
    ],
)
def test_a_key_cell_has_one_spelling(cell: object, text: str) -> None:
    assert text_of(cell) == text


def test_the_norm_is_checked_in_integers_before_anything_is_released(
    ready: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the clip broken, the aggregation would notice and stop."""
    from saibot.privatize import aggregate as module

    def broken(table: ibis.Table, names: list[str], grid: Any, *, card_features: int) -> ibis.Table:
        return table.mutate(**{name: table[name].cast("int64") for name in names})

    checked = ready(frame(50), CARD, key="k", bound=Decimal("0.5"))
    aggregate(checked.rows, checked.grid, order=2)
    monkeypatch.setattr(module, "to_steps", broken)
    with pytest.raises(Exception, match="longer than the bound; nothing was released"):
        aggregate(checked.rows, checked.grid, order=2)


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("key", [None, "k"])
def test_sums_of_far_more_rows_than_the_card_allows_are_refused_and_not_wrapped(
    exact: Exact, ready: Callable[..., Prepared], backend: str, key: str | None
) -> None:
    """Every cell at the corner, order 6: one row more than fits 62 bits."""
    card = CARD | {"dataset": {"name": "t", "max_rows": 1}}
    terms = {"neighbours": Neighbours.ADD_REMOVE, "features": ("x",), "order": 6, "key": key, "backend": backend}
    terms |= {"layout": "semiring"} if key else {}

    def table(rows: int) -> pd.DataFrame:
        return pd.DataFrame({"x": np.full(rows, 10.0), "k": np.full(rows, "a")})

    one = ready(table(1), card, **terms).grid.one
    most = (1 << 62) // one**6
    assert 1 < most < 2_000_000
    found = exact(table(most), card, **terms)
    assert found.whole.tolist() == [most * one**order for order in range(7)]
    with pytest.raises(InvalidTable, match="far more rows than its card allows"):
        exact(table(most + 1), card, **terms)
