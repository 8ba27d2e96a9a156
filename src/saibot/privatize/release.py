"""The one step with randomness: exact integers in, noisy statistics out. Proof: privacy/mechanisms/integer_release.proof.md.

All blocks form one integer vector with one noise scale s. A block whose noise should be sigma (in grid units tau) enters
multiplied by the whole number A = floor(s/tau), so its noise is s/A >= tau: rounding only ever adds noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from saibot.errors import SaibotError, UnsupportedPlan
from saibot.privacy.calibration import STEPS_PER_SIGMA
from saibot.privacy.mechanisms import Block, Plan
from saibot.privacy.mechanisms.joint import cost
from saibot.privatize.aggregate import ExactStatistics
from saibot.privatize.grid import Grid
from saibot.privatize.noise import NoiseSource, gaussian_measurement, laplace_measurement
from saibot.semiring import Basis

MAX_BITS = 15
# Multipliers have at least this many bits where the range allows, so that flooring them costs little noise.
_MULTIPLIER_BITS = 12
_LEAST_MULTIPLIER_BITS = 8
_RANGE = 2.0**62  # what a scaled sum and its noise may fill of 64 bits
_ROUNDING = 1 + 1e-12  # more than floats lose between a plan and its multipliers, so that noise errs upwards only
_TAIL = 60.0  # noise beyond 60 scales never happens; if it did, 64-bit saturation would be post-processing


@dataclass(frozen=True)
class NoisyStatistics:
    """What a release gives: floats in scaled units, noise included. Safe to publish."""

    levels: tuple[np.ndarray, ...]
    whole: dict[int, np.ndarray]


def choose_grid(plan: Plan, *, most_rows: int) -> Grid:
    """The finest grid on which all sums stay exact and the scaled vector fits 64 bits. Depends on public facts only."""
    order = plan.request.order
    bits = min(MAX_BITS, (52 - max(most_rows - 1, 1).bit_length()) // max(order, 1))
    while bits >= 1:
        grid = Grid(bits, plan.request.bound_squared)
        if grid.norm_squared >= 1 and _multiplier_bits(plan, grid, most_rows) >= _LEAST_MULTIPLIER_BITS:
            return grid
        bits -= 1
    raise UnsupportedPlan(
        "no grid is fine enough for this many rows at this order and bound.", hint="Lower --order, or split the table."
    )


def release(
    statistics: ExactStatistics,
    plan: Plan,
    noise: NoiseSource,
    *,
    most_rows: int,
    done: Callable[[int], None] = lambda _: None,
) -> NoisyStatistics:
    """Add noise to every number that the plan names. Empty keys get theirs like all others."""
    scale = _scale(plan, statistics.grid, most_rows)
    pieces = [_Piece.of(block, statistics, plan, scale, most_rows) for block in plan.blocks]
    _check_against_opendp(pieces, plan, scale)
    vector = np.concatenate([piece.scaled.ravel() for piece in pieces])
    draw = noise.gaussian if plan.noise == "gaussian" else noise.laplace
    noisy = draw(vector, _law_scale(plan, scale), done)
    return _collect(pieces, noisy, statistics, plan)


def value_count(plan: Plan, key_counts: tuple[int, ...]) -> int:
    """How many numbers a release of this plan draws noise for."""
    m = plan.request.features
    return sum(block.entries(m) * (key_counts[block.level] if block.scope == "key" else 1) for block in plan.blocks)


# ------------------------------------------------------------------------------------------------ inside


@dataclass(frozen=True)
class _Piece:
    """One block: its integers times their multipliers, and what divides them back to scaled units."""

    block: Block
    scaled: np.ndarray
    divisor: np.ndarray

    @classmethod
    def of(cls, block: Block, statistics: ExactStatistics, plan: Plan, scale: float, most_rows: int) -> _Piece:
        columns = statistics.basis.slice(block.order)
        multiplicities = [monomial.multiplicity for monomial in statistics.basis.monomials[columns]]
        taus = np.array([_tau(block, weight, statistics.grid, plan) for weight in multiplicities])
        multipliers = np.floor(scale / taus).astype(np.int64)
        if block.centred:
            exact = centred_scatter(statistics)
        else:
            exact = (statistics.levels[block.level] if block.scope == "key" else statistics.whole)[..., columns]
        # A clamp is a projection, so it moves neighbours no further apart; it keeps 64 bits safe whatever the rows are.
        limit = most_rows * statistics.grid.one**block.order
        return cls(
            block, np.clip(exact, -limit, limit) * multipliers, multipliers * float(statistics.grid.one) ** block.order
        )

    def least_noise(self, law: float, plan: Plan) -> float:
        """The block's noise parameter as its multipliers give it, before multinomial weights: the least over its entries."""
        if not self.block.weighted:
            return float(law / self.divisor.max())
        basis = Basis(tuple(f"f{i}" for i in range(plan.request.features)), max(self.block.order, 1))
        weights = [monomial.multiplicity for monomial in basis.monomials[basis.slice(self.block.order)]]
        return float((law / self.divisor * np.sqrt(weights)).min())


def centred_scatter(statistics: ExactStatistics) -> np.ndarray:
    """floor of sum x_i x_j - (sum x_i)(sum x_j)/n, packed, in exact arithmetic of any size."""
    basis, n = statistics.basis, statistics.rows
    whole = [int(value) for value in statistics.whole]
    answers = []
    for number, monomial in enumerate(basis.monomials):
        if monomial.order == 2:
            first, second = monomial.features
            numerator = n * whole[number] - whole[basis.index(first)] * whole[basis.index(second)]
            answers.append(numerator // n)
    return np.array(answers, dtype=np.int64)


def _tau(block: Block, multiplicity: int, grid: Grid, plan: Plan) -> float:
    """The noise a number should have, in grid units; the centred scatter's also covers its rounding to whole numbers."""
    tau = block.noise_of(multiplicity) * float(grid.one) ** block.order * _ROUNDING
    if block.centred:
        m = plan.request.features
        rounding = m if plan.noise == "gaussian" else m * (m + 1) / 2
        tau *= 1 + rounding / (block.sensitivity * float(grid.one) ** 2)
    return tau


def _law_scale(plan: Plan, scale: float) -> float:
    """OpenDP's parameter: the standard deviation for the Gaussian, the decay length for Laplace."""
    return scale if plan.noise == "gaussian" else scale / math.sqrt(2)


@lru_cache(maxsize=256)
def _all_taus(plan: Plan, grid: Grid) -> tuple[tuple[Block, float], ...]:
    m = plan.request.features
    found = []
    for block in plan.blocks:
        if block.order == 0:
            weights = {1}
        else:
            names = tuple(f"f{i}" for i in range(m))
            basis = Basis(names, block.order)
            weights = {monomial.multiplicity for monomial in basis.monomials[basis.slice(block.order)]}
        found += [(block, _tau(block, weight, grid, plan)) for weight in weights]
    return tuple(found)


def _multiplier_bits(plan: Plan, grid: Grid, most_rows: int) -> int:
    """How many bits the smallest multiplier may have before the largest scaled sum, with its noise, leaves 62 bits."""
    taus = _all_taus(plan, grid)
    largest = max(tau for _, tau in taus)
    most = max(most_rows * float(grid.one) ** block.order / tau for block, tau in taus)
    if STEPS_PER_SIGMA * math.sqrt(2) * (most + _TAIL) > _RANGE:  # the least scale there is would be too large already
        return -1
    room = _RANGE / (largest * (most + _TAIL))
    return math.floor(math.log2(room)) if room >= 1 else -1


@lru_cache(maxsize=256)
def _scale(plan: Plan, grid: Grid, most_rows: int) -> float:
    bits = min(_multiplier_bits(plan, grid, most_rows), _MULTIPLIER_BITS)
    if bits < _LEAST_MULTIPLIER_BITS:
        raise UnsupportedPlan("the table is too large for its grid.", hint="Raise max_rows in the card.")
    largest = max(tau for _, tau in _all_taus(plan, grid))
    return float(math.ceil(max(largest * 2**bits, STEPS_PER_SIGMA * math.sqrt(2))))


def _check_against_opendp(pieces: list[_Piece], plan: Plan, scale: float) -> None:
    """What one individual can move in the integer vector, by its own multipliers, must be what OpenDP's map allows."""
    law = _law_scale(plan, scale)
    if not _confirmed(plan, law, tuple(piece.least_noise(law, plan) for piece in pieces)):
        raise SaibotError(
            "internal: OpenDP's privacy map does not confirm the plan; nothing was released. Please report this."
        )


@lru_cache(maxsize=256)
def _confirmed(plan: Plan, law: float, noise: tuple[float, ...]) -> bool:
    """An independent second reading of the plan: the exact joint distance of the vector that is about to get noise."""
    if any(block.centred for block in plan.blocks):
        moved = max(block.sensitivity / least for block, least in zip(plan.blocks, noise, strict=True))
    else:
        moved = cost(plan.blocks, list(noise), plan.request)
    if plan.noise == "gaussian":
        assert plan.mu is not None
        claimed, given = plan.mu**2 / 2, gaussian_measurement(law).map(moved * law)
    else:
        claimed = float(plan.request.budget.epsilon * plan.request.share)
        given = laplace_measurement(law).map(math.floor(moved * law))
    return bool(given <= claimed * (1 + 1e-9))


def _collect(pieces: list[_Piece], noisy: np.ndarray, statistics: ExactStatistics, plan: Plan) -> NoisyStatistics:
    whole: dict[int, np.ndarray] = {}
    per_key: dict[int, list[np.ndarray]] = {}
    start = 0
    for piece in pieces:
        size = piece.scaled.size
        values = noisy[start : start + size].reshape(piece.scaled.shape) / piece.divisor
        start += size
        if piece.block.scope == "global":
            whole[piece.block.order] = values
        else:
            per_key.setdefault(piece.block.level, []).append(values)
    return NoisyStatistics(tuple(np.concatenate(per_key[level], axis=1) for level in sorted(per_key)), whole)
