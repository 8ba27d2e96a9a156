"""A regressor that searches first and is then trained on the augmented rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from saibot.sklearn.augmenter import PrivateAugmenter


class PrivateRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Any regressor on the columns that a `PrivateAugmenter` finds, judged by cross-validation like any other.

    augmenter   how to search; its parameters are reached as `augmenter__steps` and so on
    estimator   what is trained on own features and new columns; least squares by default, a missing number at its mean

    After `fit`: `augmenter_` and `estimator_` are the fitted parts. Of a data frame, the columns of numbers are used.
    """

    def __init__(self, augmenter: PrivateAugmenter, estimator: Any = None) -> None:
        self.augmenter = augmenter
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Self:
        self.augmenter_ = clone(self.augmenter).fit(X, y)
        columns = self._numbers(X)
        base = make_pipeline(SimpleImputer(), LinearRegression()) if self.estimator is None else clone(self.estimator)
        if not columns.shape[1]:  # X is keys alone, and nothing was found: the mean is what is left
            base = DummyRegressor()
        self.estimator_ = base.fit(columns, np.asarray(y, np.float64).ravel())
        self.n_features_in_ = self.augmenter_.n_features_in_
        if hasattr(self.augmenter_, "feature_names_in_"):
            self.feature_names_in_ = self.augmenter_.feature_names_in_
        return self

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "estimator_")
        predicted: np.ndarray = self.estimator_.predict(self._numbers(X))
        return predicted

    def _numbers(self, X: Any) -> np.ndarray:
        """Own features and new columns of these rows, one row each."""
        fitted = self.augmenter_
        wide = fitted.transform(X)
        wanted = (*fitted.own_features_, *fitted.new_columns_)
        if isinstance(wide, np.ndarray):
            names = [*fitted.kept_columns_, *fitted.new_columns_]
            return np.asarray(wide[:, [names.index(name) for name in wanted]], np.float64)
        columns = [np.asarray(wide[name], np.float64) for name in wanted]
        return np.column_stack(columns) if columns else np.zeros((len(wide), 0))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
