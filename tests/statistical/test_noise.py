"""The noise that is really released: its scale, its shape, its independence. For every mechanism, layout and law.

Every judgement is a p-value against 1e-9, so that a sound release fails once in a thousand million runs; samples are so
large that a noise of 0.7 or 1.3 times its promise is rejected with the same certainty. Each test is itself tested: it must
reject what it is there to find, and it is shown releases that are really wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.aggregate import ExactStatistics
from saibot.privatize.noise import CHUNK, ExactNoise, NoiseSource, OpenDPNoise
from saibot.privatize.release import choose_grid, release
from saibot.semiring import Basis

pytestmark = pytest.mark.statistical

P_MIN = 1e-9
WRONG = (0.7, 1.3)
ROWS = 1000
SHAPES: dict[str, dict[str, Any]] = {
    "fpm join": {"mechanism": "fpm", "layout": "join"},
    "fpm union": {"mechanism": "fpm", "layout": "union"},
    "fpm-opt join": {"mechanism": "fpm-opt", "layout": "join"},
    "fpm-opt union": {"mechanism": "fpm-opt", "layout": "union"},
    "joint semiring": {"mechanism": "joint", "layout": "semiring"},
    "joint semiring, order 3": {"mechanism": "joint", "layout": "semiring", "order": 3, "features": 3},
    "joint union": {"mechanism": "joint", "layout": "union"},
    "joint union, count protected": {
        "mechanism": "joint",
        "layout": "union",
        "features": 1,
        "neighbours": Neighbours.ADD_REMOVE,
        "row_count_public": False,
    },
    "joint lookup": {"mechanism": "joint", "layout": "lookup"},
    "joint lookup, three levels": {"mechanism": "joint", "layout": "lookup", "levels": 3},
}
LAWS = {"Gaussian": Budget("1", "1e-6"), "Laplace": Budget("1")}
# How noise is drawn, and from which law: Gaussian noise of large releases comes in bulk.
DRAWN = [("Gaussian", OpenDPNoise()), ("Gaussian", ExactNoise(many=1)), ("Laplace", OpenDPNoise())]
drawn = pytest.mark.parametrize("law, noise", DRAWN, ids=["Gaussian", "Gaussian in bulk", "Laplace"])
NEEDED = {"gaussian": 2000, "laplace": 3000}  # draws that tell 0.7 and 1.3 from 1 at 1e-9, with room to spare


def plan_of(shape: dict[str, Any], budget: Budget) -> Plan:
    terms = {"features": 6, "order": 2, "neighbours": Neighbours.REPLACE_ONE, "row_count_public": True, "rows": ROWS}
    terms |= {"allocation": "alg2"} if shape["mechanism"] == "joint" else {}
    terms |= shape
    if not terms["row_count_public"]:
        terms["rows"] = None
    return make_plan(PlanRequest(budget=budget, bound_squared=Decimal(terms["features"]), **terms))


def scaled(plan: Plan, factor: float) -> Plan:
    """The same plan with all noise multiplied, and with the claim that belongs to it, so that nothing else stops it."""
    blocks = tuple(replace(block, sigma=block.sigma * factor) for block in plan.blocks)
    if plan.mu is not None:
        return replace(plan, blocks=blocks, mu=plan.mu / factor)
    epsilon = (plan.request.budget.epsilon / Decimal(str(factor))).quantize(Decimal("1e-9"))
    return replace(plan, blocks=blocks, request=replace(plan.request, budget=Budget(epsilon)))


Draws = dict[tuple[str, int, int, int], np.ndarray]  # (scope, level, order, multinomial weight): released noise


def draws_of(plan: Plan, needed: int, noise: NoiseSource | None = None) -> Draws:
    """Noise of every kind of number in a plan: releases of tables whose statistics are all zero."""
    m, k = plan.request.features, plan.request.order
    basis = Basis(tuple(f"x{i}" for i in range(m)), k)
    least = min((m for block in plan.blocks if block.scope == "global" and block.order), default=needed)
    least = 1 if any(block.scope == "global" and block.order == 0 for block in plan.blocks) else least
    times = math.ceil(needed / least)
    keys = math.ceil(needed / times)
    grid = choose_grid(plan, most_rows=ROWS)
    levels = tuple(np.zeros((keys, basis.size), np.int64) for _ in range(plan.request.levels)) if plan.request.keyed else ()
    zero = ExactStatistics(basis, grid, levels, np.zeros(basis.size, np.int64), ROWS)
    found: dict[tuple[str, int, int, int], list[np.ndarray]] = {}
    for _ in range(times):
        noisy = release(zero, plan, noise or OpenDPNoise(), most_rows=ROWS)
        for block in plan.blocks:
            columns = basis.slice(block.order)
            values = noisy.whole[block.order] if block.scope == "global" else noisy.levels[block.level][:, columns]
            for place, monomial in enumerate(basis.monomials[columns]):
                kind = (block.scope, block.level, block.order, monomial.multiplicity)
                found.setdefault(kind, []).append(np.atleast_1d(values[..., place]))
    return {kind: np.concatenate(parts) for kind, parts in found.items()}


def promised(plan: Plan, kind: tuple[str, int, int, int]) -> float:
    scope, level, order, multiplicity = kind
    block = plan.block(scope, order, level)  # type: ignore[arg-type]
    assert block is not None
    return block.noise_of(multiplicity)


def scale_p(sample: np.ndarray, sigma: float, law: str) -> float:
    """Two-sided p-value of noise with this standard deviation: squares for the Gaussian, sizes for Laplace."""
    if law == "gaussian":
        statistic, expected = float((sample**2).sum() / sigma**2), stats.chi2(len(sample))
    else:
        statistic, expected = float(np.abs(sample).sum() / (sigma / math.sqrt(2))), stats.gamma(len(sample))
    return 2 * min(float(expected.cdf(statistic)), float(expected.sf(statistic)))


def centre_p(sample: np.ndarray, sigma: float) -> float:
    return float(2 * stats.norm.sf(abs(sample.mean()) / (sigma / math.sqrt(len(sample)))))


# ------------------------------------------------------------------------------------------------ scale


@drawn
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_noise_is_what_the_plan_says_neither_less_nor_more(
    shape: dict[str, Any], law: str, noise: NoiseSource, full: bool
) -> None:
    plan = plan_of(shape, LAWS[law])
    needed = NEEDED[plan.noise] * (10 if full else 1)
    draws = draws_of(plan, needed, noise)
    expected_kinds = {(b.scope, b.level, b.order) for b in plan.blocks}
    assert {kind[:3] for kind in draws} == expected_kinds
    for kind, sample in draws.items():
        sigma = promised(plan, kind)
        assert len(sample) >= needed
        assert scale_p(sample, sigma, plan.noise) > P_MIN, kind
        assert centre_p(sample, sigma) > P_MIN, kind
        for wrong in WRONG:
            assert scale_p(sample, sigma * wrong, plan.noise) < P_MIN, (kind, wrong)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ["joint semiring", "fpm join", "fpm-opt union", "joint lookup"])
def test_the_scale_test_would_catch_a_wrong_sigma(name: str, law: str, wrong: float) -> None:
    """Really released with another sigma, and judged by the right one."""
    honest = plan_of(SHAPES[name], LAWS[law])
    for kind, sample in draws_of(scaled(honest, wrong), NEEDED[honest.noise]).items():
        assert scale_p(sample, promised(honest, kind), honest.noise) < P_MIN, kind


@pytest.mark.parametrize("law", LAWS)
def test_off_diagonal_entries_have_their_own_noise_and_not_the_diagonals(law: str) -> None:
    """Free in l2, so Gaussian blocks of `joint` have sigma/sqrt(2) there; not free in l1, so Laplace blocks do not."""
    plan = plan_of(SHAPES["joint semiring"], LAWS[law])
    draws = draws_of(plan, NEEDED[plan.noise])
    block = plan.block("key", 2)
    assert block is not None
    off, diagonal = draws["key", 0, 2, 2], draws["key", 0, 2, 1]
    assert scale_p(diagonal, block.sigma, plan.noise) > P_MIN
    gain = math.sqrt(2) if law == "Gaussian" else 1.0
    assert scale_p(off, block.sigma / gain, plan.noise) > P_MIN
    if law == "Gaussian":
        assert scale_p(off, block.sigma, plan.noise) < P_MIN


@pytest.mark.parametrize("budget", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("options", [{}, {"layout": "semiring"}, {"mechanism": "fpm"}, {"mechanism": "fpm-opt"}], ids=str)
def test_a_sketch_on_disk_has_the_noise_that_its_header_states(
    options: dict[str, Any], budget: Budget, saibot_home: Any
) -> None:
    """All the way: a real table, the real verb, and nothing but what the file says."""
    keys = NEEDED["laplace"]
    card = Card.parse(
        {
            "dataset": {"name": "t"},
            "features": {"x": {"bounds": [0, 10]}, "y": {"bounds": [0, 10]}},
            "keys": {"k": {"domain": {"range": [1, keys]}}},
        }
    )
    request = ReleaseRequest(card, budget, Neighbours.REPLACE_ONE, key="k", yes=True, **options)
    outside = pd.DataFrame({"x": [1.0, 9.0] * 20, "y": [3.0, 4.0] * 20, "k": 0})  # every key of the domain is empty
    sketch = privatize(outside, request, Ledger(saibot_home)).sketch
    for place, monomial in enumerate(sketch.key_basis.monomials):
        sigma = sketch.sigma("key", monomial.order, multiplicity=monomial.multiplicity)
        sample = sketch.levels[0].values[:keys, place]
        assert sigma is not None and scale_p(sample, sigma, sketch.plan.noise) > P_MIN
        for wrong in WRONG:
            assert scale_p(sample, sigma * wrong, sketch.plan.noise) < P_MIN


# ------------------------------------------------------------------------------------------------ shape

FORMS = {"gaussian": stats.norm(), "laplace": stats.laplace(scale=1 / math.sqrt(2))}


@drawn
def test_the_shape_is_the_laws_own_and_not_the_other_ones(law: str, noise: NoiseSource, full: bool) -> None:
    plan = plan_of(SHAPES["joint semiring"], LAWS[law])
    draws = draws_of(plan, 30_000 if full else 2000, noise)
    sample = np.concatenate([sample / promised(plan, kind) for kind, sample in draws.items()])
    other = "laplace" if plan.noise == "gaussian" else "gaussian"
    assert len(sample) >= 20_000
    assert stats.kstest(sample, FORMS[plan.noise].cdf).pvalue > P_MIN
    assert stats.kstest(sample, FORMS[other].cdf).pvalue < P_MIN


@drawn
def test_the_tails_are_there_and_no_longer_than_they_should_be(law: str, noise: NoiseSource) -> None:
    """A sampler that cut its tails off would pass many tests and break delta."""
    plan = plan_of(SHAPES["joint semiring"], LAWS[law])
    sample = np.concatenate([sample / promised(plan, kind) for kind, sample in draws_of(plan, 2000, noise).items()])
    form = FORMS[plan.noise]
    for reach in (2.0, 3.0):
        beyond, chance = int((np.abs(sample) > reach).sum()), 2 * float(form.sf(reach))
        assert stats.binomtest(beyond, len(sample), chance).pvalue > P_MIN
        cut = int((np.abs(np.clip(sample, -reach, reach)) > reach).sum())
        assert stats.binomtest(cut, len(sample), chance).pvalue < P_MIN


# ------------------------------------------------------------------------------------------------ independence


def correlation_p(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one.ravel(), other.ravel()
    z = float((one * other).sum() / math.sqrt((one**2).sum() * (other**2).sum())) * math.sqrt(len(one))
    return float(2 * stats.norm.sf(abs(z)))


def independence_p(noise: NoiseSource, plan: Plan) -> float:
    """The least p-value among: columns of one key, keys next to each other, keys far apart, chunks drawn apart."""
    m, k = plan.request.features, plan.request.order
    basis = Basis(tuple(f"x{i}" for i in range(m)), k)
    keys = 2 * CHUNK // basis.size + 1000
    grid = choose_grid(plan, most_rows=ROWS)
    zero = ExactStatistics(basis, grid, (np.zeros((keys, basis.size), np.int64),), np.zeros(basis.size, np.int64), ROWS)
    values = release(zero, plan, noise, most_rows=ROWS).levels[0]
    values = values / values.std(axis=0)
    pairs = [(values[:, i], values[:, j]) for i in range(4) for j in range(i)]
    pairs += [(values[:-1], values[1:]), (values[: keys // 2], values[keys - keys // 2 :])]
    # In the order in which numbers are drawn (order by order, key by key), lags up to a chunk apart.
    drawn = np.concatenate([values[:, basis.slice(order)].ravel() for order in range(k + 1)])
    pairs += [(drawn[lag:], drawn[:-lag]) for lag in (1, 2, CHUNK // 2, CHUNK)]
    return min(correlation_p(a, b) for a, b in pairs)


@drawn
def test_noise_is_independent_across_keys_columns_and_chunks(law: str, noise: NoiseSource) -> None:
    assert independence_p(noise, plan_of(SHAPES["joint semiring"], LAWS[law])) > P_MIN


class Repeats:
    """A source that draws once for every `period` entries and uses it again: a seed that is set anew, say."""

    simulated = True

    def __init__(self, period: int) -> None:
        self.period = period

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        drawn = OpenDPNoise().gaussian(np.zeros(min(self.period, values.size), np.int64), scale, done)
        return values + np.resize(drawn, values.shape)

    def laplace(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        raise NotImplementedError

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        raise NotImplementedError


@pytest.mark.parametrize("period", [1, 2, CHUNK // 2, CHUNK])
def test_noise_that_repeats_itself_would_be_caught(period: int) -> None:
    assert independence_p(Repeats(period), plan_of(SHAPES["joint semiring"], LAWS["Gaussian"])) < P_MIN


def test_two_releases_share_no_noise() -> None:
    plan = plan_of(SHAPES["joint semiring"], LAWS["Gaussian"])
    one, other = draws_of(plan, 2000), draws_of(plan, 2000)
    for kind in one:
        assert correlation_p(one[kind], other[kind]) > P_MIN
        assert correlation_p(one[kind], one[kind]) < P_MIN
