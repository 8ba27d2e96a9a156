"""`tpm`: the local model. Every row is privatised on its own, as if it were a table of one row.

Releases: per row its key by generalised randomised response (half of epsilon, where there is a key) and its monomials of
    orders 1 and 2 with Gaussian noise (Laplace when delta = 0).
Guarantee: (epsilon, delta)-local DP for each row, hence (epsilon, delta)-DP of the table under replace-one. Noise of the
    values: replacing the one row of such a table, the key being sent apart, moves its monomials as a union's (Alg. 1 line 2:
    4 B^2 + 2 B^4, or + B^4 for one feature), so sigma = sqrt(2 ln(1.25/delta)) Delta / epsilon. Order 0 is 1 for every row.
    The rest of the argument is in `per_tuple.py`.
Assumes: rows clipped to |x| <= B; public key domain.
Error: n rows' noise adds up to sqrt(n) sigma, against sigma for a mechanism that adds noise once.
"""

from __future__ import annotations

from research.baselines.per_tuple import PerTuple, RandomisedKey
from research.baselines.scales import whole_table_noise

MECHANISM = "tpm"


def plan(*, features: int, bound_squared: float, epsilon: float, delta: float, keys: int | None = None) -> PerTuple:
    """The report of one row; `keys` is the size of the public key domain, None for a union."""
    key = None if keys is None else RandomisedKey(epsilon / 2, keys)
    left = epsilon if key is None else epsilon / 2
    noise = whole_table_noise(features=features, bound_squared=bound_squared, epsilon=left, delta=delta)
    return PerTuple(MECHANISM, epsilon, noise, key)
