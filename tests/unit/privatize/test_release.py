"""The release: the fixed quantities around the draw. How the draws are distributed is judged in tests/statistical.

Noise sources here are probes: one adds the same number to every entry, so that what comes out shows by what the release
divided, and with it the noise that a real source would have left.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from saibot.errors import SaibotError, UnsupportedPlan
from saibot.privacy import Budget, Neighbours
from saibot.privacy.calibration import STEPS_PER_SIGMA
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Block, Plan, PlanRequest, make_plan
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.aggregate import ExactStatistics
from saibot.privatize.grid import Grid
from saibot.privatize.noise import OpenDPNoise
from saibot.privatize.release import NoisyStatistics, centred_scatter, choose_grid, release, value_count
from saibot.semiring import Basis
from saibot.sketch import Sketch

GAUSS, PURE = Budget("1", "1e-6"), Budget("1")
SHAPES: dict[str, dict[str, Any]] = {
    "fpm join": {"mechanism": "fpm", "layout": "join"},
    "fpm union": {"mechanism": "fpm", "layout": "union"},
    "fpm-opt join": {"mechanism": "fpm-opt", "layout": "join"},
    "fpm-opt union": {"mechanism": "fpm-opt", "layout": "union"},
    "joint semiring": {"mechanism": "joint", "layout": "semiring"},
    "joint union": {"mechanism": "joint", "layout": "union"},
    "joint lookup": {"mechanism": "joint", "layout": "lookup"},
    "joint lookup, three levels": {"mechanism": "joint", "layout": "lookup", "levels": 3},
}
LAWS = {"Gaussian": GAUSS, "Laplace": PURE}
PLANS = [pytest.param(shape, LAWS[law], id=f"{name}, {law}") for name, shape in SHAPES.items() for law in LAWS]
UNCENTRED = [plan for plan in PLANS if plan.values[0] is not SHAPES["fpm-opt union"]]


def plan_of(shape: dict[str, Any], budget: Budget = GAUSS, **options: Any) -> Plan:
    terms = {"features": 3, "bound_squared": Decimal(3), "order": 2, "neighbours": Neighbours.REPLACE_ONE}
    terms |= {"row_count_public": True} | ({"allocation": "alg2"} if shape["mechanism"] == "joint" else {})
    return make_plan(PlanRequest(budget=budget, **(terms | shape | options)))


def nothing(plan: Plan, grid: Grid, *, keys: int = 3, rows: int = 1000) -> ExactStatistics:
    """Statistics that are all zero."""
    names = tuple(f"x{i}" for i in range(plan.request.features))
    basis = Basis(names, plan.request.order)
    levels = tuple(np.zeros((keys, basis.size), np.int64) for _ in range(plan.request.levels)) if plan.request.keyed else ()
    return ExactStatistics(basis, grid, levels, np.zeros(basis.size, np.int64), rows)


class Constant:
    """Adds a constant; remembers the scale that noise would have had, as a standard deviation."""

    simulated = True

    def __init__(self, amount: int) -> None:
        self.amount, self.std, self.calls = amount, math.nan, 0

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        self.std, self.calls = scale, self.calls + 1
        assert values.dtype == np.int64
        return values + self.amount

    def laplace(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return self.gaussian(values, scale * math.sqrt(2), done)

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        raise NotImplementedError


def released_noise(plan: Plan, most_rows: int) -> list[tuple[Block, int, np.ndarray]]:
    """Per block and multinomial weight: the standard deviation that every released number gets, seen from outside."""
    grid = choose_grid(plan, most_rows=most_rows)
    probe = Constant(1 << 20)
    zero = nothing(plan, grid)
    noisy = release(zero, plan, probe, most_rows=most_rows)
    assert probe.calls == 1 and probe.std >= STEPS_PER_SIGMA
    found = []
    for block in plan.blocks:
        columns = zero.basis.slice(block.order)
        values = values_of(noisy, plan, block, zero.basis)
        for place, monomial in enumerate(zero.basis.monomials[columns]):
            found.append((block, monomial.multiplicity, values[..., place] / probe.amount * probe.std))
    return found


def values_of(noisy: NoisyStatistics, plan: Plan, block: Block, basis: Basis) -> np.ndarray:
    if block.scope == "global":
        return noisy.whole[block.order]
    orders = [b.order for b in plan.blocks if b.scope == "key" and b.level == block.level]
    assert orders == list(range(len(orders)))
    return noisy.levels[block.level][:, basis.slice(block.order)]


# ------------------------------------------------------------------------------------------------ how much noise


@pytest.mark.parametrize("shape, budget", PLANS)
@pytest.mark.parametrize("most_rows", [1, 2, 1000, 10**6, 10**9])
def test_noise_is_never_below_the_plan_and_within_one_percent_of_it(
    shape: dict[str, Any], budget: Budget, most_rows: int
) -> None:
    plan = plan_of(shape, budget, rows=max(most_rows, 2))
    for block, multiplicity, std in released_noise(plan, most_rows):
        promised = block.noise_of(multiplicity)
        assert (std >= promised).all() and (std <= promised * 1.01).all()


@pytest.mark.parametrize("bound, epsilon", [("0.0004", "1"), ("10000", "1"), ("2", "0.001"), ("2", "100"), ("2", "3000")])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_extreme_bounds_and_budgets_keep_the_promise_too(shape: dict[str, Any], bound: str, epsilon: str) -> None:
    calibration = "analytic" if shape["mechanism"] != "joint" else None
    plan = plan_of(shape, Budget(epsilon, "1e-6"), bound_squared=Decimal(bound), rows=5000, calibration=calibration)
    for block, multiplicity, std in released_noise(plan, 5000):
        assert (std >= block.noise_of(multiplicity)).all() and (std <= block.noise_of(multiplicity) * 1.01).all()


def test_the_probe_would_see_too_little_noise() -> None:
    """There is no slack in it: a thousandth more noise promised than planned, and the test above would fail."""
    for block, multiplicity, std in released_noise(plan_of(SHAPES["joint semiring"]), 1000):
        assert (std < 1.001 * block.noise_of(multiplicity)).all()


@pytest.mark.parametrize("shape, budget", PLANS)
def test_a_plan_with_less_noise_than_its_claim_is_stopped_before_any_draw(shape: dict[str, Any], budget: Budget) -> None:
    """`joint` is tight, so a thousandth less is caught; the paper's own bounds have slack, and are caught beyond it."""
    plan = plan_of(shape, budget, rows=1000)
    factor = 0.999 if shape["mechanism"] == "joint" else 0.3
    less = replace(plan, blocks=tuple(replace(block, sigma=block.sigma * factor) for block in plan.blocks))
    probe = Constant(0)
    grid = choose_grid(less, most_rows=1000)
    with pytest.raises(SaibotError, match="nothing was released"):
        release(nothing(less, grid), less, probe, most_rows=1000)
    assert probe.calls == 0


# ------------------------------------------------------------------------------------------------ range and grid


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
def test_the_grid_is_the_finest_on_which_every_sum_is_exact_in_floats(order: int) -> None:
    shape = {"mechanism": "fpm", "layout": "join"}
    plan = plan_of(shape, order=order)
    before = 15
    for exponent in np.linspace(0, 9, 40):
        rows = math.ceil(10**exponent)
        grid = choose_grid(plan, most_rows=rows)
        assert 1 <= grid.bits <= min(15, (52 - math.ceil(math.log2(max(rows, 2)))) // order)
        assert rows * grid.one**order <= 2**53
        assert grid.bits <= before
        before = grid.bits
    if order <= 2:  # beyond, the scaled vector has to fit 62 bits, and the grid gives way
        assert choose_grid(plan, most_rows=10**6).bits == min(15, 32 // order)
        assert choose_grid(plan, most_rows=10).bits == 15


@pytest.mark.parametrize("shape, budget", UNCENTRED)
@pytest.mark.parametrize("rows", [1, 7, 10**4, 10**7, 10**9])
def test_the_largest_sums_of_a_table_survive_the_scaling(shape: dict[str, Any], budget: Budget, rows: int) -> None:
    """All rows at one corner of the box: no overflow, and without noise the release gives back what went in."""
    plan = plan_of(shape, budget, rows=rows)
    grid = choose_grid(plan, most_rows=rows)
    zero = nothing(plan, grid, rows=rows)
    for sign in (1, -1):
        orders = np.array([monomial.order for monomial in zero.basis.monomials])
        corner = np.array([rows * (sign * grid.one) ** int(order) for order in orders], dtype=object)
        assert max(abs(corner)) <= 2**53
        full = replace(
            zero, levels=tuple(level + corner.astype(np.int64) for level in zero.levels), whole=corner.astype(np.int64)
        )
        noisy = release(full, plan, Constant(0), most_rows=rows)
        for block in plan.blocks:
            expected = float(rows * sign**block.order)
            assert np.allclose(values_of(noisy, plan, block, zero.basis), expected, rtol=1e-12, atol=0)


def test_rows_beyond_the_declared_most_are_clamped_and_never_overflow() -> None:
    plan = plan_of(SHAPES["joint semiring"], neighbours=Neighbours.ADD_REMOVE, row_count_public=False)
    grid = choose_grid(plan, most_rows=100)
    zero = nothing(plan, grid)
    flooded = replace(zero, levels=(np.full_like(zero.levels[0], 2**62),))
    noisy = release(flooded, plan, Constant(0), most_rows=100)
    assert np.allclose(noisy.levels[0], 100.0)


def test_a_table_too_large_for_any_grid_is_refused() -> None:
    with pytest.raises(UnsupportedPlan, match="no grid"):
        choose_grid(plan_of({"mechanism": "fpm", "layout": "join"}, order=6), most_rows=1 << 50)


@pytest.mark.parametrize("shape, budget", PLANS)
def test_so_many_rows_with_so_little_noise_are_refused_instead_of_overflowing(shape: dict[str, Any], budget: Budget) -> None:
    """Noise has at least 4096 steps, so 2^40 rows with next to none would need far more than 64 bits."""
    calibration = "analytic" if shape["mechanism"] != "joint" else None
    plan = plan_of(shape, Budget("1e9", budget.delta), rows=1 << 40, calibration=calibration)
    with pytest.raises(UnsupportedPlan, match="no grid"):
        choose_grid(plan, most_rows=1 << 40)
    probe = Constant(0)
    for bits in (1, 6, 15):  # nor does the release itself trust a grid that it is handed
        with pytest.raises(UnsupportedPlan, match="too large for its grid"):
            release(nothing(plan, Grid(bits, Decimal(3))), plan, probe, most_rows=1 << 40)
    assert probe.calls == 0


@pytest.mark.parametrize("epsilon", ["1e3", "1e6", "1e9", "1e15", "1e30"])
@pytest.mark.parametrize("rows", [2, 10**6, 1 << 40])
@pytest.mark.parametrize("shape, budget", UNCENTRED)
def test_a_huge_epsilon_is_released_without_overflow_or_refused(
    shape: dict[str, Any], budget: Budget, rows: int, epsilon: str
) -> None:
    calibration = "analytic" if shape["mechanism"] != "joint" else None
    plan = plan_of(shape, Budget(epsilon, budget.delta), rows=rows, calibration=calibration)
    try:
        grid = choose_grid(plan, most_rows=rows)
    except UnsupportedPlan:
        assert rows > 2 or epsilon == "1e30"
        return
    zero = nothing(plan, grid, rows=rows)
    orders = np.array([monomial.order for monomial in zero.basis.monomials])
    corner = rows * grid.one**orders
    full = replace(zero, levels=tuple(level + corner for level in zero.levels), whole=corner)
    probe = Constant(0)
    noisy = release(full, plan, probe, most_rows=rows)
    for block in plan.blocks:
        assert np.allclose(values_of(noisy, plan, block, zero.basis), float(rows), rtol=1e-12, atol=0)
    assert STEPS_PER_SIGMA <= probe.std < 2**57


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("rows_per_individual", [1, 3])
def test_a_pure_release_with_key_levels_and_default_proportions_has_a_grid(levels: int, rows_per_individual: int) -> None:
    shape = {"mechanism": "joint", "layout": "lookup", "levels": levels, "rows_per_individual": rows_per_individual}
    plan = plan_of(shape, PURE, allocation=None, row_count_public=rows_per_individual == 1)
    for block, multiplicity, std in released_noise(plan, 10**6):
        assert (std >= block.noise_of(multiplicity)).all() and np.isfinite(std).all()


def test_the_grid_depends_on_the_plan_and_the_public_size_only() -> None:
    plan = plan_of(SHAPES["joint lookup"])
    assert choose_grid(plan, most_rows=5000) == choose_grid(plan_of(SHAPES["joint lookup"]), most_rows=5000)


@pytest.mark.parametrize("shape, budget", PLANS)
def test_every_number_of_the_plan_is_drawn_exactly_once(shape: dict[str, Any], budget: Budget) -> None:
    plan = plan_of(shape, budget, rows=100)
    drawn = 0

    class Counting(Constant):
        def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
            nonlocal drawn
            drawn += values.size
            return super().gaussian(values, scale, done)

    release(nothing(plan, choose_grid(plan, most_rows=100), keys=7), plan, Counting(1), most_rows=100)
    keys = (7,) * plan.request.levels if plan.request.keyed else ()
    assert drawn == value_count(plan, keys)


# ------------------------------------------------------------------------------------------------ rounding


def test_the_centred_scatter_is_exact_up_to_one_step_down(full: bool) -> None:
    plan = plan_of(SHAPES["fpm-opt union"], rows=997)
    grid = choose_grid(plan, most_rows=997)
    rng = np.random.default_rng(3)
    basis = Basis(("x0", "x1", "x2"), 2)
    for _ in range(20 if full else 3):
        rows = rng.integers(-grid.one, grid.one + 1, (997, 3)).astype(object)
        sums = [997, *rows.sum(axis=0)] + [(rows[:, i] * rows[:, j]).sum() for i in range(3) for j in range(i, 3)]
        found = centred_scatter(ExactStatistics(basis, grid, (), np.array(sums, dtype=np.int64), 997))
        centred = rows.astype(float) - rows.astype(float).mean(axis=0)
        true = np.array([(centred[:, i] * centred[:, j]).sum() for i in range(3) for j in range(i, 3)])
        assert (np.abs(found - true) <= 1 + 1e-12 * grid.one**2 * 997).all()
        # A step of the scatter is 2^-2g of a squared unit: nothing against its noise.
        assert 1 / grid.one**2 < 1e-6 * plan.blocks[0].sigma


@pytest.mark.parametrize("shape, budget", UNCENTRED)
def test_multiplying_and_dividing_again_adds_no_bias(shape: dict[str, Any], budget: Budget) -> None:
    plan = plan_of(shape, budget, rows=10**6)
    grid = choose_grid(plan, most_rows=10**6)
    zero = nothing(plan, grid, keys=50)
    rng = np.random.default_rng(0)
    filled = replace(
        zero,
        levels=tuple(rng.integers(-(10**6), 10**6, level.shape) for level in zero.levels),
        whole=rng.integers(-(10**6), 10**6, zero.whole.shape),
    )
    noisy = release(filled, plan, Constant(0), most_rows=10**6)
    for block in plan.blocks:
        exact = (filled.levels[block.level] if block.scope == "key" else filled.whole)[..., zero.basis.slice(block.order)]
        back = values_of(noisy, plan, block, zero.basis) * float(grid.one) ** block.order
        assert np.allclose(back, exact, rtol=1e-14, atol=1e-9)


# ------------------------------------------------------------------------------------------------ real releases

CARD: dict[str, Any] = {
    "dataset": {"name": "t"},
    "features": {"x": {"bounds": [0, 10]}, "y": {"bounds": [0, 10]}},
    "keys": {"k": {"domain": {"range": [1, 4000]}}, "few": {"column": "k", "domain": {"range": [1, 40]}}},
}


def sketch_of(table: pd.DataFrame, ledger: Ledger, name: str, **options: Any) -> Sketch:
    card = Card.parse(CARD | {"dataset": {"name": name}})
    request = ReleaseRequest(card, GAUSS, Neighbours.REPLACE_ONE, key="k", allocation="equal", **options)
    return privatize(table, request, ledger).sketch


def test_empty_keys_are_released_with_noise_like_all_others(ledger: Ledger) -> None:
    """One row, four thousand empty keys: none of them is 0, none is left out, and their noise is the plan's."""
    sketch = sketch_of(pd.DataFrame({"x": [5.0], "y": [5.0], "k": [1]}), ledger, "t")
    values = sketch.levels[0].values
    assert len(values) == 4001 and (values != 0).mean() > 0.999
    empty = values[1:4000, 0] / sketch.sigma("key", 0)  # type: ignore[operator]
    assert 0.85 < empty.std() < 1.15 and len(np.unique(empty)) > 2000


def low_bits(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two readings of a float's tail: the exponent of its lowest set bit, and the last four bits of its mantissa."""
    mantissa, exponent = np.frexp(values)
    whole = (np.abs(mantissa) * 2**53).astype(np.int64)
    trailing = np.array([(int(w) & -int(w)).bit_length() for w in whole])
    return exponent + trailing, whole & 15


def tells_apart(zero: np.ndarray, one: np.ndarray) -> float:
    """The least p-value with which the low-order bits tell two samples apart."""
    p = 1.0
    for a, b in zip(low_bits(zero), low_bits(one), strict=True):
        seen = np.unique(np.concatenate([a, b]))
        table = np.array([[(sample == value).sum() for value in seen] for sample in (a, b)])
        common = table[:, table.sum(axis=0) >= 10]
        rare = table[:, table.sum(axis=0) < 10].sum(axis=1, keepdims=True)
        table = np.hstack([common, rare]) if rare.sum() >= 10 else common
        if table.shape[1] > 1:
            p = min(p, float(stats.chi2_contingency(table)[1]))
    return p


@pytest.mark.parametrize("mechanism, layout", [("joint", "lookup"), ("joint", "semiring"), ("fpm", "join")])
def test_low_order_bits_do_not_tell_a_count_of_0_from_a_count_of_1(ledger: Ledger, mechanism: str, layout: str) -> None:
    keys = np.arange(1, 4001)
    nobody = pd.DataFrame({"x": 5.0, "y": 5.0, "k": np.zeros(4000, dtype=int)})  # all in the catch-all
    everybody = pd.DataFrame({"x": 5.0, "y": 5.0, "k": keys})
    card = {"mechanism": mechanism, "layout": layout}
    samples = []
    for name, table in (("nobody", nobody), ("everybody", everybody)):
        request = ReleaseRequest(
            Card.parse(CARD | {"dataset": {"name": name}}), GAUSS, Neighbours.REPLACE_ONE, key="k", yes=True, **card
        )
        samples.append(privatize(table, request, ledger).sketch.levels[0].values[:4000, 0])
    assert tells_apart(*samples) > 1e-9


def test_noise_added_in_floats_would_have_been_told_apart() -> None:
    """x + normal(): near 0, the sum with 1 has lost the bits that the sum with 0 still has."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 10, (2, 4000))
    assert tells_apart(0 + noise[0], 1 + noise[1]) < 1e-9


def twin(ledger: Ledger, name: str) -> Ledger:
    """A ledger with the same secret and nothing charged: what it would have been with another table."""
    ledger.secret("")
    copy = ledger.home.parent / "twins" / name
    copy.mkdir(parents=True)
    shutil.copy(ledger.home / "ledger.sqlite", copy)
    return Ledger(copy)


def test_neighbouring_tables_give_headers_that_differ_in_noise_and_digest_only(ledger: Ledger) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0, 10, 50), "y": rng.uniform(0, 10, 50), "k": rng.integers(1, 41, 50)})
    other = table.copy()
    other.loc[49] = [1e9, -1e9, 0]  # another person altogether, outside every bound and the domain
    for options in ({}, {"layout": "semiring", "bound": Decimal(1)}, {"mechanism": "fpm-opt", "allocation": None}):
        heads, layouts = [], []
        for part in (table, other):
            with_terms = {"allocation": "equal"} | options
            home = twin(ledger, f"{len(heads)}-{'-'.join(map(str, options.values()))}")
            request = ReleaseRequest(Card.parse(CARD), GAUSS, Neighbours.REPLACE_ONE, key="few", **with_terms)
            sketch = privatize(part, request, home).sketch
            head = sketch.header.model_dump(mode="json")
            assert head.pop("digest") and head.pop("created")  # a day, which may change meanwhile
            for block in head["global_blocks"]:
                block["values"] = len(block["values"])
            heads.append(head)
            layouts.append([([key.tolist() for key in t.keys], t.values.shape) for t in sketch.levels])
        assert heads[0] == heads[1] and layouts[0] == layouts[1]


def test_under_add_remove_the_header_does_not_tell_the_number_of_rows(ledger: Ledger) -> None:
    card = Card.parse(CARD | {"dataset": {"name": "t", "max_rows": 1000}})
    heads = []
    for number, rows in enumerate((50, 51, 0)):
        table = pd.DataFrame({"x": np.full(rows, 5.0), "y": np.full(rows, 5.0), "k": np.full(rows, 3)})
        request = ReleaseRequest(card, GAUSS, Neighbours.ADD_REMOVE, key="few", allocation="equal")
        head = privatize(table, request, twin(ledger, str(number))).sketch.header
        assert head.rows is None and head.invariants == {}
        heads.append(head.model_dump(mode="json", exclude={"digest", "created", "global_blocks"}))
    assert heads[0] == heads[1] == heads[2]


def test_two_releases_of_the_same_rows_have_different_noise(ledger: Ledger, tmp_path: Path) -> None:
    table = pd.DataFrame({"x": [5.0], "y": [5.0], "k": [1]})
    ledgers = (ledger, Ledger(tmp_path / "another"))  # one ledger would return the first release again
    one, other = (sketch_of(table, each, "one").levels[0].values for each in ledgers)
    assert (one != other).mean() > 0.999


def test_the_real_source_draws_exactly_on_integers() -> None:
    noise = OpenDPNoise()
    for draw in (noise.gaussian, noise.laplace):
        heard: list[int] = []
        values = np.arange(50_000, dtype=np.int64).reshape(500, 100) * 10**12
        found = draw(values, 5000.0, heard.append)
        assert found.dtype == np.int64 and found.shape == values.shape and sum(heard) == values.size
        assert 0 < np.abs(found - values).max() < 5000 * 60
        assert draw(np.zeros((0,), np.int64), 5000.0, heard.append).shape == (0,)
