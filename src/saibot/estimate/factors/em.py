"""Learning factors from tables, by expectation and maximisation.

Each of three updates is exact for the expectations of one sweep, so none of them alone can lower the likelihood:

    Lambda <- [ sum_i Lambda E(aa') + E(b)E(a)'/tau - (S A Lambda) V ] [ sum_i E(aa') + kappa I ]^-1 C
    tau_i^2 <- [ tau_i^2 E|a|^2 + sum_l E|u_l|^2 / t_l + 4 typical ] / [ r + keys of all levels + 4 ]
    t_l    <- mean over tables and keys of the level of E u_l^2 / tau_i^2

with u_l the level's deviations of tau b, and all expectations with their variances: leaving those out makes tau^2 too large
by a third and more. C C' is the mean of E(aa'), which the model has at 1: taking up what it differs by (parameter expansion)
needs fewer rounds. The typical spread weighs as four keys that are known exactly, as in `saibot.estimate.lookup`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saibot.estimate.factors.model import LEAST_SHARE
from saibot.estimate.factors.posterior import FactorPosterior
from saibot.estimate.factors.readings import PRIOR_KEYS, Readings
from saibot.estimate.factors.weights import capped

ROUNDS = 8
RIDGE = 1.0  # kappa, in tables
MOST_SHARED_AT_FIRST = 0.5
ITERATIONS = 6  # of the subspace that learning starts from


@dataclass(frozen=True)
class Parameters:
    """Where learning is: loadings (d, r), shares of levels (L,), and each table's tau^2 (N,)."""

    loadings: np.ndarray
    shares: np.ndarray
    tau2: np.ndarray

    def normalised(self) -> Parameters:
        """The same model with factors and levels making up a variance of 1."""
        whole = float((self.loadings**2).sum(axis=1).mean() + self.shares.sum())
        return Parameters(self.loadings / whole**0.5, self.shares / whole, self.tau2 * whole)


@dataclass(frozen=True)
class LearnedParameters:
    parameters: Parameters
    log_likelihood: tuple[float, ...]  # weighted, before each round


@dataclass(frozen=True)
class Start:
    """What all ranks are learned from: the tables' own posterior means, in units of tau, and their main directions."""

    directions: np.ndarray  # (d, most), orthogonal
    sizes: np.ndarray  # (most,), their mean squares times d
    shares: np.ndarray
    tau2: np.ndarray

    def parameters(self, rank: int) -> Parameters:
        loadings = self.directions[:, :rank] * np.sqrt(self.sizes[:rank])
        shared = float((loadings**2).sum(axis=1).mean())
        if shared > MOST_SHARED_AT_FIRST:
            loadings = loadings * np.sqrt(MOST_SHARED_AT_FIRST / shared)
            shared = MOST_SHARED_AT_FIRST
        return Parameters(loadings, self.shares * (1 - shared), self.tau2)


def start(readings: Readings, weights: np.ndarray, most: int) -> Start:
    """From each table by itself. `most` is the largest rank that will be asked for."""
    tau2, total = readings.first_scales, max(float(weights.sum()), 1e-300)
    shares = weights @ (readings.spreads / np.maximum(readings.spreads.sum(axis=1, keepdims=True), 1e-300)) / total
    shares = np.maximum(shares, 0.02)
    shares /= shares.sum()
    d = readings.tree.size
    most = min(most, d)
    own, none = np.zeros(readings.weight.shape), np.zeros((d, 0))
    for block in readings.blocks(8) if most else ():
        found = FactorPosterior(readings.take(block), none, shares, tau2[block])
        own[block] = found.deviations * np.sqrt(weights[block] / (total * tau2[block]))[:, None]
    # The main directions of these by subspace iteration from fixed ones: a few suffice, because learning goes on from them.
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(d, min(most + 4, d))))[0]
    for _ in range(ITERATIONS if most else 0):
        basis = np.linalg.qr(own.T @ (own @ basis))[0]
    projected = own @ basis
    sizes, turn = np.linalg.eigh(projected.T @ projected)
    return Start((basis @ turn)[:, ::-1][:, :most], np.maximum(sizes[::-1][:most], 0.0), shares, tau2)


def learn_rank(
    readings: Readings,
    weights: np.ndarray,
    provider: np.ndarray,
    first: Parameters,
    *,
    rounds: int = ROUNDS,
    ridge: float = RIDGE,
    prior_keys: float = PRIOR_KEYS,
) -> LearnedParameters:
    """Rounds of learning from some first parameters, with the weights of too large providers capped in each."""
    now, trace = first.normalised(), []
    information = np.ones(len(readings))
    for _ in range(rounds):
        sums = _Sums.of(readings, now, capped(weights, information, provider))
        trace.append(sums.log_likelihood)
        now = sums.updated(readings, now, ridge, prior_keys).normalised()
        information = sums.information if now.loadings.shape[1] else information
    return LearnedParameters(now, tuple(trace))


@dataclass(frozen=True)
class _Sums:
    """What one pass over all tables leaves for the updates, weighted."""

    with_factors: np.ndarray  # sum of E(z a')/tau, (d, r)
    factors: np.ndarray  # sum of E(aa'), (r, r)
    own_factors: np.ndarray  # E|a|^2 of each table, (N,)
    squares: np.ndarray  # of each level's deviations of each table, (L, N), in units of the tau^2 so far
    information: np.ndarray  # tr(I - V) of each table, (N,)
    weights: np.ndarray
    log_likelihood: float

    @classmethod
    def of(cls, readings: Readings, now: Parameters, weights: np.ndarray) -> _Sums:
        N, (d, r) = len(readings), now.loadings.shape
        with_tree, factors, likelihood = np.zeros((d, r)), np.zeros((r, r)), 0.0
        own_factors, information, squares = np.zeros(N), np.zeros(N), np.zeros((len(now.shares), N))
        for block in readings.blocks(1 + r):
            found = FactorPosterior(readings.take(block), now.loadings, now.shares, now.tau2[block])
            a, V, weight = found.factor_means, found.factor_covariance, weights[block]
            second = V + a[:, :, None] * a[:, None, :]
            factors += np.einsum("b,bfg->fg", weight, second)
            with_tree += (found.tree_part * (weight / found.tau)[:, None]).T @ a
            for column, uncertain in zip(
                found.smoothed_loadings, (V * weight[:, None, None]).transpose(1, 0, 2), strict=True
            ):
                with_tree -= column.T @ uncertain
            own_factors[block] = np.einsum("bff->b", second)
            information[block] = r - np.einsum("bff->b", V)
            squares[:, block] = found.level_squares() / now.tau2[block]
            likelihood += float(weight @ found.log_likelihood)
        return cls(now.loadings @ factors + with_tree, factors, own_factors, squares, information, weights, likelihood)

    def updated(self, readings: Readings, now: Parameters, ridge: float, prior_keys: float) -> Parameters:
        r, sizes = now.loadings.shape[1], np.array(readings.tree.sizes)
        total, loadings = max(float(self.weights.sum()), 1e-300), now.loadings
        if r:
            # By eigenvalues: readings that no noise explains make the matrix as good as singular. C is known up to rotation.
            values, turn = np.linalg.eigh(self.factors)
            values = np.maximum(values, 0.0)
            loadings = (self.with_factors @ turn) * (np.sqrt(values / total) / (values + ridge))
        scale = (
            self.own_factors + (self.squares / now.shares[:, None]).sum(axis=0) + prior_keys * readings.typical / now.tau2
        )
        scale = scale / (r + sizes.sum() + prior_keys)
        tau2 = np.clip(now.tau2 * scale, 1e-6 * readings.cap, readings.cap)
        scale = tau2 / now.tau2
        shares = (self.squares / scale) @ self.weights / (total * sizes)
        return Parameters(loadings, np.maximum(shares, LEAST_SHARE), tau2)
