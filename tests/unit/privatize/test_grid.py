"""Rows become whole numbers on the grid: inside their bounds, inside the ball, unbiased, the same on every engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from saibot.errors import InvalidCard, SaibotError
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Prepared, ReleaseRequest, privatize
from saibot.privatize.aggregate import Rows, grid_rows
from saibot.privatize.grid import Grid, _short_above
from saibot.privatize.read import BackendName, open_table
from saibot.privatize.schema import resolve_features

BACKENDS = ["duckdb", "polars"]
NUMERIC: dict[str, Any] = {"dataset": {"name": "t"}, "features": {"x": {"bounds": [-30, 120]}}}


def grid_table(rows: Rows, grid: Grid) -> np.ndarray:
    """The integer rows, as the aggregation sees them."""
    fetched = rows.source.fetch(grid_rows(rows, grid))
    return np.column_stack([fetched.column(f"f{i}").to_numpy() for i in range(len(rows.features))])


def steps(ready: Callable[..., Prepared], table: Any, card: dict[str, Any], **options: Any) -> list[list[int]]:
    checked = ready(table, card, **options)
    return [list(map(int, row)) for row in grid_table(checked.rows, checked.grid)]


def rows_of(frame: pd.DataFrame, bounds: tuple[float, float] = (-1, 1), *, backend: BackendName = "duckdb") -> Rows:
    card = Card.parse({"dataset": {"name": "t"}, "features": {name: {"bounds": bounds} for name in frame.columns}})
    return Rows(open_table(frame, backend=backend), resolve_features(card, ()), (), None, None, 1)


# ------------------------------------------------------------------------------------------------ the grid itself


@pytest.mark.parametrize("bits, bound, expected", [(1, "1", 4), (15, "2", 2 << 30), (3, "0.5", 32), (2, "0.1", 1)])
def test_the_integer_norm_bound_rounds_down(bits: int, bound: str, expected: int) -> None:
    grid = Grid(bits, Decimal(bound))
    assert grid.one == 2**bits and grid.norm_squared == expected
    assert grid.norm_squared <= Decimal(bound) * grid.one**2 < grid.norm_squared + 1


# ------------------------------------------------------------------------------------------------ one column


@pytest.mark.parametrize("backend", BACKENDS)
def test_bounds_map_to_one_and_everything_beyond_is_clipped(ready: Callable[..., Prepared], backend: str) -> None:
    one = 1 << 15
    cells = {
        -30.0: -one,
        120.0: one,
        45.0: 0,
        82.5: one // 2,
        7.5: -one // 2,
        -30.1: -one,
        -1e300: -one,
        120.001: one,
        1e300: one,
        math.inf: one,
        -math.inf: -one,
        -0.0: round(-0.6 * one),
        45.0 + 1e-12: 0,
    }
    frame = pl.DataFrame({"x": list(cells)})
    assert steps(ready, frame, NUMERIC, backend=backend) == [[step] for step in cells.values()]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("missing, step", [(None, 0), (-30, -(1 << 15)), (120, 1 << 15), (82.5, 1 << 14)])
def test_missing_and_nan_take_the_public_value(
    ready: Callable[..., Prepared], backend: str, missing: float | None, step: int
) -> None:
    facts = {"bounds": [-30, 120]} | ({} if missing is None else {"missing": missing})
    card = NUMERIC | {"features": {"x": facts}}
    frame = pl.DataFrame({"x": [None, math.nan, 120.0]})
    assert steps(ready, frame, card, backend=backend) == [[step], [step], [1 << 15]]
    assert steps(ready, frame.to_pandas(), card, backend=backend) == [[step], [step], [1 << 15]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "cells",
    [
        pl.Series([0, 1, 1], dtype=pl.Int8),
        pl.Series([0, 1, 1], dtype=pl.UInt64),
        pl.Series([0, 1, 1], dtype=pl.Float32),
        pl.Series([False, True, True]),
        pl.Series([Decimal("0.0"), Decimal("1.0"), Decimal("1.0")]),
    ],
    ids=lambda series: str(series.dtype),
)
def test_every_numeric_type_is_read_as_its_number(ready: Callable[..., Prepared], backend: str, cells: pl.Series) -> None:
    card = NUMERIC | {"features": {"x": {"bounds": [0, 1]}}}
    one = 1 << 15
    assert steps(ready, pl.DataFrame({"x": cells}), card, backend=backend) == [[-one], [one], [one]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_text_that_is_no_number_is_missing_and_no_other_cell_is_read_differently_for_it(
    ready: Callable[..., Prepared], backend: str
) -> None:
    cells = ["45", "120", "-30", "NA", "SECRET-4711", "", None, "1e3", "nan", "inf", " 45 ", "true", "1_0", "0x10", "4,5"]
    card = NUMERIC | {"features": {"x": {"bounds": [-30, 120], "missing": 82.5}}}
    one, half = 1 << 15, 1 << 14
    true = math.floor((1 - 45) / 75 * one + 0.5)
    expected = [0, one, -one, half, half, half, half, one, half, one, 0, true, half, half, half]
    assert [row[0] for row in steps(ready, pl.DataFrame({"x": cells}), card, backend=backend)] == expected
    for cell, step in zip(cells, expected, strict=True):  # alone in its table, each means the same
        assert steps(ready, pl.DataFrame({"x": pl.Series([cell], dtype=pl.String)}), card, backend=backend) == [[step]]


def test_a_card_cannot_ask_for_the_whole_table_to_be_refused_because_of_one_cell() -> None:
    with pytest.raises(InvalidCard, match="refusing the table would tell"):
        Card.parse(NUMERIC | {"features": {"x": {"bounds": [0, 1], "text": "refuse"}}})
    Card.parse(NUMERIC | {"features": {"x": {"bounds": [0, 1], "text": "missing"}}})


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_category_becomes_one_indicator_per_level_and_all_zero_elsewhere(
    ready: Callable[..., Prepared], backend: str
) -> None:
    card = NUMERIC | {"features": {"o": {"levels": ["E", "J"]}}}
    frame = pl.DataFrame({"o": ["E", "J", "X", None, "e", ""]})
    one = 1 << 15
    expected = [[one, 0], [0, one], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert steps(ready, frame, card, backend=backend) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_category_of_whole_numbers_is_compared_as_text(ready: Callable[..., Prepared], backend: str) -> None:
    card = NUMERIC | {"features": {"o": {"levels": ["1", "2"]}}}
    one = 1 << 15
    assert steps(ready, pl.DataFrame({"o": [1, 2, 3]}), card, backend=backend) == [[one, 0], [0, one], [0, 0]]


def test_rounding_to_the_grid_has_no_bias(ready: Callable[..., Prepared], full: bool) -> None:
    """Half a step either way cancels; floor alone, which takes half a step off every value, would be seen."""
    n = 400_000 if full else 40_000
    x = np.random.default_rng(5).uniform(-30, 120, n)
    found = np.array(steps(ready, pd.DataFrame({"x": x}), NUMERIC))[:, 0]
    true = (x - 45) / 75 * (1 << 15)
    tolerance = 8 * math.sqrt(1 / 12 / n)  # eight standard errors
    assert abs((found - true).mean()) < tolerance and np.abs(found - true).max() <= 0.5 + 1e-6
    assert abs((np.floor(true) - true).mean()) > 10 * tolerance


@pytest.mark.parametrize(
    "lower, upper", [(0.1, 0.3), (-1e-7, 1e-7), (1e15, 1.0001e15), (0, 1e20), (1 / 3, 2 / 3), (-7, 1e9)]
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_bounds_let_a_value_leave_the_box(
    ready: Callable[..., Prepared], backend: str, lower: float, upper: float
) -> None:
    """The box is what the default norm bound rests on, and awkward floats are where it could burst."""
    card = NUMERIC | {"features": {"x": {"bounds": [lower, upper]}}}
    rng = np.random.default_rng(1)
    cells = [lower, upper, math.nextafter(lower, -math.inf), math.nextafter(lower, math.inf)]
    cells += [math.nextafter(upper, -math.inf), math.nextafter(upper, math.inf), -1e308, 1e308]
    cells += list(lower + (upper - lower) * rng.random(500))
    found = np.array(steps(ready, pl.DataFrame({"x": [float(cell) for cell in cells]}), card, backend=backend))
    assert np.abs(found).max() <= 1 << 15
    assert found[0, 0] == -(1 << 15) and found[1, 0] == 1 << 15


@pytest.mark.parametrize(
    "lower, upper",
    [(1e15 + 1, 1e15 + 2), (-1e15 - 2, -1e15 - 1), (1e15 - 3, 1e15 + 5), (1e17, 1e17 + 16), (2.0**60, 2.0**60 + 256)],
)
@pytest.mark.parametrize("options", [{}, {"bound": Decimal("0.5")}, {"model": "local"}])
def test_bounds_too_close_together_for_their_size_are_refused_before_anything_is_spent(
    ledger: Ledger, lower: float, upper: float, options: dict[str, Any]
) -> None:
    """Engines agree on fifteen digits of a constant. With those alone, both bounds would be one number, or nearly."""
    card = Card.parse(NUMERIC | {"features": {"x": {"bounds": [lower, upper]}, "y": {"bounds": {"buy": "0.1"}}}})
    local = "model" in options
    table = pl.DataFrame({"x": [lower, upper, 7.0], "y": [1.0, 2.0, 3.0]})[: 1 if local else 3]
    for features in (("x",),) if local else (("x",), ("x", "y")):
        request = ReleaseRequest(card, Budget("1", "1e-6"), Neighbours.REPLACE_ONE, features=features, **options)
        with pytest.raises(InvalidCard, match="'x' are too close together"):
            privatize(table, request, ledger)
    assert ledger.accounts() == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lower, upper", [(1e10 + 1, 1e10 + 2), (-1e11 - 9, -1e11), (1e15, 1.0001e15), (0.1, 0.3)])
def test_the_missing_value_never_leaves_the_box(
    ready: Callable[..., Prepared], backend: str, lower: float, upper: float
) -> None:
    """Bounds are shortened to fifteen digits; a missing value may keep more of them."""
    frame = pl.DataFrame({"x": [None, math.nan, 7.0]}, schema={"x": pl.Float64})
    for missing in (None, lower, upper, (lower + upper) / 2):
        facts = {"bounds": [lower, upper]} | ({} if missing is None else {"missing": missing})
        found = np.array(steps(ready, frame, NUMERIC | {"features": {"x": facts}}, backend=backend))
        assert np.abs(found).max() <= 1 << 15 and found[0, 0] == found[1, 0]


# ------------------------------------------------------------------------------------------------ the norm

finite = st.floats(-1, 1, allow_nan=False) | st.sampled_from([-1.0, 1.0, 0.0, 1e-9, 0.5])


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    features = draw(st.integers(1, 6))
    rows = draw(st.lists(st.lists(finite, min_size=features, max_size=features), min_size=1, max_size=60))
    return pd.DataFrame(rows, columns=[f"x{i}" for i in range(features)], dtype=float)


@settings(max_examples=60 if settings.default.max_examples <= 100 else 600, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), st.integers(4, 15), st.decimals("0.02", "3", places=3))
def test_no_integer_row_is_ever_longer_than_the_bound(frame: pd.DataFrame, bits: int, bound_squared: Decimal) -> None:
    grid, m = Grid(bits, bound_squared), len(frame.columns)
    reach = math.sqrt(grid.norm_squared) - math.sqrt(m) / 2
    if reach <= 1e-3:
        return  # a ball within one step; refused, see below
    clipped = grid_table(rows_of(frame), grid).astype(object)
    assert ((clipped**2).sum(axis=1) <= grid.norm_squared).all()
    for cells, after in zip(frame.to_numpy(), clipped, strict=True):
        before = cells * grid.one
        length = float(np.linalg.norm(before))
        # Rows that rounding cannot push out of the ball are rounded and no more; longer ones keep their direction.
        shrink = reach / length if length > reach and m * grid.one**2 > grid.norm_squared else 1.0
        assert np.abs(after.astype(float) - before * shrink).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bits, bound", [(15, "1"), (15, "1.3"), (9, "0.3"), (5, "1.1")])
def test_rows_at_the_very_edge_of_the_ball_stay_inside(backend: BackendName, bits: int, bound: str) -> None:
    """Lengths within a few steps of the bound, and all of them where rounding hurts most: every cell near a half."""
    rng, grid = np.random.default_rng(3), Grid(bits, Decimal(bound) ** 2)
    direction = rng.normal(size=(4000, 4))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    steps_long = float(bound) * grid.one + rng.uniform(-3, 1, (4000, 1))
    whole = np.floor(np.clip(direction * steps_long, -grid.one, grid.one))
    cells = (whole + rng.choice([0.4999999, 0.5, 0.5000001], whole.shape)) / grid.one
    frame = pd.DataFrame(np.clip(cells, -1, 1), columns=list("abcd"))
    found = grid_table(rows_of(frame, backend=backend), grid).astype(object)
    assert ((found**2).sum(axis=1) <= grid.norm_squared).all() and np.abs(found).max() <= grid.one
    rounded = np.floor(frame.to_numpy() * grid.one + 0.5).astype(int).astype(object)
    assert ((rounded**2).sum(axis=1) > grid.norm_squared).any()  # rounding alone would not do


@given(st.floats(1e-3, 4e6))
def test_a_row_is_never_made_longer_by_the_clip(reach: float) -> None:
    """The limit, shortened to what every engine reads alike, is not below the square of the reach."""
    reach = float(f"{reach:.15g}")
    limit = _short_above(Fraction(reach) ** 2)
    assert Fraction(limit) >= Fraction(reach) ** 2 and limit == float(f"{limit:.15g}")
    assert reach / math.sqrt(math.nextafter(limit, math.inf)) <= 1.0
    assert limit <= reach**2 * (1 + 1e-13)


def test_without_the_clip_rows_of_the_box_would_be_longer_than_the_bound() -> None:
    """What the property above would see if the clip did nothing."""
    frame = pd.DataFrame({"x": [1.0, -1.0], "y": [1.0, 1.0]})
    unclipped = grid_table(rows_of(frame), Grid(10, Decimal(2))).astype(object)
    assert ((unclipped**2).sum(axis=1) > Grid(10, Decimal(1)).norm_squared).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_long_row_is_shrunk_to_the_bound_and_keeps_its_direction(ready: Callable[..., Prepared], backend: str) -> None:
    card = NUMERIC | {"features": {"x": {"bounds": [-1, 1]}, "y": {"bounds": [-1, 1]}}}
    frame = pl.DataFrame({"x": [0.6, -1.0, 0.3, 0.0], "y": [0.8, 1.0, -0.4, 0.0]})
    found = np.array(steps(ready, frame, card, bound=Decimal("0.5"), backend=backend)) / (1 << 15)
    expected = [[0.3, 0.4], [-0.5 / math.sqrt(2), 0.5 / math.sqrt(2)], [0.3, -0.4], [0, 0]]
    assert np.allclose(found, expected, atol=2 / (1 << 15))
    assert (np.hypot(*found.T) <= 0.5).all()


def test_clipping_the_norm_has_no_bias(full: bool) -> None:
    n = 100_000 if full else 20_000
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(rng.uniform(-1, 1, (n, 3)), columns=["x", "y", "z"])
    frame = pd.concat([frame, -frame])
    found = grid_table(rows_of(frame), Grid(8, Decimal("0.5")))
    # rows come in pairs x, -x: any drift is rounding's
    assert np.abs(found.mean(axis=0)).max() < 8 * 0.3 / math.sqrt(2 * n)


def test_one_hot_and_numeric_features_share_the_ball(ready: Callable[..., Prepared]) -> None:
    card = NUMERIC | {"features": {"x": {"bounds": [-1, 1]}, "o": {"levels": ["E", "J"]}}}
    frame = pl.DataFrame({"x": [1.0, -1.0, 0.0], "o": ["E", "X", "J"]})
    assert ready(frame, card).grid.bound_squared == 2
    inside = np.array(steps(ready, frame, card), dtype=object)
    assert (inside**2).sum(axis=1).tolist() == [2 << 30, 1 << 30, 1 << 30]
    clipped = np.array(steps(ready, frame, card, bound=Decimal(1)), dtype=object)
    assert max((clipped**2).sum(axis=1)) <= 1 << 30


def test_features_that_read_the_same_column_stay_inside_the_ball(ready: Callable[..., Prepared]) -> None:
    """Both indicators of a row can be 1: its norm is sqrt(2), and so is the default bound."""
    features = {"a": {"column": "o", "levels": ["E"]}, "b": {"column": "o", "levels": ["E", "J"]}}
    frame = pl.DataFrame({"o": ["E", "J", "E"]})
    for options in ({}, {"bound": Decimal(1)}):
        checked = ready(frame, NUMERIC | {"features": features}, **options)
        found = grid_table(checked.rows, checked.grid).astype(object)
        assert ((found**2).sum(axis=1) <= checked.grid.norm_squared).all()


def test_a_ball_within_one_step_of_the_grid_is_refused(ready: Callable[..., Prepared]) -> None:
    with pytest.raises(SaibotError):
        steps(ready, pl.DataFrame({"x": [1.0]}), NUMERIC, bound=Decimal("0.000001"))


def test_a_norm_bound_below_a_step_is_refused_before_bounds_are_bought(ledger: Ledger) -> None:
    card = Card.parse(NUMERIC | {"features": {"x": {"bounds": {"buy": "0.1"}}, "y": {"bounds": [0, 1]}}})
    frame = pl.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0]})
    for bound in ("0.00001", "0.00003"):
        request = ReleaseRequest(card, Budget("1", "1e-6"), Neighbours.REPLACE_ONE, bound=Decimal(bound), allocation="equal")
        with pytest.raises(SaibotError):
            privatize(frame, request, ledger)
    assert ledger.accounts() == []
