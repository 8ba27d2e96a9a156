"""What a requester models its target with: a regression of some family, or any scikit-learn estimator.

One concept for all of them: fitted on rows, it predicts the mean of others. Whatever is scored, refitted or judged asks for
that and for the family's loss, and never which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from saibot.client.families import BINOMIAL, GAUSSIAN, POISSON, Family, family_named, fit_family
from saibot.errors import InvalidInput
from saibot.extras import how_to_install

Predictor = Callable[[np.ndarray], np.ndarray]
NAMED = ("linear", "gbm", "forest")
SEED = 0  # of estimators that draw: the same rows give the same answer


@dataclass(frozen=True)
class OwnModel:
    """A way to model the target. `estimator` is None for the regression of the family itself."""

    family: Family = GAUSSIAN
    estimator: Any = field(default=None, compare=False)
    name: str = "linear"

    @property
    def linear(self) -> bool:
        return self.estimator is None

    def fitted(self, X: np.ndarray, y: np.ndarray) -> Predictor:
        """Fit on these rows; what is given back predicts the mean of others."""
        if self.linear:
            theta = fit_family(X, y, self.family)
            return lambda rows: self.family.mean(theta[0] + rows @ theta[1:])
        if not X.shape[1] or (self.family is BINOMIAL and len(np.unique(y)) < 2):
            mean = float(y.mean())
            return lambda rows: np.full(len(rows), mean)
        from sklearn.base import clone

        fit = clone(self.estimator).fit(X, y)
        if self.family is BINOMIAL and hasattr(fit, "predict_proba"):
            return lambda rows: np.asarray(fit.predict_proba(rows))[:, 1]
        return lambda rows: np.asarray(fit.predict(rows), dtype=float)

    def explaining(self) -> OwnModel:
        """The same kind of model for a column of any numbers: what the own features say of a candidate's values."""
        if self.linear:
            return OwnModel()
        from sklearn.base import is_classifier

        gaussian = self.family is GAUSSIAN and not is_classifier(self.estimator)
        return OwnModel(GAUSSIAN, self.estimator, self.name) if gaussian else own_model("gbm")


def own_model(model: Any = None, family: str | None = None) -> OwnModel:
    """By name (`linear`, `gbm`, `forest`), or of a scikit-learn estimator; a classifier is of the family binomial."""
    if model is None or model == "linear":
        return OwnModel(family_named(family or "gaussian"))
    _check_there()
    if isinstance(model, str):
        kind = family_named(family or "gaussian")
        return OwnModel(kind, _named(model, kind), model)
    from sklearn.base import is_classifier, is_regressor

    if not hasattr(model, "fit") or isinstance(model, type) or not (is_classifier(model) or is_regressor(model)):
        raise InvalidInput(
            f"a {type(model).__name__} is no regressor or classifier.",
            hint=f"Give one of scikit-learn's, or one of the names {', '.join(NAMED)}.",
        )
    kind = family_named(family or ("binomial" if is_classifier(model) else "gaussian"))
    if is_classifier(model) and (kind is not BINOMIAL or not hasattr(model, "predict_proba")):
        raise InvalidInput(
            f"a {type(model).__name__} does not predict the mean of a {kind.name} target.",
            hint="A classifier needs predict_proba and the family binomial; otherwise give a regressor.",
        )
    return OwnModel(kind, model, type(model).__name__)


def _named(name: str, family: Family) -> Any:
    from sklearn import ensemble

    if name == "gbm":
        if family is BINOMIAL:
            return ensemble.HistGradientBoostingClassifier(max_iter=100, random_state=SEED)
        loss = "poisson" if family is POISSON else "squared_error"
        return ensemble.HistGradientBoostingRegressor(loss=loss, max_iter=100, random_state=SEED)
    if name == "forest":
        of = ensemble.RandomForestClassifier if family is BINOMIAL else ensemble.RandomForestRegressor
        return of(n_estimators=100, min_samples_leaf=5, n_jobs=-1, random_state=SEED)
    raise InvalidInput(f"there is no model {name!r}.", hint=f"There are {', '.join(NAMED)}; Python takes any estimator.")


def _check_there() -> None:
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise InvalidInput(
            "models other than linear ones come with scikit-learn, which is not installed.",
            hint=how_to_install("sklearn"),
        ) from None
