"""What figures measure is what users get: releases from memory are those of `privatize`, noise is the real one's twin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, laplace

from research.baselines.noise import keyed_moment_matrices, moment_matrices
from research.plans import deviations, planned, terms
from research.releases import MomentRelease, Release
from research.seeded import Seeded
from saibot.estimate.moments import moments_of_sketch
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.domain_file import read_domain
from saibot.privatize.noise import OpenDPNoise
from saibot.sketch import Sketch, read_sketch, write_sketch

ONE = Budget("1", "1e-6")
BOUGHT = {"bounds": {"buy": "0.2"}}
PUBLIC = {"bounds": (-20.0, 130.0)}


def none(count: int) -> None:
    pass


@pytest.fixture
def both(tmp_path: Path, saibot_home: Path):
    """The same rows released by `privatize` and from memory, with the same seed."""

    def make(features: dict[str, Any], component: dict[str, Any] | None = None, **more: Any) -> tuple[Sketch, Sketch]:
        rng = np.random.default_rng(1)
        n, d = 3000, 12
        keys = [f"k{i:02d}" for i in range(d)]
        pd.DataFrame({"key": keys, "half": [f"h{i % 3}" for i in range(d)]}).to_csv(tmp_path / "keys.csv", index=False)
        place = rng.integers(0, d + 1, n)
        values = np.column_stack([rng.normal(50, 20, n), rng.gamma(2.0, 5.0, n) - 3, rng.uniform(-1, 1, n)])[
            :, : len(features)
        ]
        values[rng.random(values.shape) < 0.05] = np.nan
        facts: dict[str, Any] = {"dataset": {"name": "t"}, "features": features}
        facts |= {"component": component} if component else {}
        keyed = {"column": "key", "domain": {"file": "keys.csv", "id": "keys"}, "levels": ["half"]}
        card = Card.parse(facts | {"keys": {"keys": keyed}}, folder=tmp_path)
        frame = pd.DataFrame(values, columns=list(features)).assign(key=[[*keys, "elsewhere"][i] for i in place])
        squared = more.get("bound_squared")
        request = ReleaseRequest(
            card,
            ONE,
            Neighbours.REPLACE_ONE,
            key="keys",
            allocation=more.get("allocation"),
            bound=squared.sqrt() if squared else None,
        )
        whole = privatize(frame, request, Ledger(saibot_home), noise=Seeded(7)).sketch
        domain = read_domain(tmp_path / "keys.csv", id="keys", version=1).with_levels(("half",))
        return whole, Release(Card.parse(facts), values, place, domain, ONE, **more).sketch(Seeded(7))

    return make


def same(one: Sketch, other: Sketch) -> bool:
    levels = all(np.array_equal(a.values, b.values) for a, b in zip(one.levels, other.levels, strict=True))
    of_its_own = {"digest", "dataset", "account", "spent"}  # an experiment charges no ledger
    return levels and one.header.model_dump(exclude=of_its_own) == other.header.model_dump(exclude=of_its_own)


def without_account(sketch: Sketch) -> Sketch:
    return replace(sketch, header=sketch.header.model_copy(update={"account": None, "spent": None})).sealed()


def test_a_release_from_memory_is_that_of_privatize_to_the_last_bit(both) -> None:
    whole, quick = both({"a": PUBLIC, "b": {"bounds": (-3.0, 20.0), "missing": 2.0}})
    assert same(whole, quick) and quick.digest == without_account(whole).digest


def test_so_it_is_for_one_feature_and_the_allocation_values(both) -> None:
    assert same(*both({"a": PUBLIC}, allocation="values"))


def test_so_it_is_with_a_norm_clip(both) -> None:
    from decimal import Decimal

    whole, quick = both({"a": {"bounds": (30.0, 70.0)}, "b": {"bounds": (-3.0, 9.0)}}, bound_squared=Decimal("1.21"))
    assert same(whole, quick)


def test_so_it_is_with_bounds_and_a_component_that_are_bought(both) -> None:
    whole, quick = both({"a": BOUGHT, "b": BOUGHT}, {"of": ("a", "b"), "spread": 0.7})
    assert whole.header.preparation.kind == "bought"
    # Weights of a component may differ in the last digit of a float, and so a few rows by one step of the grid.
    assert [feature.name for feature in quick.header.features] == ["component"]
    assert quick.header.features[0].model_dump(exclude={"weights"}) == pytest.approx(
        whole.header.features[0].model_dump(exclude={"weights"})
    )
    for one, other in zip(whole.levels, quick.levels, strict=True):
        np.testing.assert_allclose(one.values, other.values, atol=1e-3)
    assert quick.header.plan == whole.header.plan and quick.header.preparation == whole.header.preparation


def test_so_it_is_with_bought_bounds_alone(both) -> None:
    assert same(*both({"a": BOUGHT, "b": {"bounds": {"buy": "0.2", "quantiles": (0.24, 0.76)}}}))


def test_a_sketch_with_seeded_noise_says_so_and_can_be_read_again(both) -> None:
    _, quick = both({"a": PUBLIC})
    again = read_sketch(write_sketch(quick))
    assert again.header.simulation and again.header.assumptions.noise == "simulated" and again.digest == quick.digest


# ------------------------------------------------------------------------------------------------ noise


def test_seeded_noise_has_the_laws_of_the_real_one_and_can_be_drawn_again() -> None:
    zeros = np.zeros(20_000, np.int64)
    normal, decay = Seeded(1).gaussian(zeros, 5000.0, none), Seeded(1).laplace(zeros, 5000.0, none)
    assert kstest(normal / 5000, "norm").pvalue > 1e-4 and kstest(normal / 5500, "norm").pvalue < 1e-4
    assert kstest(decay / 5000, laplace.cdf).pvalue > 1e-4 and kstest(decay / 5500, laplace.cdf).pvalue < 1e-4
    assert np.array_equal(normal, Seeded(1).gaussian(zeros, 5000.0, none))
    assert normal.dtype == np.int64 and Seeded.simulated


def test_a_seeded_choice_is_distributed_as_the_real_one() -> None:
    scores = np.array([0, 3, 6, 40])
    shares = []
    for source in (Seeded(2), OpenDPNoise()):
        chosen = [source.choose(scores, 1, 0.5) for _ in range(3000)]
        shares.append(np.bincount(chosen, minlength=4) / 3000)
    assert np.abs(shares[0] - shares[1]).max() < 0.045
    assert 0.05 < shares[0][1] < shares[0][0] < 0.9


# ------------------------------------------------------------------------------------------------ moment matrices


def test_released_moments_have_the_noise_of_their_plan_at_any_norm_bound() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(400, 2)) * 1.5
    rows *= np.minimum(1, 5 / np.linalg.norm(rows, axis=1, keepdims=True))
    exact = moment_matrices(rows)
    plan = planned(terms("fpm", "union", features=2, budget=ONE, bound_squared=25))
    noisy = MomentRelease(plan, 400).matrices(np.repeat(exact[None], 3000, axis=0), Seeded(rng))
    sigma = deviations(plan, "global")
    assert (noisy[:, 0, 0] == 400).all() and sigma[0, 0] == 0
    for entry in ((0, 1), (1, 1), (1, 2)):
        error = (noisy[:, *entry] - exact[entry]) / sigma[entry]
        assert abs(error.mean()) < 0.1 and 0.95 < error.std() < 1.05
        assert np.array_equal(noisy[:, *entry], noisy[:, *entry[::-1]])


def test_pure_releases_state_standard_deviations_too() -> None:
    plan = planned(terms("fpm", "union", features=1, budget=Budget("1", "0"), bound_squared=25))
    noisy = MomentRelease(plan, 50).matrices(np.zeros((4000, 2, 2)), Seeded(4))
    assert noisy[:, 1, 1].std() / deviations(plan, "global")[1, 1] == pytest.approx(1, abs=0.08)


def test_keyed_moments_come_back_key_by_key_and_as_a_sketch_with_its_noise_known() -> None:
    rng = np.random.default_rng(5)
    rows, place = rng.uniform(-1, 1, (5000, 2)), rng.integers(0, 30, 5000)
    exact = keyed_moment_matrices(rows, place, 31)  # nobody is outside
    join = planned(terms("fpm-opt", "join", features=2, budget=ONE, bound_squared=2))
    noisy = MomentRelease(join, 5000).matrices(np.array([exact, exact]), Seeded(rng))
    assert noisy.shape == (2, 31, 3, 3) and not np.array_equal(noisy[0], noisy[1])
    assert ((noisy - exact) / deviations(join, "key")).std() == pytest.approx(1, abs=0.1)
    lookup = planned(terms("joint", "lookup", features=2, budget=ONE, bound_squared=2, sizes=(31,), rows=5000))
    found = moments_of_sketch(MomentRelease(lookup, 5000).sketch(exact, ("x", "y"), Seeded(rng)))
    assert found.features == ("x", "y") and found.count == 5000
    error = (found.sums - exact[:, 0, 1:]) / found.sum_noise
    assert error.std() == pytest.approx(1, abs=0.25)
    assert (np.abs(found.products - exact.sum(axis=0)[1:, 1:]) < 6 * found.product_noise).all()
