"""How many factors there are, and learning them: for everybody, and for each group of providers without its own tables.

The number is chosen by tables that were held out, all tables of a provider together: the smallest whose foretelling of them
is within one standard error of the best, none at all included. In sample, more factors always fit better; on tables of other
providers, factors that are noise do harm.

A requester must not meet its own tables in the factors: a shared column would nearly be its own target, and the null
distribution of gains would no longer hold. So providers are divided into groups, and each group has factors of its own,
learned from all other groups.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from saibot.estimate.factors.em import ROUNDS, learn_rank, start
from saibot.estimate.factors.model import Factors, RankScore
from saibot.estimate.factors.readings import Readings
from saibot.estimate.factors.values import scales
from saibot.estimate.factors.weights import capped, most_of_one, numbered, teaching_weights

RANKS = (0, 1, 2, 3, 4, 6, 8, 12)
GROUPS = 5
CHOOSING = 1000  # tables that the number of factors is chosen by: more would not make it surer by much
NOTHING = 0.1  # a difference in log likelihood per table that is none: so much is found in pure noise
PATIENCE = 2  # ranks in a row that foretell worse than the best before the search ends


@dataclass(frozen=True)
class GroupedFactors:
    """Factors that all tables taught, and those of each group of providers, which its own tables did not teach."""

    everyone: Factors
    without: tuple[Factors, ...]
    group: Mapping[Hashable, int]

    def for_provider(self, provider: Hashable | None) -> Factors:
        """What a provider's requests may use. Somebody who has published nothing may use everything."""
        return self.without[self.group[provider]] if provider in self.group else self.everyone


def learn(
    readings: Readings,
    *,
    providers: Sequence[Hashable] | None = None,
    weights: np.ndarray | None = None,
    rank: int | None = None,
    rounds: int = ROUNDS,
) -> Factors:
    """The factors of all tables.

    `providers` names the provider of each table; without it each sketch has its own. `weights` (N,) multiply those that
    `teaching_weights` gives. The rank is chosen by held-out tables unless it is given.
    """
    lesson = _Lesson.of(readings, providers, weights)
    tried = () if rank is not None else lesson.tried(rounds)
    return lesson.factors(chosen(tried) if rank is None else rank, rounds, tried)


def learn_by_group(
    readings: Readings,
    *,
    providers: Sequence[Hashable] | None = None,
    weights: np.ndarray | None = None,
    rank: int | None = None,
    rounds: int = ROUNDS,
) -> GroupedFactors:
    """The factors of all tables, and for each of five groups of providers those of all other groups' tables."""
    everyone = learn(readings, providers=providers, weights=weights, rank=rank, rounds=rounds)
    lesson = _Lesson.of(readings, providers, weights)
    group = lesson.groups()
    without = [lesson.take(group != one).factors(everyone.rank, rounds, everyone.tried) for one in range(GROUPS)]
    names = readings.sketch.tolist() if providers is None else list(providers)
    return GroupedFactors(everyone, tuple(without), dict(zip(names, group.tolist(), strict=True)))


def chosen(tried: Sequence[RankScore]) -> int:
    """The smallest rank that is within one standard error of the best."""
    best = max((score.gain for score in tried), default=0.0)
    return min((score.rank for score in tried if best - score.gain <= score.error), default=0)


@dataclass(frozen=True)
class _Lesson:
    """Tables with their weights, and the number of their provider."""

    readings: Readings
    weights: np.ndarray
    provider: np.ndarray

    @classmethod
    def of(cls, readings: Readings, providers: Sequence[Hashable] | None, weights: np.ndarray | None) -> _Lesson:
        own = teaching_weights(readings)
        return cls(readings, own if weights is None else own * weights, numbered(providers, readings))

    @property
    def _start_weights(self) -> np.ndarray:
        """Capped by weight alone, where nothing is known yet of what the tables can tell."""
        return capped(self.weights, np.ones(len(self.weights)), self.provider)

    def take(self, which: np.ndarray) -> _Lesson:
        return _Lesson(self.readings.take(which), self.weights[which], self.provider[which])

    def factors(self, rank: int, rounds: int, tried: tuple[RankScore, ...] = ()) -> Factors:
        return self._learned((rank,), rounds, tried)[0]

    def _learned(self, ranks: Sequence[int], rounds: int, tried: tuple[RankScore, ...] = ()) -> list[Factors]:
        tree = self.readings.tree
        if not self.weights.any():
            return [Factors.none(tree)] * len(ranks)
        first = start(self.readings, self._start_weights, max(ranks))
        found = []
        for rank in ranks:
            learned = learn_rank(
                self.readings, self.weights, self.provider, first.parameters(rank), rounds=rounds
            ).parameters
            found.append(Factors.of(tree, learned.loadings, learned.shares, tried))
        return found

    def groups(self) -> np.ndarray:
        """A group for each table (N,), that of its provider: five of about the same weight, the largest providers first."""
        totals = np.bincount(self.provider, self.weights)
        group, load = np.zeros(len(totals), np.intp), np.zeros(GROUPS)
        for provider in np.argsort(-totals, kind="stable"):
            group[provider] = load.argmin()
            load[group[provider]] += totals[provider] + 1e-12
        return np.asarray(group[self.provider])

    def tried(self, rounds: int) -> tuple[RankScore, ...]:
        """Every rank's score on tables that did not teach it, up to where more factors only do harm."""
        some = self if len(self.readings) <= CHOOSING else self.take(_spaced(len(self.readings), CHOOSING))
        weights = some._start_weights
        group = some.groups()
        taught = [(group != one, group == one) for one in range(GROUPS)]
        taught = [(others, held) for others, held in taught if held.any() and some.weights[others].any()]
        if not taught:
            return (RankScore(0, 0.0, 0.0),)
        lessons = [(some.take(others), some.readings.take(held), held) for others, held in taught]
        starts = [start(lesson.readings, lesson._start_weights, max(RANKS)) for lesson, _, _ in lessons]
        foretold: list[np.ndarray] = []
        best, behind = -np.inf, 0
        for rank in RANKS:
            likelihood = np.zeros(len(some.readings))
            for (lesson, held_out, held), first in zip(lessons, starts, strict=True):
                if rank > min(len(lesson.readings), lesson.readings.tree.size):
                    likelihood[held] = -np.inf
                    continue
                learned = learn_rank(lesson.readings, lesson.weights, lesson.provider, first.parameters(rank), rounds=rounds)
                found = Factors(lesson.readings.tree, learned.parameters.loadings, learned.parameters.shares)
                likelihood[held] = scales(found, held_out).log_likelihood
            if not np.isfinite(likelihood).all():
                break
            foretold.append(likelihood)
            mean = float(weights @ likelihood) / float(weights.sum())
            behind = 0 if mean > best else behind + 1
            best = max(best, mean)
            if behind >= PATIENCE:
                break
        return _compared(np.array(foretold), weights, some.provider)


def _spaced(number: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, number - 1, most).astype(np.intp))


def _compared(foretold: np.ndarray, weights: np.ndarray, provider: np.ndarray) -> tuple[RankScore, ...]:
    """Scores of ranks (ranks, N). Tables of a provider may be alike, so providers are what varies."""
    total = float(weights.sum())
    beyond_none = _by_provider((foretold - foretold[0]) * weights, provider)
    means = beyond_none.sum(axis=1) / total
    ahead = _by_provider((foretold[int(means.argmax())] - foretold) * weights, provider)
    taught = np.bincount(provider, weights)
    number = max(int(np.count_nonzero(taught)), 2)
    rest = ahead - ahead.sum(axis=1, keepdims=True) * taught / total
    errors = np.sqrt((rest**2).sum(axis=1) * number / (number - 1)) / total
    return tuple(
        RankScore(rank, float(mean), max(float(error), NOTHING))
        for rank, mean, error in zip(RANKS, means, errors, strict=False)
    )


def _by_provider(differences: np.ndarray, provider: np.ndarray) -> np.ndarray:
    """Sums over each provider's tables (ranks, providers), none more than a fifth of all: the likelihood of a table whose
    noise is not what it claims has no bounds."""
    found = np.array([np.bincount(provider, row) for row in differences])
    most = np.array([most_of_one(np.abs(row)) for row in found])[:, None]
    return np.asarray(np.clip(found, -most, most))
