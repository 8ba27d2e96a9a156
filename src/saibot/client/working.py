"""A request's rows as the sweep sees them when its model is not least squares: residuals, weights, a refit at every step.

A regression of some family is least squares of its working response, weighted by V(mu), at its own fit: a candidate's
product with the residuals is then its score SUM z (y - mu), and what it explains is the score test's share of the null
deviance. Of any other model it is what a candidate explains of residuals that were predicted without their own key. Such
residuals still hold what the model missed of the own features, so a column is taken only if the part of it that the own
features do not explain, by the same model, explains them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from saibot.client.families import fit_family
from saibot.client.folds import FOLDS
from saibot.client.judging import RequestRows
from saibot.client.own_model import OwnModel
from saibot.search.request import Working
from saibot.semiring import Moments


@dataclass(frozen=True)
class RowModelling:
    """Fits the model to the request's own rows, with the columns that were taken so far."""

    rows: RequestRows
    model: OwnModel
    target: str
    keys: int

    def working(self, lookups: Sequence[np.ndarray]) -> Working:
        X, y, train = self._table(lookups), self.rows.target, ~self.rows.held_out
        family = self.model.family
        null = float(family.loss(y[train], np.full(int(train.sum()), y[train].mean())).sum())
        if self.model.linear:
            theta = fit_family(X[train], y[train], family)
            eta = theta[0] + X @ theta[1:]
            mu = family.mean(eta)
            weight = family.weight(mu[train])
            level = float(weight.mean())  # weights are around 1, so that they add up to rows
            response = eta[train] + (y - mu)[train] / weight
            moments = self._moments(response, weight / level)
            scale = null / level
        else:
            mu = self._cross_fitted(self.model, X, y)
            moments = self._moments((y - mu)[train], np.ones(int(train.sum())))
            scale = float(np.sum((y[train] - y[train].mean()) ** 2))
            if not train.all():
                mu[~train] = self.model.fitted(X[train], y[train])(X[~train])
        explained = 1 - float(family.loss(y[train], mu[train]).sum()) / max(null, 1e-300)
        return Working(moments, scale, explained, self._held_out(mu))

    def helps(self, values: np.ndarray, lookups: Sequence[np.ndarray], quantile: float) -> bool:
        """Whether what the own features do not explain of a column explains residuals, by `quantile` errors over keys."""
        if self.model.linear:
            return True  # the regression itself leaves out what own features explain
        X, y, train = self._table(lookups), self.rows.target, ~self.rows.held_out
        residual = y - self._cross_fitted(self.model, X, y)
        for column in np.atleast_2d(values):
            z = column[self.rows.codes]
            own = z - self._cross_fitted(self.model.explaining(), X, z)
            product = np.where(train, own * (residual - residual[train].mean()), 0.0)
            by_key = np.bincount(self.rows.codes, product, self.keys)
            if abs(by_key.sum()) > quantile * np.sqrt(float(by_key @ by_key)):
                return True
        return False

    def _table(self, lookups: Sequence[np.ndarray]) -> np.ndarray:
        return np.column_stack([self.rows.own, *(values[self.rows.codes] for values in lookups)])

    @cached_property
    def _fold(self) -> np.ndarray:
        """Of each row, by its key: a model that has seen a key's rows knows that key."""
        folds: np.ndarray = (np.random.default_rng(0).permutation(self.keys) % FOLDS)[self.rows.codes]
        return folds

    def _cross_fitted(self, model: OwnModel, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        train = ~self.rows.held_out
        predicted = np.full(len(y), float(y[train].mean()))
        for number in range(FOLDS):
            fit, on = train & (self._fold != number), self._fold == number
            if on.any() and fit.sum() > 1:
                predicted[on] = model.fitted(X[fit], y[fit])(X[on])
        return predicted

    def _moments(self, response: np.ndarray, weight: np.ndarray) -> Moments:
        """Weighted moments of the training rows, the response last."""
        train = ~self.rows.held_out
        table, codes = np.column_stack([self.rows.own[train], response]), self.rows.codes[train]
        m = table.shape[1]
        weighted = table * weight[:, None]
        return Moments(
            features=(*self.rows.names, self.target),
            counts=np.bincount(codes, weight, self.keys),
            sums=np.column_stack([np.bincount(codes, column, self.keys) for column in weighted.T]),
            products=weighted.T @ table,
            count=float(weight.sum()),
            total=weighted.sum(axis=0),
            count_noise=np.zeros(self.keys),
            sum_noise=np.zeros(self.keys),
            product_noise=np.zeros((m, m)),
            total_noise=np.zeros(m),
        )

    def _held_out(self, mu: np.ndarray) -> float | None:
        """The share of the null model's loss on the test table that is explained."""
        out, y, family = self.rows.held_out, self.rows.target, self.model.family
        if not out.any():
            return None
        null = float(family.loss(y[out], np.full(int(out.sum()), y[~out].mean())).sum())
        return 1 - float(family.loss(y[out], mu[out]).sum()) / max(null, 1e-300)
