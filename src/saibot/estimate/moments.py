"""The moments of a sketch, noise included, and of rows, exact: what estimators and search read."""

from __future__ import annotations

import numpy as np

from saibot.errors import InvalidInput
from saibot.estimate.totals import totals
from saibot.semiring import Moments
from saibot.sketch import Sketch


def moments_of_sketch(sketch: Sketch, *, level: int = 0) -> Moments:
    """What a request sketch says, at one of its key levels. A keyless sketch has a single key that holds all rows."""
    whole = totals(sketch)
    if whole.products is None or whole.products_variance is None:
        raise InvalidInput("a request needs a sketch of order 2.", hint="Privatise it with --order 2.")
    m = len(sketch.features)
    if sketch.levels:
        values = sketch.levels[level].values
        counts, sums = values[:, 0].copy(), values[:, 1 : 1 + m]  # one column should not keep all others in memory
        count_noise = np.full(len(values), sketch.sigma("key", 0, level=level) or 0.0)
        sum_noise = np.full(len(values), sketch.sigma("key", 1, level=level) or 0.0)
    else:
        counts, sums = np.array([whole.count]), whole.sums[None, :]
        count_noise, sum_noise = np.array([whole.count_variance**0.5]), np.sqrt(whole.sums_variance)[None, :]
    key_products = key_product_noise = None
    if sketch.levels and sketch.key_basis.order >= 2:
        places = sketch.key_basis.squares
        key_products = sketch.levels[level].values[:, places]
        diagonal, beside = sketch.sigma("key", 2, level=level), sketch.sigma("key", 2, level=level, multiplicity=2)
        assert diagonal is not None and beside is not None
        key_product_noise = np.where(np.eye(m, dtype=bool), diagonal, beside)
    return Moments(
        features=sketch.features,
        counts=counts,
        sums=sums,
        products=whole.products,
        count=whole.count,
        total=whole.sums,
        count_noise=count_noise,
        sum_noise=sum_noise,
        product_noise=np.sqrt(whole.products_variance),
        total_noise=np.sqrt(whole.sums_variance),
        total_count_noise=whole.count_variance**0.5,
        key_products=key_products,
        key_product_noise=key_product_noise,
    )


exact_moments = Moments.of_rows  # of a local request's own rows
