"""`sf1`, `sf2`: the shuffle model. Every row sends a noisy report as in `tpm`; reports are shuffled before anyone sees them.

Releases: per row its key by generalised randomised response (half of the local epsilon, where there is a key) and its
    monomials of orders 1 and 2 with Laplace noise, in random order.
Guarantee: each report is e0-locally private in pure DP (`per_tuple.py`, Laplace by the l1 distance of two rows' monomials),
    and n shuffled ones are (epsilon, delta)-DP for the e0 of `shuffle.py`, for key and values together. With delta = 0
    shuffling guarantees nothing more than the local budget, and the figures follow the paper in counting it as a failure.
`sf1` shuffles each table by itself, so one release serves every request. `sf2` shuffles the union, n being all its rows, and
    as a trusted aggregator of augmentations it splits (epsilon, delta) over all answers, as `apm` does. It has no joins.
Assumes: a shuffler trusted to shuffle; rows clipped to |x| <= B; public key domain.
"""

from __future__ import annotations

from research.baselines.per_tuple import PerTuple, RandomisedKey
from research.baselines.scales import whole_table_noise
from research.baselines.shuffle import Bound, local_epsilon


def sf1(
    *,
    rows: int,
    features: int,
    bound_squared: float,
    epsilon: float,
    delta: float,
    keys: int | None = None,
    bound: Bound = "numeric",
) -> PerTuple:
    """The report of one row of a table that is shuffled by itself."""
    local = local_epsilon(n=rows, epsilon=epsilon, delta=delta, bound=bound)
    key = None if keys is None else RandomisedKey(local / 2, keys)
    left = local if key is None else local / 2
    noise = whole_table_noise(features=features, bound_squared=bound_squared, epsilon=left, delta=0)
    return PerTuple("sf1" if bound == "numeric" else "sf1-closed", local, noise, key)


def sf2(
    *, rows: int, features: int, bound_squared: float, epsilon: float, delta: float, parts: int, bound: Bound = "numeric"
) -> PerTuple:
    """The report of one row of a union of `rows` rows that is shuffled for one of `parts` answers."""
    local = local_epsilon(n=rows, epsilon=epsilon / parts, delta=delta / parts, bound=bound)
    noise = whole_table_noise(features=features, bound_squared=bound_squared, epsilon=local, delta=0)
    return PerTuple("sf2" if bound == "numeric" else "sf2-closed", local, noise)
