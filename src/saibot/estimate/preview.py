"""What a release would be worth, before anything is spent: a function of public facts and of the plan alone.

A provider knows its budget, how many rows and keys there are, how many features and how wide their bounds. That fixes the
noise, and with it how much of a looked-up value would be signal. What it does not fix is how much the feature differs
between keys, so three cases are shown: keys explain 3 %, 10 % or 30 % of a feature that is spread evenly over its bounds
(variance 1/3 in scaled units), in equal parts at every key level. Key means are meant, so what rows of one key add to them
by chance is signal too.

*Reliability* is the share of the spread of true values that the private values keep, by the very posterior that
`lookup_values` uses, for keys of average size. It is also the share of R2 that survives: private values are posterior
means, so the slope on them is unbiased and the gain shrinks with their variance.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from saibot.errors import InvalidInput
from saibot.estimate.tree import KeyGroups, smooth
from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan
from saibot.privacy.mechanisms.plan import Block

EVEN = 1 / 3  # variance of a feature that is spread evenly over [-1, 1]
SHARES = {"weak": 0.03, "moderate": 0.1, "strong": 0.3}
MOST_CHILDREN = 50  # with more brothers and sisters than this, a key's own error does not change any more


@dataclass(frozen=True)
class Preview:
    """Errors are in shares of half the width of a feature's bounds (scaled units)."""

    rows: int
    keys: tuple[int, ...]
    rows_per_key: float | None
    mean_error: float  # of a feature's overall mean; where none is released, of a guess
    deviation_error: float | None  # of its standard deviation
    value_error: float | None  # of a key's plain mean, before shrinkage
    reliability: dict[str, float] | None  # for weak, moderate and strong differences between keys
    usable_share: float | None  # of the R2 that the raw values would give, moderate differences
    rows_for_half: float | None  # rows per key at which half of moderate differences survive, without levels
    detectable_gain: float | None  # smallest gain in R2 that such a request can tell from none, for privacy noise alone
    advice: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"keys": list(self.keys), "advice": list(self.advice)}


def preview(request: PlanRequest, *, rows: int, keys: tuple[int, ...] = ()) -> Preview:
    """The utility to expect of a plan for so many rows and keys (sizes of the key levels, finest first)."""
    if rows < 1 or any(size < 1 for size in keys):
        raise InvalidInput("a preview needs at least one row and one key.")
    if request.keyed != bool(keys):
        raise InvalidInput(
            "this layout has a key: give the number of keys." if request.keyed else "this layout has no key.",
            hint="Give the sizes of all key levels, finest first, or choose another layout.",
        )
    if request.keyed and len(keys) != request.levels:
        raise InvalidInput(f"the plan has {request.levels} key levels, not {len(keys)}.")
    plan = make_plan(request)
    mean_error, product_error = _total_error(plan, 1, rows, keys), _total_error(plan, 2, rows, keys)
    mean_error = math.sqrt(EVEN) if mean_error is None else mean_error
    deviation = None if product_error is None else product_error / (2 * math.sqrt(EVEN))
    if not keys:
        answer = Preview(rows, (), None, mean_error, deviation, None, None, None, None, None, ())
        return _advised(answer, request)
    count, sums = _block(plan, 0), _block(plan, 1)
    each = rows / keys[0]
    value_error = math.hypot(sums.sigma, math.sqrt(EVEN) * count.sigma) / each
    reliability = {name: _reliability(plan, rows, keys, share * EVEN) for name, share in SHARES.items()}
    half = math.hypot(sums.sigma, math.sqrt(EVEN) * count.sigma) / math.sqrt(SHARES["moderate"] * EVEN)
    # A useless feature's gain has the noise variance of sum f e over F and TSS: d (s1^2 + E s0^2) / (n^2 Var y), at 95 %.
    detectable = 1.645**2 * keys[0] * (sums.sigma**2 + EVEN * count.sigma**2) / (rows**2 * EVEN)
    answer = Preview(
        rows,
        keys,
        each,
        mean_error,
        deviation,
        value_error,
        reliability,
        reliability["moderate"],
        half,
        min(detectable, 1.0),
        (),
    )
    return _advised(answer, request)


# ------------------------------------------------------------------------------------------------ inside


def _block(plan: Plan, order: int, level: int = 0) -> Block:
    block = plan.block("key", order, level)
    assert block is not None
    return block


def _total_error(plan: Plan, order: int, rows: int, keys: tuple[int, ...]) -> float | None:
    """Standard deviation of the noise of a whole-table mean of this order: all readings of it together."""
    precision = 0.0
    for block in plan.blocks:
        if block.order == order and not block.centred:
            times = keys[block.level] if block.scope == "key" else 1
            precision += 1 / (times * block.sigma**2)
        elif block.order == order:
            precision += 1 / block.sigma**2
    return None if precision == 0 else 1 / math.sqrt(precision) / rows


def _reliability(plan: Plan, rows: int, keys: tuple[int, ...], spread: float) -> float:
    """One branch of the tree, with as many keys below each key as there are on average: the others tell it nothing."""
    levels = len(keys)
    leaves = 1
    parents: list[np.ndarray] = []
    sizes = [1]
    for level in range(levels - 2, -1, -1):
        children = min(max(round(keys[level] / keys[level + 1]), 1), MOST_CHILDREN)
        parents.insert(0, np.repeat(np.arange(leaves), children))
        leaves *= children
        sizes.insert(0, leaves)
    up = [KeyGroups(index, size) for index, size in zip(parents, sizes[1:], strict=True)]
    noise = []
    for level, size in enumerate(sizes):
        count, sums = _block(plan, 0, level).sigma, _block(plan, 1, level).sigma
        noise.append(np.full((1, size), sums**2 + EVEN * count**2))
    weight = np.full((1, leaves), rows / keys[0])
    found = smooth([np.zeros((1, size)) for size in sizes], weight, noise, up, [np.full((1, 1), spread / levels)] * levels)
    return float(np.clip(1 - found.variance.mean() / spread, 0, 1))


def _advised(answer: Preview, request: PlanRequest) -> Preview:
    words = []
    if answer.mean_error > 0.1 and answer.mean_error != math.sqrt(EVEN):
        words.append("Even the overall mean is mostly noise: raise epsilon or collect more rows before releasing anything.")
    share, half = answer.usable_share, answer.rows_for_half
    if share is not None and half is not None and answer.rows_per_key is not None:
        if share >= 0.8:
            words.append(f"Good: about {100 * share:.0f} % of what the raw values would explain survives.")
        elif share >= 0.4:
            words.append(f"Usable: about {100 * share:.0f} % of what the raw values would explain survives.")
        else:
            words.append(
                f"Poor: about {100 * share:.0f} % of what the raw values would explain survives. Half would need some "
                f"{half:.0f} rows per key; there are {answer.rows_per_key:.0f}."
            )
        if share < 0.8:
            needed = float(request.budget.epsilon) * half / answer.rows_per_key
            if share < 0.4 and needed > float(request.budget.epsilon):
                words.append(f"The same keys would keep half at epsilon around {needed:.2g}.")
            if len(answer.keys) == 1:
                words.append("Coarser key levels (school, district; day, month) help most where rows per key are few.")
            if request.features > 1:
                words.append(
                    f"Noise grows with the norm bound, here {request.bound:.2g} for {request.features} features: release "
                    "fewer, or one principal component."
                )
            words.append("Narrow bounds help as long as few rows are clipped: noise shrinks with their width.")
    if answer.detectable_gain is not None and answer.detectable_gain > 0.05:
        words.append(
            f"As a private request it would miss gains in R2 below {answer.detectable_gain:.2g}: ask locally, "
            "which costs nothing."
        )
    return replace(answer, advice=tuple(words))
