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

from saibot.estimate.factors.em import ROUNDS, Start, learn_rank, start
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
    return _Lesson.of(readings, providers, weights).best(rank, rounds)


def learn_by_group(
    readings: Readings,
    *,
    providers: Sequence[Hashable] | None = None,
    weights: np.ndarray | None = None,
    rank: int | None = None,
    rounds: int = ROUNDS,
) -> GroupedFactors:
    """The factors of all tables, and for each of five groups of providers those of all other groups' tables."""
    lesson = _Lesson.of(readings, providers, weights)
    everyone, group = lesson.best(rank, rounds), lesson.groups()
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

    def best(self, rank: int | None, rounds: int) -> Factors:
        """Of this rank, or of the one that held-out tables speak for."""
        tried = () if rank is not None else self.tried(rounds)
        return self.factors(chosen(tried) if rank is None else rank, rounds, tried)

    def factors(self, rank: int, rounds: int, tried: tuple[RankScore, ...] = ()) -> Factors:
        if not self.weights.any():
            return Factors.none(self.readings.tree)
        first = start(self.readings, self._start_weights, rank).parameters(rank)
        found = learn_rank(self.readings, self.weights, self.provider, first, rounds=rounds).parameters
        return Factors.of(self.readings.tree, found.loadings, found.shares, tried)

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
        group = some.groups()
        masks = [group == one for one in range(GROUPS)]
        trials = [_Trial.of(some, held) for held in masks if held.any() and some.weights[~held].any()]
        scores: tuple[RankScore, ...] = (RankScore(0, 0.0, 0.0),)
        foretold: list[np.ndarray] = []
        for rank in RANKS if trials else ():
            if rank > min(min(*trial.lesson.readings.weight.shape) for trial in trials):
                break
            foretold.append(np.zeros(len(some.readings)))
            for trial in trials:
                foretold[-1][trial.held] = trial.foretold(rank, rounds)
            scores = _compared(np.array(foretold), some._start_weights, some.provider)
            best = max(range(len(scores)), key=lambda place: scores[place].gain)
            if len(scores) - 1 - best >= PATIENCE:
                break
        return scores


@dataclass(frozen=True)
class _Trial:
    """Tables that teach, and those (a mask) that are held out."""

    lesson: _Lesson
    held_out: Readings
    held: np.ndarray
    start: Start

    @classmethod
    def of(cls, everything: _Lesson, held: np.ndarray) -> _Trial:
        lesson = everything.take(~held)
        first = start(lesson.readings, lesson._start_weights, max(RANKS))
        return cls(lesson, everything.readings.take(held), held, first)

    def foretold(self, rank: int, rounds: int) -> np.ndarray:
        """The log likelihood of the tables that were held out."""
        lesson, first = self.lesson, self.start.parameters(rank)
        found = learn_rank(lesson.readings, lesson.weights, lesson.provider, first, rounds=rounds).parameters
        return scales(Factors(lesson.readings.tree, found.loadings, found.shares), self.held_out).log_likelihood


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
