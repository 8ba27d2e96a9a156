"""Tell two neighbouring columns apart by the private choice that bounds are bought with, and by the count of rows.

Replacing one of five values moves the scores of all cells on one side of the median up by the whole sensitivity, and those
on the other side down by it. Most cells lie on either side, so a choice is nearly a coin whose odds are e^(epsilon/2) for
one table and e^(-epsilon/2) for the other: the pair that bounded range finds hardest to hide. Of the count of rows in
the domain, any two tables are the worst of which one has one row more in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from saibot.audit.likelihood_ratio import Finding, separation
from saibot.privacy.budget import Budget
from saibot.privacy.events import GaussianEvent, bounded_range_mu
from saibot.privacy.neighbours import Neighbours
from saibot.privatize.bounds import Choices
from saibot.privatize.coverage import coverage_event, noisy_count
from saibot.privatize.noise import NoiseSource

EPSILON = "3"  # where there is something to find, and errors are not too rare to be counted
DRAWS = 4  # times the releases of other mechanisms: a choice is only one bit, and cheap
SIDE = 80  # empty cells between the median and the values on either side of it
EDGES = np.arange(2 * SIDE + 4, dtype=float)
BEFORE, AFTER = ([0.5] * left + [SIDE + 1.5] * 2 + [2 * SIDE + 2.5] * (3 - left) for left in (2, 1))


def audit_choices(*, releases: int, noise: NoiseSource) -> list[Finding]:
    """Many choices of the cell that the median lies in, for each of the two columns."""
    draws = DRAWS * releases

    def sides(values: Sequence[float]) -> np.ndarray:
        def counted(candidates: Sequence[float]) -> tuple[np.ndarray, int]:
            return np.searchsorted(values, candidates, side="left"), len(values)

        choices = Choices(counted, float(EPSILON), Neighbours.REPLACE_ONE, 1, noise)
        cells = [choices.cells(EDGES, (0.5,), 1.0)[0] for _ in range(draws)]
        return np.array(cells) > SIDE

    found = separation(sides(BEFORE).astype(float), sides(AFTER).astype(float))
    return [Finding("bounds", "choice", "gumbel", bounded_range_mu(Decimal(EPSILON)), found, draws)]


def audit_counts(*, releases: int, noise: NoiseSource) -> list[Finding]:
    """Many counts of the rows in a domain, for each of two tables of which one has one more."""
    draws = DRAWS * releases
    event = coverage_event(Decimal(EPSILON), Budget(EPSILON, "1e-6"))
    assert isinstance(event, GaussianEvent)
    before, after = (np.array([noisy_count(rows, event, 1, noise)[0] for _ in range(draws)]) for rows in (1000, 1001))
    return [Finding("coverage", "count", "gaussian", event.mu, separation(before, after), draws)]
