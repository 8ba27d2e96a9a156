"""`apm`: the global model. A trusted platform augments the raw tables and adds noise to the aggregate of each result.

Releases: for every augmentation the monomials of the augmented table: a union's of orders 1 and 2 (its size is public), a
    join's of orders 0, 1 and 2 (its size is not).
Guarantee: (epsilon, delta)-DP for every table, its budget split over all answers that its rows take part in (basic
    composition, as published), or with mu^2 added up over them (`tight`), which is the best that Gaussian noise allows.
Splits. One request meets p providers. *All subsets* of them: the request's rows are in 2^p - 1 answers, a provider's in
    2^(p-1) of each of n_req requests. *One at a time*: p answers for the request's rows, n_req for a provider's.
    A split has to serve the worse of the two.
Join sensitivity, as in Flex (Johnson, Near and Song 2018), from f, a public bound on the rows per key of either side. A
    joined row has norm^2 at most B^2 = B1^2 + B2^2. A replaced row takes away at most f joined rows and brings at most f.
    Pair the ones that go with ones that come: a pair's monomials differ by at most D_same (Alg. 1 line 2), a row without a
    partner counts D_one = sqrt(1 + B^2 + B^4). So the sum moves by at most f max(D_same, D_one).
Assumes: a platform trusted with raw rows; rows clipped; f enforced by dropping rows of a key beyond it.
"""

from __future__ import annotations

import math

from research.baselines.noise import EntryNoise
from research.baselines.scales import classical_mu, continuous_mu, whole_table_noise
from saibot.privacy import sensitivity

MECHANISM = "apm"


def answers(*, providers: int, requests: int, subsets: bool) -> int:
    """How many answers one row takes part in, in the worse of both roles; at least one."""
    if subsets:
        half = 1 << max(providers - 1, 0)
        return max(2 * half - 1, requests * half) if providers else max(requests, 1)
    return max(providers, requests, 1)


def union_noise(
    *, features: int, bound_squared: float, epsilon: float, delta: float, parts: int, tight: bool = False
) -> EntryNoise:
    """The noise of one of `parts` answers over unions. Pure DP has no tighter composition than the basic one."""
    if delta == 0 or not tight:
        share = {"epsilon": epsilon / parts, "delta": delta / parts}
        return whole_table_noise(features=features, bound_squared=bound_squared, **share)
    scale = sensitivity.union_l2(order=2, bound_squared=bound_squared, features=features) / _mu(epsilon, delta, parts, tight)
    return EntryNoise.by_order("gaussian", features, (0.0, scale, scale))


def join_noise(
    *,
    features: int,
    bound_squared: float,
    max_frequency: int,
    epsilon: float,
    delta: float,
    parts: int,
    tight: bool = False,
) -> EntryNoise:
    """The noise of one of `parts` answers over joins; `bound_squared` is that of a joined row, `features` its features."""
    moved = join_sensitivity(bound_squared=bound_squared, features=features, max_frequency=max_frequency)
    scale = moved / _mu(epsilon, delta, parts, tight)
    return EntryNoise.by_order("gaussian", features, (scale, scale, scale))


def join_sensitivity(*, bound_squared: float, features: int, max_frequency: int) -> float:
    same = sensitivity.union_l2(order=2, bound_squared=bound_squared, features=features)
    return max_frequency * max(same, sensitivity.add_remove_l2(range(3), bound_squared=bound_squared))


def _mu(epsilon: float, delta: float, parts: int, tight: bool) -> float:
    return continuous_mu(epsilon, delta) / math.sqrt(parts) if tight else classical_mu(epsilon / parts, delta / parts)
