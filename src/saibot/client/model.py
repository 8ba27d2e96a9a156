"""The model that a search ends with: a linear regression fitted on moments, in original units, with `predict`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from saibot.client.families import family_named
from saibot.client.own_columns import OwnFeature
from saibot.client.own_model import Predictor
from saibot.client.tables import column_names, numbers, read_columns
from saibot.errors import InvalidInput
from saibot.privatize.read import TableLike
from saibot.wire.result import OwnColumn


class LinearModel:
    """Reads like a fitted scikit-learn regressor: `feature_names_in_`, `coef_`, `intercept_`, `predict`, `score`.

    Fitted on moments, which for a local request gives what ordinary least squares gives on the augmented rows. `predict`
    takes the requester's own rows, augmented or not: columns that are not there yet are looked up.
    """

    def __init__(
        self,
        *,
        target: str,
        own: tuple[OwnColumn, ...],
        lookups: tuple[str, ...],
        coefficients: Mapping[str, float],
        intercept: float,
        family: str = "gaussian",
        augment: Callable[[TableLike], dict[str, np.ndarray]],
    ) -> None:
        self.target = target
        self.feature_names_in_ = np.array([*(column.name for column in own), *lookups], dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.coef_ = np.array([coefficients[name] for name in self.feature_names_in_])
        self.intercept_ = float(intercept)
        self._own, self._lookups, self._augment = own, lookups, augment
        self._family = family_named(family)

    def predict(self, table: TableLike) -> np.ndarray:
        """The target expected for each row, in its original units."""
        present = set(column_names(table))
        own = [column.column for column in self._own]
        there = [name for name in self._lookups if name in present]
        rows = read_columns(table, [*own, *there]) if own or there else None
        looked_up = self._augment(table) if len(there) < len(self._lookups) else {}
        columns = [_own_values(rows, column) for column in self._own]
        columns += [numbers(rows, name) if name in there else looked_up[name] for name in self._lookups]
        if not columns:
            length = len(read_columns(table, list(column_names(table))[:1]))
            return self._mean(np.zeros((length, 0)))
        return self._mean(np.column_stack(columns))

    def _mean(self, columns: np.ndarray) -> np.ndarray:
        return self._family.mean(columns @ self.coef_ + self.intercept_)

    def score(self, table: TableLike) -> float:
        """R2 on rows that have the target; at most 1, and below 0 where the mean would do better."""
        truth = numbers(read_columns(table, [self.target]), self.target)
        there = ~np.isnan(truth)
        if there.sum() < 2:
            raise InvalidInput(f"fewer than two rows have a value of {self.target!r}.")
        left = truth[there] - self.predict(table)[there]
        spread = truth[there] - truth[there].mean()
        return float(1 - (left @ left) / max(spread @ spread, 1e-300))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.target} ~ {' + '.join(self.feature_names_in_) or '1'})"


class FittedModel(LinearModel):
    """The requester's own kind of model, fitted on its rows and the looked-up columns; it has no coefficients to show."""

    def __init__(self, predictor: Predictor, **about: Any) -> None:
        names = [*(column.name for column in about["own"]), *about["lookups"]]
        super().__init__(coefficients=dict.fromkeys(names, float("nan")), intercept=float("nan"), **about)
        self._predictor = predictor

    def _mean(self, columns: np.ndarray) -> np.ndarray:
        return self._predictor(columns)


def _own_values(rows: pa.Table | None, column: OwnColumn) -> np.ndarray:
    assert rows is not None
    values = OwnFeature(column.name, column.column, column.level).values(rows)
    values = np.where(np.isnan(values), column.missing, values)
    if column.lower is not None and column.upper is not None:
        values = np.clip(values, column.lower, column.upper)
    return values
