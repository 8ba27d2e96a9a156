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
import pyarrow as pa

from research.baselines.many_to_many import joined_with_all, r2_of_grams
from research.baselines.noise import keyed_moment_matrices
from research.judging import r2_with
from research.plans import planned, terms
from research.releases import MomentRelease, Release
from research.searching import choose, corpus_of, dataset_name
from research.seeded import Seeded
from saibot.client.exact_request import local_request
from saibot.domains import KnownDomains
from saibot.privacy import Budget
from saibot.privatize import Card
from saibot.search.from_sketches import search_request
from saibot.sketch import KeyDomain

PROVIDERS, USEFUL = 300, 30
BEST, DECAY = 0.9, 0.96
PROVIDER_WIDTH, TARGET_WIDTH, OWN_WIDTH = 0.5, 0.5, 3.6
REQUEST_BOUND_SQUARED = Decimal("1.11")
METHODS = ("fpm", "fpm-opt", "joint lookup, private request", "joint lookup, local request")


@dataclass(frozen=True)
class SimulatedWorld:
    """Rows of all providers, one feature each, and of the request, own feature and target; and where their keys stand."""

    domain: KeyDomain
    providers: tuple[tuple[np.ndarray, np.ndarray], ...]
    request: np.ndarray  # (n, 2)
    place: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.request)


def make_world(keys: int, rows_per_key: int, rng: np.random.Generator) -> SimulatedWorld:
    n = keys * rows_per_key
    hidden = rng.normal(size=keys)
    rho = np.zeros(PROVIDERS)
    rho[:USEFUL] = BEST * DECAY ** np.arange(USEFUL)
    providers = []
    for j in range(PROVIDERS):
        means = rho[j] * hidden + np.sqrt(1 - rho[j] ** 2) * rng.normal(size=keys)
        place = rng.integers(0, keys, n)
        providers.append((np.sqrt(0.5) * means[place] + np.sqrt(0.5) * rng.normal(size=n), place))
    place = rng.integers(0, keys, n)
    x = rng.normal(size=n)
    y = 0.3 * x + np.sqrt(0.5) * hidden[place] + np.sqrt(0.5) * rng.normal(size=n)
    domain = KeyDomain.of("key", [f"k{number}" for number in range(keys)])
    return SimulatedWorld(domain, tuple(providers), np.column_stack([x, y]), place)


def selected_over_best(keys: int, rows_per_key: int, *, epsilon: str, seed: int) -> dict[str, float]:
    """One run: for every method, R2 of the table it selects over R2 of the best."""
    rng = np.random.default_rng((seed, keys, rows_per_key))
    world, budget, noise = make_world(keys, rows_per_key, rng), Budget(epsilon, "1e-6"), Seeded(rng)
    found = as_in_paper(world, budget, noise)
    truth = lookup_truth(world)
    train = _table(world)
    requests = {
        METHODS[2]: search_request(
            request_release(world, budget).sketch(noise), target="y", domains=KnownDomains.of([world.domain])
        ),
        METHODS[3]: local_request(train, target="y", features=("x",), keys={world.domain.id: world.domain}),
    }
    sketches = [provider_release(world, number, budget).sketch(noise) for number in range(PROVIDERS)]
    with corpus_of(world.domain, sketches, learned=False) as corpus:
        for name, request in requests.items():
            found[name] = truth[choose(request, corpus).number] / truth.max()
    return {name: float(value) for name, value in found.items()}


def provider_release(world: SimulatedWorld, number: int, budget: Budget) -> Release:
    values, place = world.providers[number]
    card = Card.parse(
        {"dataset": {"name": dataset_name(number)}, "features": {"z": {"bounds": (-PROVIDER_WIDTH, PROVIDER_WIDTH)}}}
    )
    return Release(card, values[:, None], place, world.domain, budget)


def request_release(world: SimulatedWorld, budget: Budget) -> Release:
    bounds = {"x": {"bounds": (-OWN_WIDTH, OWN_WIDTH)}, "y": {"bounds": (-TARGET_WIDTH, TARGET_WIDTH)}}
    card = Card.parse({"dataset": {"name": "request"}, "features": bounds})
    return Release(card, world.request, world.place, world.domain, budget, bound_squared=REQUEST_BOUND_SQUARED)


def lookup_truth(world: SimulatedWorld) -> np.ndarray:
    """R2 with each provider's exact key means, within its bounds."""
    found = []
    for values, place in world.providers:
        clipped = np.clip(values, -PROVIDER_WIDTH, PROVIDER_WIDTH)
        counts, sums = np.bincount(place, minlength=len(world.domain)), np.bincount(place, clipped, len(world.domain))
        means = np.where(counts > 0, sums / np.maximum(counts, 1), clipped.mean())
        found.append(r2_with(world.request, means[world.place]))
    return np.array(found)


def as_in_paper(world: SimulatedWorld, budget: Budget, noise: Seeded) -> dict[str, float]:
    """The paper's search: noise on every per-key monomial of both sides, the largest R2 wins, failures count as 0."""
    keys = len(world.domain)
    table = np.clip(world.request / (OWN_WIDTH, TARGET_WIDTH), -1, 1)
    length = np.sqrt((table**2).sum(axis=1, keepdims=True))
    table *= np.minimum(1.0, float(REQUEST_BOUND_SQUARED) ** 0.5 / np.maximum(length, 1e-300))
    request = keyed_moment_matrices(table, world.place, keys)
    providers = [(np.clip(values / PROVIDER_WIDTH, -1, 1)[:, None], place) for values, place in world.providers]
    candidates = np.array([keyed_moment_matrices(values, place, keys) for values, place in providers])
    truth = r2_of_grams(joined_with_all(request, candidates), target=2)
    found = {}
    for mechanism in ("fpm", "fpm-opt"):
        asked = planned(terms(mechanism, "join", features=2, budget=budget, bound_squared=REQUEST_BOUND_SQUARED))
        given = planned(terms(mechanism, "join", features=1, budget=budget))
        seen = joined_with_all(
            MomentRelease(asked, world.rows).matrices(request, noise),
            MomentRelease(given, world.rows).matrices(candidates, noise),
        )
        found[mechanism] = truth[int(np.argmax(r2_of_grams(seen, target=2, rule="paper")))] / truth.max()
    return found


def _table(world: SimulatedWorld) -> pa.Table:
    keys = np.array(world.domain.values, dtype=object)[world.place]
    return pa.table({"x": world.request[:, 0], "y": world.request[:, 1], world.domain.id: pa.array(keys, pa.string())})
