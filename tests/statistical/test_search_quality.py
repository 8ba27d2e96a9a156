"""Search quality at epsilon 1 in the world of `research/workloads/simulated.py`: ours beside the paper's mechanisms.

Seeded, so the figures are the same everywhere. Seeds below 2000 were looked at while the search was made; these are others.
The full form runs every setting 120 times and prints medians with their standard errors, the table of
docs/explanation/quality.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from research.workloads.simulated import METHODS, selected_over_best

PRIVATE, LOCAL = METHODS[2], METHODS[3]
FIRST_SEED = 10_000
# keys, rows per key, least median of a private request, of a local one: DESIGN's table, 0.95 from 1000 x 30 and 200 x 50 on
SETTINGS = [(50, 20, 0.69, 0.86), (200, 20, 0.85, 0.87), (1000, 10, 0.69, 1.0), (1000, 30, 0.95, 1.0), (200, 50, 0.95, 0.95)]


@pytest.mark.statistical
@pytest.mark.timeout(3600)  # of the full form
@pytest.mark.parametrize(("keys", "rows", "private", "local"), SETTINGS)
def test_private_search_selects_nearly_the_best_table(keys, rows, private, local, full):
    runs = 120 if full else 15 if keys == 50 else 9 if keys == 200 else 5
    found = [selected_over_best(keys, rows, epsilon="1", seed=FIRST_SEED + number) for number in range(runs)]
    by_method = {method: np.array([run[method] for run in found]) for method in METHODS}
    medians = {method: float(np.median(values)) for method, values in by_method.items()}
    told = (f"{method} {medians[method]:.2f} ± {error_of_median(values):.2f}" for method, values in by_method.items())
    print(f"{keys} x {rows}: {', '.join(told)}")
    # Where two tables are nearly as good as each other, a few runs may land on the second more often than not.
    slack = 1e-9 if full else 0.1
    assert medians[PRIVATE] >= private - slack
    assert medians[LOCAL] >= local - slack
    assert medians[PRIVATE] >= max(medians["fpm"], medians["fpm-opt"])


def error_of_median(values: np.ndarray) -> float:
    """By the bootstrap."""
    again = np.random.default_rng(0).choice(values, (2000, len(values)))
    return float(np.median(again, axis=1).std())
