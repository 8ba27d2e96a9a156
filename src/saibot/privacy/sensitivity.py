"""How far one individual can move the released statistics.

Three families. The paper's own bounds (Algorithms 1 and 2), kept for its two mechanisms. The l1 bounds that Laplace noise
needs. And the *joint* bound: the exact l2 distance, in units of each block's noise, maximised over all pairs of
neighbouring rows, which is what the `joint` mechanism is calibrated to. Proofs: mechanisms/*.proof.md.

Symbols: B norm bound of a row, m features, k order; W_i and V_i precisions 1/sigma_i^2 of the per-key and of the global
block of order i. A monomial x^a of order i carries noise sigma_i / sqrt(M(a)) with the multinomial weight M(a), so that an
order's squared distance is the polynomial |x|^2i + |x'|^2i - 2 (x.x')^i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as cartesian

import numpy as np

from saibot.privacy.neighbours import Neighbours

# ------------------------------------------------------------------------------------------------ the paper, l2


def union_l2(*, order: int, bound_squared: float, features: int) -> float:
    """Alg. 1 line 2, replace-one, orders 1..k of the whole table."""
    return math.sqrt(sum(_same_key_term(i, bound_squared, features) for i in range(1, order + 1)))


def join_l2(*, order: int, bound_squared: float, features: int) -> float:
    """Alg. 1 line 7, replace-one, orders 0..k per key: the row changes in place, or moves to another key."""
    moves = 2 * sum(bound_squared**i for i in range(order + 1))
    return max(union_l2(order=order, bound_squared=bound_squared, features=features), math.sqrt(moves))


def one_order_l2(*, order: int, bound_squared: float) -> float:
    """Alg. 2 line 2: one order by itself, per key."""
    return float((2.0 if order % 2 else math.sqrt(2.0)) * bound_squared ** (order / 2))


def centred_scatter_l2(*, bound_squared: float, rows: int | None) -> float:
    """Frobenius distance of the centred scatter matrix, any number of features: 4 B^2 (n-1)/n, exact; 4 B^2 without n."""
    return 4 * bound_squared * (1.0 if rows is None else (rows - 1) / rows)


def add_remove_l2(orders: range, *, bound_squared: float) -> float:
    """One row appears or disappears: its own monomials, |x|^2i of them per order with multinomial weights at least 1."""
    return math.sqrt(sum(bound_squared**i for i in orders))


def _same_key_term(i: int, bound_squared: float, features: int) -> float:
    weight = 4 if i % 2 else (1 if features == 1 else 2)
    return weight * bound_squared**i


# ------------------------------------------------------------------------------------------------ l1, for Laplace


def row_l1(*, order: int, bound_squared: float, features: int) -> float:
    """The largest l1 norm of one row's packed monomials of one order.

    The sum of |x^a| is the complete homogeneous polynomial h_i of the |x_j|. Written in power sums, with p_1 <= sqrt(m) B
    and p_j <= B^j for j >= 2, its generating function is at most exp((sqrt(m)-1) B t) / (1 - B t); exact for i <= 2.
    """
    excess = math.sqrt(features) - 1
    return float(bound_squared ** (order / 2) * sum(excess**j / math.factorial(j) for j in range(order + 1)))


def replaced_l1(*, order: int, bound_squared: float, features: int) -> float:
    """l1 distance of one order when a row is replaced and the key, if any, stays (or there is none)."""
    if order == 0:
        return 0.0
    if order == 2 and features <= 4:
        return bound_squared * _packed_square_spread(features)
    if order % 2 == 0 and features == 1:
        return float(bound_squared ** (order / 2))
    return 2 * row_l1(order=order, bound_squared=bound_squared, features=features)


@lru_cache
def _packed_square_spread(features: int) -> float:
    """sup of sum_{i<=j} |x_i x_j - y_i y_j| over the unit ball, by enumeration.

    For fixed signs of the summands the supremum is lmax(E) - lmin(E), E symmetric with the signs on its diagonal and half of
    them off it, so the maximum over all sign patterns (at most 1024 for four features) is exact.
    """
    upper = np.triu_indices(features)
    spread = 0.0
    for signs in cartesian((-1.0, 1.0), repeat=len(upper[0])):
        form = np.zeros((features, features))
        form[upper] = signs
        eigenvalues = np.linalg.eigvalsh((form + form.T) / 2)
        spread = max(spread, max(eigenvalues[-1], 0.0) - min(eigenvalues[0], 0.0))
    return float(spread) * (1 + 1e-12)


# ------------------------------------------------------------------------------------------------ joint, l2


@dataclass(frozen=True, slots=True)
class Precisions:
    """Precisions 1/sigma^2 of a joint release: `per_key[level][order]` (finest level first) and `whole[order]`."""

    per_key: tuple[tuple[float, ...], ...]
    whole: tuple[float, ...]

    def scaled(self, factor: float) -> Precisions:
        return Precisions(
            tuple(tuple(w * factor for w in level) for level in self.per_key), tuple(v * factor for v in self.whole)
        )


def joint_mu(precisions: Precisions, *, bound_squared: float, features: int, neighbours: Neighbours) -> float:
    """The l2 distance that one replaced (or added) row can cause, every block measured in its own noise. Tight."""
    if neighbours is Neighbours.ADD_REMOVE:
        blocks = (*precisions.per_key, precisions.whole)
        return math.sqrt(sum(w * bound_squared**i for block in blocks for i, w in enumerate(block)))
    levels = precisions.per_key
    highest = max((len(block) for block in (*levels, precisions.whole)), default=1) - 1
    worst = 0.0
    for moved in range(len(levels) + 1):  # the j finest levels of the two rows' keys differ, the coarser ones agree
        apart = [sum(_at(level, i) for level in levels[:moved]) for i in range(highest + 1)]
        together = [sum(_at(level, i) for level in levels[moved:]) + _at(precisions.whole, i) for i in range(highest + 1)]
        worst = max(worst, _distance_squared(apart, together, bound_squared=bound_squared, features=features))
    return math.sqrt(worst)


def _at(block: tuple[float, ...], order: int) -> float:
    return block[order] if order < len(block) else 0.0


def _distance_squared(apart: list[float], together: list[float], *, bound_squared: float, features: int) -> float:
    """max over rows of 2 A_0 + sum_i A_i (a^i + b^i) + T_i (a^i + b^i - 2 p^i): A apart, T together, order by order."""
    orders = range(1, len(apart))
    if features >= 2:
        # a = b = B^2 and p = -u with u in [0, B^2] free, so the maximum is a polynomial's over an interval.
        fixed = 2 * apart[0] + 2 * sum((apart[i] + together[i]) * bound_squared**i for i in orders)
        gain = [0.0] + [2 * (-1) ** (i + 1) * together[i] for i in orders]
        return fixed + _maximum(gain, 0.0, bound_squared)
    # One feature: x = B without loss (scaling both rows up never lowers the distance), x' in [-B, B].
    bound = math.sqrt(bound_squared)
    polynomial = [0.0] * (2 * len(apart) - 1)
    polynomial[0] = 2 * apart[0] + sum((apart[i] + together[i]) * bound_squared**i for i in orders)
    for i in orders:
        polynomial[2 * i] += apart[i] + together[i]
        polynomial[i] -= 2 * together[i] * bound**i
    return _maximum(polynomial, -bound, bound)


def _maximum(coefficients: list[float], low: float, high: float) -> float:
    """The maximum of a polynomial (constant first) over an interval: at its ends, or where the derivative vanishes."""
    if len(coefficients) <= 3:  # a parabola: the planner asks for thousands of these
        constant, linear, square = (*coefficients, 0.0, 0.0)[:3]
        points = [low, high] if square >= 0 else [low, high, min(max(-linear / (2 * square), low), high)]
        return max(constant + linear * x + square * x * x for x in points)
    # In units of the interval, where a coefficient's size is its effect: one below 1e-20 of the largest has none.
    scaled = [c * high**i for i, c in enumerate(coefficients)]
    low, high = low / high, 1.0
    slope = _derivative(scaled)
    negligible = 1e-20 * max(map(abs, slope))
    while slope and abs(slope[-1]) <= negligible:
        slope.pop()
    bend = _derivative(slope)
    best = max(_value(scaled, low), _value(scaled, high))
    for root in _real_parts_of_roots(slope):
        # A double root may come out with a small imaginary part; an extra candidate does no harm.
        x = min(max(root, low), high)
        best = max(best, _value(scaled, x))
        for _ in range(2):  # a root far outside takes digits from those inside; Newton's steps give them back
            if (curvature := _value(bend, x)) == 0:
                break
            x = min(max(x - _value(slope, x) / curvature, low), high)
            best = max(best, _value(scaled, x))
    return best


def _value(coefficients: list[float], x: float) -> float:
    total = 0.0
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _derivative(coefficients: list[float]) -> list[float]:
    return [i * c for i, c in enumerate(coefficients)][1:]


def _real_parts_of_roots(coefficients: list[float]) -> list[float]:
    if len(coefficients) < 2:
        return []
    companion = np.eye(len(coefficients) - 1, k=-1)
    companion[:, -1] -= np.array(coefficients[:-1]) / coefficients[-1]
    return [float(x) for x in np.linalg.eigvals(companion).real]
