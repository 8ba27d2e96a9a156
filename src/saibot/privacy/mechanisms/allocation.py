"""How a joint plan divides its noise between blocks: four ways to choose the proportions of the sigmas.

`alg2`: the proportions of the paper's Algorithm 2, sqrt(2) B^i for even and 2 B^i for odd orders (Laplace: those of the l1
distances). `equal`: one sigma for all. `auto`: the proportions that minimise the predicted error of the regression.
`values`: those that make looked-up values most certain (value_allocation.py).

What `auto` predicts. Statistics of a typical table have size c, c rho, c rho^2 per key (count, sums, products), with
rho^2 = B^2/(3m) the mean square of one feature spread evenly over its bounds. The sketch is joined with another of the same
shape, once as the request and once as the provider, and the objective J is the sum of the squared relative errors of all
moments that the regression reads:

* layout `semiring`, the product of the semi-ring: the own count multiplies the partner's count, sums and products, own sums
  its count and sums, own products its count only. J = sum_i (entries of order i) * C(1+k-i, 1) sigma_i^2 / rho^2i, one
  partner feature, off-diagonal noise counted as it is.
* layout `lookup`, values z_k = s_k/c_k joined to rows: as the request, counts and sums meet z_k in sum c z, sum c z^2 and
  sum s z, and the global blocks enter once; as the provider, z_k has variance v = (sigma_1^2 + rho^2 sigma_0^2)/c^2 with one
  level and sum_l t v_l/(t + v_l), t = rho^2/levels, with several (each level's deviation is shrunk), and enters the same
  three moments with weights 1, m and 4.
* layout `union`: J = sum_i sum over entries of sigma^2 / rho^2i.

J is minimised over all proportions at equal privacy, numerically; a test holds it against a grid. A level's error is shrunk,
so J may find it cheapest to give a level up altogether; but a sketch is read by more than one regression, so the noise of a
coarser level is at most as many times that of the finer one as there are fewer keys: its means are no less certain. Sizes of
the key levels are public and may be given; without them 100 keys of 30 rows are assumed, ten keys to a parent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from saibot.privacy.calibration import analytic_mu
from saibot.privacy.mechanisms.plan import Block, PlanRequest
from saibot.privacy.mechanisms.value_allocation import block_scales, level_shares

TYPICAL_KEYS = 100
TYPICAL_ROWS_PER_KEY = 30
TYPICAL_CHILDREN = 10
_WIDEST = math.log(1000)  # how far `auto` may go from the proportions of `alg2`


def allocate(request: PlanRequest, blocks: tuple[Block, ...], cost: Callable[[list[float]], float]) -> list[float]:
    """Proportions of the blocks' noise scales; only their ratios mean anything."""
    match request.allocation or "auto":
        case "equal":
            return [1.0] * len(blocks)
        case "alg2":
            return [_alg2(request, block) for block in blocks]
        case "values":
            return _most_certain_values(request, blocks, cost)
        case _:
            return _least_error(request, blocks, cost)


def _most_certain_values(
    request: PlanRequest, blocks: tuple[Block, ...], cost: Callable[[list[float]], float]
) -> list[float]:
    keys, squared = _keys(request), float(request.bound_squared)
    places = [(block.scope, block.level, block.order) for block in blocks]
    # What a sum's noise would be with nothing but the finest level: the absolute scale that the shares depend on.
    alone = block_scales(places, np.array([1.0] + [1e-9] * (request.levels - 1)), bound_squared=squared)
    sum_noise = request.bound * cost(alone) / budget_mu(request)
    rows = request.rows or TYPICAL_ROWS_PER_KEY * keys[0]
    rho_squared = squared / (3 * request.features)
    shares = level_shares(keys, rows, sum_noise=sum_noise, rho_squared=rho_squared, bound_squared=squared)
    return block_scales(places, shares, bound_squared=squared)


def budget_mu(request: PlanRequest) -> float:
    """What one individual may move in units of the noise: exactly for Gaussian noise, in its Laplace analogue otherwise."""
    if request.budget.pure:
        return float(request.budget.epsilon * request.share) / math.sqrt(2)
    return analytic_mu(request.budget, touched=1) * math.sqrt(request.share)


def _alg2(request: PlanRequest, block: Block) -> float:
    if request.budget.pure:
        return block.sensitivity
    return (2.0 if block.order % 2 else math.sqrt(2.0)) * request.bound**block.order


def _least_error(request: PlanRequest, blocks: tuple[Block, ...], cost: Callable[[list[float]], float]) -> list[float]:
    """Minimise predicted error x cost^2 over the logarithms of the proportions: the scale drops out."""
    from scipy.optimize import minimize

    start = np.log([_alg2(request, block) for block in blocks])

    def near(logs: np.ndarray) -> np.ndarray:
        """A block that the prediction has no use for would get noise without limit, which no grid can hold."""
        kept: np.ndarray = np.clip(logs, start - _WIDEST, start + _WIDEST)
        return kept

    def useful(logs: np.ndarray) -> np.ndarray:
        return _no_level_given_up(request, blocks, near(logs))

    def search(best: np.ndarray, allowed: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        def objective(logs: np.ndarray) -> float:
            scales = list(np.exp(allowed(logs)))
            reached = cost(scales)
            return math.log(predicted_error(request, blocks, [s * reached for s in scales]))

        for _ in range(3):  # restarts: a simplex can collapse along the kinks of the maximum
            options = {"xatol": 1e-7, "fatol": 1e-10, "maxiter": 4000, "maxfev": 8000, "adaptive": len(blocks) > 4}
            best = minimize(objective, best, method="Nelder-Mead", options=options).x
        return allowed(best)

    found = search(start, near)
    if not np.array_equal(useful(found), found):  # seldom; a limit that does not matter would only get in the simplex's way
        found = search(useful(found), useful)
    return [float(s) for s in np.exp(found - found[0])]


def _no_level_given_up(request: PlanRequest, blocks: tuple[Block, ...], logs: np.ndarray) -> np.ndarray:
    """No coarser level noisier, per row of a key, than the finer one below it."""
    keys, kept = _keys(request), logs.copy()
    place = {(block.scope, block.level, block.order): number for number, block in enumerate(blocks)}
    for number, block in enumerate(blocks):
        if block.level > 0:  # levels come finest first
            fewer = math.log(max(keys[block.level - 1] / keys[block.level], 1))
            kept[number] = min(kept[number], kept[place["key", block.level - 1, block.order]] + fewer)
    return kept


def predicted_error(request: PlanRequest, blocks: tuple[Block, ...], sigmas: list[float]) -> float:
    """J of the module's docstring, for the given noise."""
    variance = {(b.scope, b.level, b.order): s**2 for b, s in zip(blocks, sigmas, strict=True)}
    m, k = request.features, request.order
    rho2 = float(request.bound_squared) / (3 * m)
    effective = {b.order: _effective_entries(b, m) for b in blocks}
    if request.layout == "semiring":
        return sum(effective[i] * math.comb(1 + k - i, 1) * variance["key", 0, i] / rho2**i for i in range(k + 1))
    if request.layout == "union":
        return sum(effective[b.order] * variance["global", 0, b.order] / rho2**b.order for b in blocks)
    keys = _keys(request)
    rows = request.rows or TYPICAL_ROWS_PER_KEY * keys[0]
    d = keys[0]
    asked = 2 * d * variance["key", 0, 0] + m * d * variance["key", 0, 1] / rho2
    asked += m * variance["global", 0, 1] / rho2 + effective[2] * variance["global", 0, 2] / rho2**2
    error = 0.0
    prior = math.inf if request.levels == 1 else rho2 / request.levels
    for level in range(request.levels):
        noise = (variance["key", level, 1] + rho2 * variance["key", level, 0]) * (keys[level] / rows) ** 2
        error += noise if math.isinf(prior) else prior * noise / (prior + noise)
    # Errors of the provider's values, in the units of `asked`: n^2 times the squared relative error of a moment.
    provided = (1 + m + 4) * m * error / rho2 * rows**2 / d
    return asked + provided


def _keys(request: PlanRequest) -> tuple[int, ...]:
    return request.keys or tuple(max(TYPICAL_KEYS // TYPICAL_CHILDREN**level, 1) for level in range(request.levels))


def _effective_entries(block: Block, features: int) -> float:
    """Entries of an order, each counted with its noise variance relative to sigma^2."""
    return _inverse_weights(features, block.order) if block.weighted else block.entries(features)


@lru_cache
def _inverse_weights(features: int, order: int) -> float:
    """The sum of 1/M(a) over all monomials x^a of an order: the coefficient of t^i in (sum_n n! t^n)^m, over i!."""
    one = [math.factorial(n) for n in range(order + 1)]
    power = [1] + [0] * order
    for _ in range(features):
        power = [sum(power[j] * one[n - j] for j in range(n + 1)) for n in range(order + 1)]
    return power[order] / math.factorial(order)
