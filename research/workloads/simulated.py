"""A simulated corpus with known usefulness: which table does a private search select, and how good is it really?

The world. There are d keys with a hidden value t_k ~ N(0, 1) that explains half of the target's variance beyond one own
feature: y = 0.3 x + sqrt(1/2) t_k + sqrt(1/2) e. Of 300 providers 30 are useful: provider j's key means are
rho_j t_k + sqrt(1 - rho_j^2) noise with rho_j = 0.9 * 0.96^j, a few good tables and many mediocre ones; the other 270 are
unrelated. Half of a provider's variance lies between keys. Rows fall on keys at random, n = d * rows per key for everyone.

Public facts. Providers and the requester bound columns at half a standard deviation around the middle, which is narrow:
where noise dominates, a little bias is the better bargain. The own feature has wide bounds, 3.6 deviations, and the norm
bound is sqrt(1.11): the target gets nearly all of the sensitivity.

The figure is R2 of the selected table over R2 of the best one, both without noise, each in its own join's semantics.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from research.baselines.many_to_many import KeyedStatistics, many_to_many_r2
from research.plans import plan_for, sigma
from saibot.estimate.lookup import shrink
from saibot.estimate.moments import KeyedMoments, exact_moments
from saibot.privacy import Budget
from saibot.search.scoring import Scores, score
from saibot.search.state import State
from saibot.search.steadying import training_state
from saibot.search.sweep import sweep

PROVIDERS, USEFUL = 300, 30
BEST, DECAY = 0.9, 0.96
PROVIDER_WIDTH, TARGET_WIDTH, OWN_WIDTH = 0.5, 0.5, 3.6
REQUEST_BOUND_SQUARED = Decimal("1.11")
METHODS = ("fpm", "fpm-opt", "joint lookup, private request", "joint lookup, local request")


@dataclass(frozen=True)
class World:
    """Exact statistics of all providers and of the request."""

    counts: np.ndarray  # (N, d)
    sums: np.ndarray
    squares: np.ndarray
    request: KeyedMoments
    rows: int


def make_world(keys: int, rows_per_key: int, rng: np.random.Generator) -> World:
    n = keys * rows_per_key
    hidden = rng.normal(size=keys)
    rho = np.zeros(PROVIDERS)
    rho[:USEFUL] = BEST * DECAY ** np.arange(USEFUL)
    counts = np.empty((PROVIDERS, keys))
    sums, squares = np.empty_like(counts), np.empty_like(counts)
    for j in range(PROVIDERS):
        means = rho[j] * hidden + np.sqrt(1 - rho[j] ** 2) * rng.normal(size=keys)
        place = rng.integers(0, keys, n)
        values = np.clip((np.sqrt(0.5) * means[place] + np.sqrt(0.5) * rng.normal(size=n)) / PROVIDER_WIDTH, -1, 1)
        counts[j] = np.bincount(place, minlength=keys)
        sums[j], squares[j] = np.bincount(place, values, keys), np.bincount(place, values**2, keys)
    place = rng.integers(0, keys, n)
    x = rng.normal(size=n)
    y = 0.3 * x + np.sqrt(0.5) * hidden[place] + np.sqrt(0.5) * rng.normal(size=n)
    table = np.column_stack([np.clip(x / OWN_WIDTH, -1, 1), np.clip(y / TARGET_WIDTH, -1, 1)])
    length = np.sqrt((table**2).sum(axis=1, keepdims=True))
    table *= np.minimum(1.0, float(REQUEST_BOUND_SQUARED) ** 0.5 / np.maximum(length, 1e-300))
    return World(counts, sums, squares, exact_moments(("x", "y"), table, place, keys), n)


def selected_over_best(keys: int, rows_per_key: int, *, epsilon: str, seed: int) -> dict[str, float]:
    """One run: for every method, R2 of the table it selects over R2 of the best."""
    rng = np.random.default_rng((seed, keys, rows_per_key))
    world = make_world(keys, rows_per_key, rng)
    true_lookup = lookup_truth(world)
    true_join = many_to_many_r2(world.request, KeyedStatistics(world.counts, world.sums, world.squares), "y")
    budget = Budget(epsilon, "1e-6")
    found = {}
    for mechanism in ("fpm", "fpm-opt"):
        chosen = _select_as_in_paper(world, mechanism, budget, rng)
        found[mechanism] = true_join[chosen] / true_join.max()
    values = private_values(world, budget, rng)
    request = private_request(world, budget, rng)
    for name, moments in ((METHODS[2], request), (METHODS[3], world.request)):
        scores = score_values(moments, values, quantile=2.0)
        rank = np.where(scores.lower > 0, 1 + scores.lower, scores.gain * (1 - 1e-9))
        found[name] = true_lookup[int(np.argmax(rank))] / true_lookup.max()
    return {name: float(value) for name, value in found.items()}


def lookup_truth(world: World) -> np.ndarray:
    """R2 with each provider's exact key means."""
    overall = world.sums.sum(axis=1, keepdims=True) / world.rows
    means = np.where(world.counts > 0, world.sums / np.maximum(world.counts, 1), overall)
    gain: np.ndarray = State.of(world.request, "y").r2() + score_values(world.request, means, quantile=0.0).gain
    return gain


def score_values(moments: KeyedMoments, values: np.ndarray, *, quantile: float) -> Scores:
    """The engine's own sweep and scoring, on arrays."""
    base = training_state(moments, "y").base(np.arange(values.shape[1]), values.shape[1])
    centred = np.ascontiguousarray(values - values.mean(axis=1, keepdims=True))
    return score(*sweep(centred, base.linear, base.square), base, quantile=quantile)


def private_values(world: World, budget: Budget, rng: np.random.Generator) -> np.ndarray:
    """Lookup values of all providers from `joint` lookup releases with seeded noise."""
    keys = world.counts.shape[1]
    plan = plan_for("joint", "lookup", features=1, budget=budget, sizes=(keys,))
    count_sigma, sum_sigma = sigma(plan, "key", 0), sigma(plan, "key", 1)
    counts = world.counts + rng.normal(size=world.counts.shape) * count_sigma
    sums = world.sums + rng.normal(size=world.sums.shape) * sum_sigma
    return shrink(counts, sums, count_sigma=count_sigma, sum_sigma=sum_sigma, rows=float(world.rows)).values


def private_request(world: World, budget: Budget, rng: np.random.Generator) -> KeyedMoments:
    """The request's moments as its own `joint` lookup sketch would give them."""
    exact = world.request
    keys, m = exact.sums.shape
    plan = plan_for("joint", "lookup", features=m, budget=budget, bound_squared=REQUEST_BOUND_SQUARED, sizes=(keys,))
    count_sigma, sum_sigma = sigma(plan, "key", 0), sigma(plan, "key", 1)
    block = plan.block("global", 2)
    total_block = plan.block("global", 1)
    assert block is not None and total_block is not None
    product_noise = np.where(np.eye(m, dtype=bool), block.sigma, block.noise_of(2))
    noise = np.triu(rng.normal(size=(m, m)) * product_noise)
    counts = exact.counts + rng.normal(size=keys) * count_sigma
    sums = exact.sums + rng.normal(size=exact.sums.shape) * sum_sigma
    by_keys, by_block = 1 / (keys * sum_sigma**2), 1 / total_block.sigma**2
    whole = exact.total + rng.normal(size=m) * total_block.sigma
    return KeyedMoments(
        features=exact.features,
        counts=counts,
        sums=sums,
        products=exact.products + noise + np.triu(noise, 1).T,
        count=float(world.rows),
        total=(sums.sum(axis=0) * by_keys + whole * by_block) / (by_keys + by_block),
        count_noise=np.full(keys, count_sigma),
        sum_noise=np.full(keys, sum_sigma),
        product_noise=product_noise,
        total_noise=np.full(m, (by_keys + by_block) ** -0.5),
    )


def _select_as_in_paper(world: World, mechanism: str, budget: Budget, rng: np.random.Generator) -> int:
    """The paper's search: noise on every per-key monomial of both sides, the largest R2 wins, failures count as 0."""
    exact = world.request
    assert exact.key_products is not None
    keys, m = exact.sums.shape
    request_plan = plan_for(mechanism, "join", features=m, budget=budget, bound_squared=REQUEST_BOUND_SQUARED)
    provider_plan = plan_for(mechanism, "join", features=1, budget=budget)
    asked, given = ([sigma(plan, "key", order) for order in range(3)] for plan in (request_plan, provider_plan))
    noise = np.triu(rng.normal(size=(keys, m, m))) * asked[2]
    request = KeyedMoments(
        features=exact.features,
        counts=exact.counts + rng.normal(size=keys) * asked[0],
        sums=exact.sums + rng.normal(size=(keys, m)) * asked[1],
        products=exact.products,
        count=exact.count,
        total=exact.total,
        count_noise=np.full(keys, asked[0]),
        sum_noise=np.full(keys, asked[1]),
        product_noise=np.zeros((m, m)),
        total_noise=np.zeros(m),
        key_products=exact.key_products + noise + np.swapaxes(np.triu(noise, 1), 1, 2),
        key_product_noise=np.full((m, m), asked[2]),
    )
    noisy = [
        column + rng.normal(size=column.shape) * scale
        for column, scale in zip((world.counts, world.sums, world.squares), given, strict=True)
    ]
    return int(np.argmax(many_to_many_r2(request, KeyedStatistics(*noisy), "y", rule="paper")))
