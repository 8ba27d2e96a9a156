"""Which table each mechanism selects, run after run: the lookup search of this system, and the paper's join search."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from research.baselines import EntryNoise, PerTuple, apm, sf, tpm
from research.baselines.many_to_many import r2_of_grams
from research.baselines.noise import keyed_moment_matrices
from research.plans import plan_for
from research.real.prepare import SPREAD
from research.real.private_preparation import Preparation, prepared_component, prepared_request, price
from research.real.release import Values, private_moments, private_values
from research.real.world import FEATURES, World, r2_with
from saibot.estimate.moments import KeyedMoments, exact_moments
from saibot.privacy import Budget
from saibot.search.expected import expected_gains, rank_by_both
from saibot.search.scoring import score
from saibot.search.state import State
from saibot.search.sweep import sweep

# A private request's public bounds: the target's at one standard deviation, and a scale at which the own feature's 1.5 add
# only a ninth to the squared norm. The target gets nearly all of the sensitivity.
TARGET_WIDTH, OWN_WIDTH = 1.0, 4.5
VALUE_WIDTH = 0.7  # a provider's bounds: narrow, because where noise dominates a little bias is the better bargain
REQUEST_BOUND_SQUARED = Decimal("1.12")
RANKING_QUANTILE = 1.0
TEST_SHARE = 0.25
RANKINGS = ("usable", "both")


@dataclass(frozen=True)
class Ask:
    """A task's request, split into a training part that is searched with and a held-out part that judges."""

    world: World
    train: np.ndarray  # mask of the request's rows

    @classmethod
    def of(cls, world: World, rng: np.random.Generator) -> Ask:
        return cls(world, rng.random(world.rows) >= TEST_SHARE)

    def moments(self, preparation: Preparation, budget: Budget, rng: np.random.Generator) -> KeyedMoments:
        """Exact moments of the training part in the units of a private request; a private preparation is drawn anew."""
        world = self.world
        x, y = world.x[self.train] / SPREAD, np.clip(world.y[self.train] / TARGET_WIDTH, -1.0, 1.0)
        if preparation != "paper":
            widths = SPREAD, TARGET_WIDTH
            x, y = prepared_request(world.raw[self.train], preparation, budget, widths=widths, rng=rng)
        table = np.column_stack([x * SPREAD / OWN_WIDTH, y])
        return exact_moments(FEATURES, table, world.place[self.train], len(world.domain.keys))

    @cached_property
    def ceiling(self) -> float:
        """Held-out R2 of the raw values of the table that is best in training: what no privacy would give."""
        world, table = self.world, self.world.table
        in_training = [r2_with(table[self.train], values[world.place[self.train]]) for values in world.raw_values]
        return r2_with(table, world.raw_values[int(np.argmax(in_training))][world.place], train=self.train)

    def materialised(self, values: np.ndarray) -> float:
        """Held-out R2 of private values (d,) joined to the request's own rows."""
        return r2_with(self.world.table, values[self.world.place], train=self.train)


def lookup_values_of(
    world: World, preparation: Preparation, budget: Budget, *, runs: int, rng: np.random.Generator, levels: bool = True
) -> Values:
    """What all candidates of a task publish in so many runs."""
    if preparation == "paper":
        sums = np.repeat(world.sums(world.clipped(VALUE_WIDTH))[None], runs, axis=0)
    else:
        drawn = [
            [prepared_component(columns, preparation, budget, width=VALUE_WIDTH, rng=rng) for columns in world.columns]
            for _ in range(runs)
        ]
        sums = np.array([world.sums(values) for values in drawn])
    left = price(preparation, budget)
    return private_values(world.counts, sums, world.domain, (left.budget, left.share), rng=rng, levels=levels)


def lookup_scores(
    ask: Ask, values: Values, run: int, preparation: Preparation, budget: Budget, *, private: bool, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """What each ranking orders the candidates by, in one run; a local request has no noise."""
    if not private:
        return rank_values(ask, ask.moments("paper", budget, rng), values, run)
    left = price(preparation, budget)
    exact = ask.moments(preparation, budget, rng)
    moments = private_moments(exact, left.budget, bound_squared=REQUEST_BOUND_SQUARED, rng=rng, share=left.share)
    return rank_values(ask, moments, values, run)


def rank_values(ask: Ask, moments: KeyedMoments, values: Values, run: int) -> dict[str, np.ndarray]:
    looked, levels = values.of_run(run)
    state = State.of(moments, "y")
    base = state.base(np.arange(looked.shape[1]), looked.shape[1])
    centred = np.ascontiguousarray(looked - looked.mean(axis=1, keepdims=True))
    scores = score(*sweep(centred, base.linear, base.square), base, quantile=RANKING_QUANTILE)
    usable = np.where(scores.lower > 0, 1 + scores.lower, scores.gain * (1 - 1e-9))
    parents = ask.world.domain.parents[: len(levels) - 1]
    return {"usable": usable, "both": rank_by_both(scores.lower, scores.gain, expected_gains(state, levels, parents))}


# ------------------------------------------------------------------------------------------------ the paper's join


class JoinSearch:
    """The paper's search on one task: noisy moments of both sides, the largest R2 of the join wins, failures count as 0."""

    def __init__(self, world: World) -> None:
        self.world = world
        keys = len(world.domain.keys) + 1  # the catch-all is the last, and empty on the request's side
        self.request = keyed_moment_matrices(world.table, world.place, keys)
        self.rows = [values[:, None] for values in world.clipped(SPREAD)]
        self.candidates = np.array(
            [keyed_moment_matrices(rows, place, keys) for rows, place in zip(self.rows, world.places, strict=True)]
        )

    @cached_property
    def exact_r2(self) -> np.ndarray:
        return self._r2(joined_with_all(self.request, self.candidates))

    @cached_property
    def exact_gain(self) -> np.ndarray:
        """What a candidate adds to the own feature, on the same joined rows."""
        own = joined_with_all(self.request, self.candidates)[:, :3, :3]
        return np.asarray(np.maximum(self.exact_r2 - self._r2(own), 0.0))

    def scores(self, method: str, budget: Budget, *, answers: int, rng: np.random.Generator) -> np.ndarray:
        """The R2 that the search sees of every candidate, 0 where it failed."""
        match method:
            case "nonprivate":
                return self.exact_r2
            case "apm":
                return self._r2(self._noisy_aggregates(budget, answers, rng))
            case "tpm" | "sf1":
                return self._r2(joined_with_all(*self._noisy_rows(method, budget, rng)))
            case _:
                return self._r2(joined_with_all(*self._noisy_keys(method, budget, rng)))

    @staticmethod
    def _r2(grams: np.ndarray) -> np.ndarray:
        return r2_of_grams(grams, target=2, rule="paper")  # over [1, x, y, z]

    def _noisy_keys(self, method: str, budget: Budget, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """`fpm`, `fpm-opt` or `joint-semiring`: noise on the moments of every key."""
        mechanism, layout, allocation = (
            ("joint", "semiring", "alg2") if method == "joint-semiring" else (method, "join", None)
        )
        asked, given = (
            EntryNoise.of_plan(plan_for(mechanism, layout, features=m, budget=budget, allocation=allocation)) for m in (2, 1)
        )
        request = self.request + asked.drawn(rng, self.request.shape[:1])
        return request, self.candidates + given.drawn(rng, self.candidates.shape[:2])

    def _noisy_rows(self, method: str, budget: Budget, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """`tpm` or `sf1`: noise on every row, and its key randomised."""
        world = self.world
        facts: dict[str, Any] = {"bound_squared": 1.0, "epsilon": float(budget.epsilon), "delta": float(budget.delta)}
        facts["keys"] = len(world.domain.keys) + 1

        def released(rows: np.ndarray, place: np.ndarray) -> np.ndarray:
            m = rows.shape[1]
            plan = tpm.plan(features=m, **facts) if method == "tpm" else _sf1(len(rows), m, **facts)
            return plan.release_keyed(rows, place, rng)

        request = released(world.table, world.place)
        return request, np.array([released(rows, place) for rows, place in zip(self.rows, world.places, strict=True)])

    def _noisy_aggregates(self, budget: Budget, answers: int, rng: np.random.Generator) -> np.ndarray:
        """`apm`: noise on each augmented aggregate; the larger frequency of each pair is taken as public."""
        found = joined_with_all(self.request, self.candidates)
        most = self.request[:, 0, 0].max()
        for number, candidate in enumerate(self.candidates):
            noise = apm.join_noise(
                features=3,
                bound_squared=2.0,
                max_frequency=int(max(most, candidate[:-1, 0, 0].max())),
                epsilon=float(budget.epsilon),
                delta=float(budget.delta),
                parts=answers,
            )
            found[number] += noise.drawn(rng, ())
        return found


@lru_cache(maxsize=4096)
def _sf1(rows: int, features: int, **facts: Any) -> PerTuple:
    return sf.sf1(rows=rows, features=features, **facts)


def joined_with_all(request: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """(N, 4, 4): moments over [1, x, y, z] of the request joined with every candidate."""
    keys = len(request)
    found = np.empty((len(candidates), 4, 4))
    found[:, :3, :3] = (candidates[:, :, 0, 0] @ request.reshape(keys, -1)).reshape(-1, 3, 3)
    found[:, 3, :3] = found[:, :3, 3] = candidates[:, :, 0, 1] @ request[:, 0, :]
    found[:, 3, 3] = candidates[:, :, 1, 1] @ request[:, 0, 0]
    return found
