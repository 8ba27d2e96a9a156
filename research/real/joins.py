"""The paper's search by many-to-many joins on one task, under the noise of each mechanism and baseline."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from research.baselines import PerTuple, apm, sf, tpm
from research.baselines.many_to_many import joined_with_all, r2_of_grams
from research.baselines.noise import keyed_moment_matrices
from research.plans import planned, terms
from research.real.components import SPREAD
from research.real.world import World
from research.releases import MomentRelease
from research.seeded import Seeded
from saibot.privacy import Budget


class JoinSearch:
    """Noisy moments of both sides, the largest R2 of the join wins, failures count as 0."""

    def __init__(self, world: World) -> None:
        self.world = world
        keys = len(world.domain) + 1  # the catch-all is the last, and empty on the request's side
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
        noise = Seeded(rng)

        def released(exact: np.ndarray, rows: int) -> np.ndarray:
            plan = planned(terms(mechanism, layout, features=exact.shape[-1] - 1, budget=budget, allocation=allocation))
            return MomentRelease(plan, rows).matrices(exact, noise)

        sizes = [len(place) for place in self.world.places]
        candidates = [released(exact, size) for exact, size in zip(self.candidates, sizes, strict=True)]
        return released(self.request, self.world.rows), np.array(candidates)

    def _noisy_rows(self, method: str, budget: Budget, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """`tpm` or `sf1`: noise on every row, and its key randomised."""
        world = self.world
        facts: dict[str, Any] = {"bound_squared": 1.0, "epsilon": float(budget.epsilon), "delta": float(budget.delta)}
        facts["keys"] = len(world.domain) + 1

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
