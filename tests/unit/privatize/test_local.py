"""The local model: every row is its own table, its key included, and the sketch is the sum of all reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from saibot.errors import SaibotError, UnsupportedPlan
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan
from saibot.privatize import Card, Prepared, ReleaseRequest, privatize
from saibot.privatize import local as local_module
from saibot.privatize.aggregate import ExactStatistics, aggregate
from saibot.privatize.local import collect, report, single_rows
from saibot.privatize.noise import NoiseSource, OpenDPNoise
from saibot.sketch import Sketch, read_sketch

P_MIN = 1e-9
CARD: dict[str, Any] = {
    "dataset": {"name": "t"},
    "features": {"x": {"bounds": [0, 10]}, "y": {"bounds": [0, 10]}},
    "keys": {
        "k": {"domain": {"range": [1, 8]}},
        "wide": {"column": "k", "domain": {"range": [1, 1500]}},
        "day": {"domain": {"dates": ["2013-01-30", "2013-02-02"]}, "levels": ["month"]},
    },
}


def rows(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = rng.choice(["2013-01-30", "2013-02-01", "2014-01-01"], n)
    return pd.DataFrame({"x": rng.uniform(-2, 12, n), "y": rng.uniform(0, 10, n), "k": rng.integers(1, 10, n), "day": days})


def locally(table: pd.DataFrame, ledger: Ledger, *, noise: NoiseSource | None = None, **options: Any) -> Sketch:
    terms = {
        "budget": Budget("1", "1e-6"),
        "neighbours": Neighbours.REPLACE_ONE,
        "key": "k",
        "allocation": "equal",
    } | options
    request = ReleaseRequest(Card.parse(CARD), per_tuple=True, **terms)
    return privatize(table, request, ledger, noise=noise).sketch


def scale_p(sample: np.ndarray, sigma: float) -> float:
    """Two-sided p-value of normal noise with this standard deviation."""
    law = stats.chi2(len(sample))
    total = float((sample**2).sum() / sigma**2)
    return 2 * min(law.cdf(total), law.sf(total))


def test_reports_add_up_to_the_exact_statistics_of_the_table(ready: Callable[..., Prepared], no_noise: NoiseSource) -> None:
    table = rows(60)
    for options in ({"key": "k"}, {"key": "day"}, {"key": "k", "layout": "semiring"}, {}):
        checked = ready(table, CARD, per_tuple=True, **options)
        exact = aggregate(checked.rows, checked.grid, order=2)
        reports = [report(one, checked.plan, no_noise) for one in single_rows(checked.rows, checked.grid, order=2)]
        total = collect(reports)
        one = checked.grid.one
        for level, sums in zip(total.levels, exact.levels, strict=True):
            orders = [monomial.order for monomial in exact.basis.monomials][: level.shape[1]]
            assert np.allclose(level, sums[:, : level.shape[1]] / np.array([float(one) ** o for o in orders]))
        for order, values in total.whole.items():
            assert np.allclose(values, exact.whole[exact.basis.slice(order)] / float(one) ** order)
        assert len(reports) == 60 and all(s.rows == 1 for s in single_rows(checked.rows, checked.grid, order=2))


def test_the_sketch_says_local_and_its_sigma_grows_with_the_square_root_of_reports(ledger: Ledger) -> None:
    few, more = (locally(rows(n), Ledger(ledger.home / str(n))) for n in (4, 36))
    assert few.header.model == more.header.model == "local" and more.header.rows == 36
    for scope, order in (("key", 0), ("key", 1), ("global", 1), ("global", 2)):
        one, other = few.sigma(scope, order), more.sigma(scope, order)  # type: ignore[arg-type]
        assert one is not None and other is not None and other == pytest.approx(3 * one)
        block = few.plan.block(scope, order)  # type: ignore[arg-type]
        assert block is not None and one == pytest.approx(2 * block.sigma)


def test_the_sketch_survives_its_file(ledger: Ledger) -> None:
    request = ReleaseRequest(
        Card.parse(CARD), Budget("1", "1e-6"), Neighbours.REPLACE_ONE, key="day", per_tuple=True, allocation="equal"
    )
    released = privatize(rows(5), request, ledger)
    assert read_sketch(released.content).sigma("key", 0, level=1) == released.sketch.sigma("key", 0, level=1)


@pytest.mark.statistical
def test_the_noise_of_the_sum_is_as_large_as_it_says(ledger: Ledger, full: bool) -> None:
    """Fifteen hundred empty keys: what they hold is noise and nothing else. Rows sit in the catch-all."""
    n = 100 if full else 16
    table = rows(n).assign(k=9999)
    sketch = locally(table, ledger, key="wide")
    empty = sketch.levels[0].values[:1500]
    for column, order in ((0, 0), (1, 1), (2, 1)):
        sigma = sketch.sigma("key", order)
        assert sigma is not None
        assert scale_p(empty[:, column], sigma) > P_MIN
        for wrong in (0.7, 1.3, 1 / math.sqrt(n)):
            assert scale_p(empty[:, column], sigma * wrong) < P_MIN


@pytest.mark.parametrize(
    "options",
    [
        {"key": "k"},
        {"key": "day"},
        {"key": "k", "layout": "semiring"},
        {"key": "k", "mechanism": "fpm"},
        {"key": "k", "mechanism": "fpm-opt"},
        {},
        {"mechanism": "fpm"},
    ],
    ids=str,
)
def test_any_two_rows_are_within_the_plans_mu_their_keys_included(
    ready: Callable[..., Prepared], options: dict[str, Any]
) -> None:
    """What one individual sends protects everything about them: exact distance of reports, in units of their noise."""
    table = rows(25, seed=3)
    table.loc[0, ["x", "y", "k"]] = [10.0, 10.0, 1]
    table.loc[1, ["x", "y", "k"]] = [0.0, 0.0, 2]
    table.loc[2, ["x", "y", "k"]] = [0.0, 0.0, 1]
    checked = ready(table, CARD, per_tuple=True, **options)
    vectors = [in_noise_units(one, checked.plan) for one in single_rows(checked.rows, checked.grid, order=2)]
    distances = [float(np.linalg.norm(a - b)) for a, b in combinations(vectors, 2)]
    assert checked.plan.mu is not None
    assert max(distances) <= checked.plan.mu * (1 + 1e-9)
    if options.get("mechanism", "joint") == "joint":
        assert max(distances) > 0.8 * checked.plan.mu  # and the bound is no idle one


def in_noise_units(statistics: ExactStatistics, plan: Plan) -> np.ndarray:
    pieces = []
    for block in plan.blocks:
        columns = statistics.basis.slice(block.order)
        noise = np.array([block.noise_of(monomial.multiplicity) for monomial in statistics.basis.monomials[columns]])
        cells = (statistics.levels[block.level] if block.scope == "key" else statistics.whole)[..., columns]
        pieces.append((cells / float(statistics.grid.one) ** block.order / noise).ravel())
    return np.concatenate(pieces)


def test_every_report_has_noise_at_every_key(ready: Callable[..., Prepared]) -> None:
    """A report that were exact at the keys its owner does not have would give the key away."""
    checked = ready(rows(5), CARD, key="k", per_tuple=True)
    for one in single_rows(checked.rows, checked.grid, order=2):
        sent = report(one, checked.plan, OpenDPNoise())
        assert (sent.levels[0] != 0).mean() > 0.9 and all((values != 0).any() for values in sent.whole.values())


def test_one_report_of_the_whole_table_is_drawn_per_row(ready: Callable[..., Prepared], ledger: Ledger) -> None:
    class Counting(OpenDPNoise):
        calls = 0

        def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
            Counting.calls += 1
            return super().gaussian(values, scale, done)

    locally(rows(7), ledger, noise=Counting())
    assert Counting.calls == 7


def test_a_row_longer_than_the_bound_is_never_reported(
    ready: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the norm clip broken, the local model would notice as the central one does."""
    from saibot.privatize import aggregate as module

    checked = ready(rows(20), CARD, key="k", per_tuple=True, bound=Decimal("0.5"))
    assert len(list(single_rows(checked.rows, checked.grid, order=2))) == 20
    monkeypatch.setattr(module, "to_steps", lambda table, *args, **options: table)
    with pytest.raises(SaibotError, match="longer than the bound"):
        list(single_rows(checked.rows, checked.grid, order=2))


@pytest.mark.parametrize(
    "options, rule",
    [
        ({"neighbours": Neighbours.ADD_REMOVE}, "max_rows|replace-one"),
        ({"mechanism": "fpm-opt", "key": None, "allocation": None}, "at least two rows|mean of all rows"),
    ],
)
def test_what_one_individual_cannot_do_alone_is_refused(ledger: Ledger, options: dict[str, Any], rule: str) -> None:
    with pytest.raises(SaibotError, match=rule):
        locally(rows(5), ledger, **options)
    assert ledger.accounts() == []


def test_more_draws_than_a_machine_can_make_are_refused_before_anything_is_spent(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_module, "MOST_DRAWS", 100)
    with pytest.raises(UnsupportedPlan, match="noise values, at most 100"):
        locally(rows(10), ledger)
    assert ledger.accounts() == []
