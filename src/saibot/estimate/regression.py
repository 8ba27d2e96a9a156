"""Linear regression from moments: centred, scaled, and steady under noise of a known size.

Moments come as an augmented Gram matrix over [1, features..., target]. It is centred with the row count and scaled to unit
diagonal before anything is solved, so neither a feature around 2000 nor one in units of 1e-6 costs digits that the moments
still hold.

**Repair.** Let eta be the root mean square of the noise of an eigenvalue of that scaled matrix, known from the noise of its
entries: eta^2 = ||sd of the noise||_F^2 / m. An eigenvalue below eta says nothing but that it is small: it is lifted to eta,
which makes the matrix positive definite whatever the noise. Without noise, directions that the moments cannot tell from a
constant are left out, as a pseudo-inverse does.
**Ridge.** `ridge="auto"` is Hoerl and Kennard's, with the noise of the moments in the place of a residual variance: a
part of b - A theta has the noise variance v = (sd of b)^2 + eta^2 |theta|^2 / m, and a ridge of m v / R2, R2 <= 1 from
the repaired fit, balances bias and variance on average over eigenvectors. In simulation (1 to 8 features, R2 of 0.05 to
0.9, noise of 0.3 % to 100 % of a feature's variance) it was at worst as good as no ridge, a tenth of its error at best, and
better than the ridge eta wherever noise is small or large. A ridge that is given is added to the unit diagonal too.
`rule="paper"` is the paper's: no repair, R2 = 0 when X^T X is not positive definite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from saibot.errors import InvalidInput
from saibot.estimate.moments import KeyedMoments, noise_share

Rule = Literal["repair", "paper"]
SINGULAR = 1e-11  # of a unit diagonal: an eigenvalue below it is rounding, if the moments are exact
ROUNDING = 1e-14  # of a sum of squares: a scatter below it is rounding


@dataclass(frozen=True)
class Fit:
    """A linear model with how well it fits the moments that it came from. R2 is never above 1 and never NaN."""

    features: tuple[str, ...]
    target: str
    intercept: float
    coefficients: np.ndarray
    r2: float
    adjusted_r2: float
    rss: float
    tss: float
    count: float
    ridge: float
    repaired: bool

    @property
    def theta(self) -> np.ndarray:
        """Intercept, then coefficients."""
        return np.concatenate([[self.intercept], self.coefficients])

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Predictions for (n, m) values of the features, in the units of the moments."""
        return np.asarray(np.asarray(rows, dtype=float) @ self.coefficients + self.intercept)


@dataclass(frozen=True)
class NotPositiveDefinite:
    """Why there is no model under the paper's rule."""

    smallest: float
    message: str
    r2: float = 0.0


@dataclass(frozen=True)
class Gram:
    """Moments over [1, features...] of some (joined) table: the matrix and the standard deviation of its entries' noise."""

    features: tuple[str, ...]
    matrix: np.ndarray
    noise: np.ndarray

    @property
    def count(self) -> float:
        return float(self.matrix[0, 0])

    def arranged(self, features: Sequence[str], target: str) -> Gram:
        """The same moments over [1, features..., target]."""
        wanted = (*features, target)
        missing = [name for name in wanted if name not in self.features]
        if missing:
            raise InvalidInput(f"there is no feature {missing[0]!r}.", hint=f"There are {', '.join(self.features)}.")
        places = [0, *(1 + self.features.index(name) for name in wanted)]
        return Gram(wanted, self.matrix[np.ix_(places, places)], self.noise[np.ix_(places, places)])

    def fit(
        self, features: Sequence[str], target: str, *, ridge: float | Literal["auto"] = "auto", rule: Rule = "repair"
    ) -> Fit | NotPositiveDefinite:
        chosen = self.arranged(features, target)
        return fit_linear(
            chosen.matrix,
            count=self.count,
            names=tuple(features),
            target=target,
            ridge=ridge,
            noise=chosen.noise,
            rule=rule,
        )


def fit_linear(
    gram: np.ndarray,
    *,
    count: float,
    names: Sequence[str],
    target: str,
    ridge: float | Literal["auto"] = 0.0,
    noise: np.ndarray | float | None = None,
    rule: Rule = "repair",
) -> Fit | NotPositiveDefinite:
    """Fit target on features from their Gram matrix over [1, features..., target].

    `noise` is the standard deviation of the noise of each entry, or one for all. `count` is the number of rows.
    """
    m = len(names)
    gram = np.asarray(gram, dtype=float)
    if gram.shape != (m + 2, m + 2) or not np.isfinite(gram).all():
        raise InvalidInput(f"a Gram matrix over 1, {m} features and a target has {m + 2} finite rows and columns.")
    n = max(float(count), 1.0)
    sd = np.broadcast_to(np.asarray(0.0 if noise is None else noise, dtype=float), gram.shape)
    if rule == "paper":
        return _paper_fit(gram, n, tuple(names), target, 0.0 if ridge == "auto" else ridge)
    means = gram[0, 1:] / n
    scatter, spread = _centred(gram, sd, n)
    size = np.maximum(np.abs(np.diag(scatter)), np.diag(spread))
    constant = size <= ROUNDING * np.abs(np.diag(gram)[1:])  # what is left of it is rounding: it gets no coefficient
    scatter[constant], scatter[:, constant] = 0.0, 0.0
    unit = np.where(constant, 1.0, np.sqrt(size))
    scaled, error = scatter / np.outer(unit, unit), spread / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(scaled[:m, :m]) if m else (np.zeros(0), np.zeros((0, 0)))
    eta = float(np.sqrt(np.sum(error[:m, :m] ** 2) / max(m, 1)))
    floor = max(eta, SINGULAR)
    lifted = np.maximum(values, floor)
    tss = max(float(scaled[m, m]), 0.0)
    # A target that varies by less than its noise leaves nothing to explain; nor does a direction that is rounding.
    known = (values >= SINGULAR) | (eta > 0) if tss > 0 else np.zeros(m, dtype=bool)
    along = np.where(known, vectors.T @ scaled[:m, m], 0.0)
    theta = along / lifted
    extra = _auto_ridge(theta, lifted, eta, error[:m, m]) if ridge == "auto" else float(ridge)
    theta = along / (lifted + extra)
    rss = max(tss - 2 * float(theta @ along) + float(theta**2 @ lifted), 0.0)
    coefficients = (vectors @ theta) * unit[m] / unit[:m]
    r2 = 1 - rss / tss if tss > 0 else 0.0
    return Fit(
        features=tuple(names),
        target=target,
        intercept=float(means[m] - coefficients @ means[:m]),
        coefficients=coefficients,
        r2=min(r2, 1.0),
        adjusted_r2=adjusted(r2, n, m),
        rss=rss * float(unit[m]) ** 2,
        tss=tss * float(unit[m]) ** 2,
        count=n,
        ridge=extra,
        repaired=bool((values < floor).any()) or float(scaled[m, m]) <= 0,
    )


def r2_on(gram: np.ndarray, fit: Fit) -> float:
    """R2 of given coefficients on other moments, say of a test sketch: at most 1, 0 where the target does not vary."""
    n = max(float(gram[0, 0]), 1.0)
    scatter, _ = _centred(gram, np.zeros_like(gram), n)
    weights = np.append(-fit.coefficients, 1.0)
    tss = float(scatter[-1, -1])
    if tss <= 0:
        return 0.0
    miss = float(weights @ gram[0, 1:]) / n - fit.intercept
    rss = float(weights @ scatter @ weights) + n * miss**2
    return min(1 - rss / tss, 1.0)


def adjusted(r2: float, count: float, features: int) -> float:
    """R2 corrected for the number of features; 0 where there are too few rows to say."""
    left = count - features - 1
    return 1 - (1 - r2) * (count - 1) / left if left > 0 else 0.0


def lookup_gram(
    moments: KeyedMoments, values: np.ndarray | None = None, names: Sequence[str] = (), *, features: Sequence[str] = ()
) -> Gram:
    """The Gram matrix over [1, features, values] of the rows with per-key values (D, j) looked up for each of them.

    `features` (all, if none are named) are the moments' own, the target among them. Totals that are known better than the
    sum over keys, n above all, take the place of that sum: values are centred at their mean over keys, and only what
    deviates from it meets the noise of single keys.
    """
    own = moments.select(tuple(features)) if features else moments
    m = len(own.features)
    looked = (
        np.zeros((len(own.counts), 0)) if values is None else np.asarray(values, dtype=float).reshape(len(own.counts), -1)
    )
    j = looked.shape[1]
    gram, sd = np.zeros((1 + m + j, 1 + m + j)), np.zeros((1 + m + j, 1 + m + j))
    gram[0, 0], sd[0, 0] = own.count, own.total_count_noise
    gram[0, 1 : 1 + m], sd[0, 1 : 1 + m] = own.total, own.total_noise
    gram[1 : 1 + m, 1 : 1 + m], sd[1 : 1 + m, 1 : 1 + m] = own.products, own.product_noise
    if j:
        counts, sums = own.balanced
        gram[0, 1 + m :] = counts @ looked
        gram[1 + m :, 1 + m :] = (looked * counts[:, None]).T @ looked
        gram[1 : 1 + m, 1 + m :] = sums.T @ looked
    if j and not own.exact:
        for a in range(j):
            place, column = 1 + m + a, looked[:, a]
            sd[0, place] = total_error(column, own.count_noise, own.total_count_noise)
            for i in range(m):
                sd[1 + i, place] = total_error(column, own.sum_noise, float(own.total_noise[i]))
            for b in range(a, j):
                sd[place, 1 + m + b] = total_error(column * looked[:, b], own.count_noise, own.total_count_noise)
    upper = np.triu(np.ones_like(gram, dtype=bool))
    gram, sd = np.where(upper, gram, gram.T), np.where(upper, sd, sd.T)
    return Gram((*own.features, *names), gram, sd)


def total_error(weights: np.ndarray, noise: np.ndarray, total_noise: float) -> float:
    """The noise, as a standard deviation, of sum_k w_k x_k read off balanced moments: noisy x_k and a better known total.

    The total is an inverse-variance average that the x_k take part in, so its covariance with their sum is its variance:
    sum (w - w0) x~ + w0 total has uncorrelated terms for w0 the noise-weighted mean of w, and no other w0 does better.
    """
    centre = float(noise_share(noise) @ weights)
    rest = (weights - centre) * noise
    return float(np.sqrt(rest @ rest + (centre * total_noise) ** 2))


# ------------------------------------------------------------------------------------------------ inside


def _centred(gram: np.ndarray, sd: np.ndarray, n: float) -> tuple[np.ndarray, np.ndarray]:
    """Scatter around the means, and the standard deviation of its noise (first order)."""
    means = gram[0, 1:] / n
    scatter = gram[1:, 1:] - np.outer(gram[0, 1:], means)
    moved = np.outer(np.abs(means), sd[0, 1:])
    # A diagonal entry subtracts the same noisy mean twice.
    noise = np.hypot(sd[1:, 1:], np.where(np.eye(len(means), dtype=bool), 2 * moved, np.hypot(moved, moved.T)))
    return (scatter + scatter.T) / 2, noise


def _auto_ridge(theta: np.ndarray, eigenvalues: np.ndarray, eta: float, target_noise: np.ndarray) -> float:
    m = len(theta)
    variance = float(np.sum(target_noise**2) + eta**2 * np.sum(theta**2))  # m v of the module's docstring
    explained = min(float(np.sum(eigenvalues * theta**2)), 1.0)
    return variance / max(explained, 1e-12) if m and variance > 0 else 0.0


def _paper_fit(gram: np.ndarray, n: float, names: tuple[str, ...], target: str, ridge: float) -> Fit | NotPositiveDefinite:
    """As published: solve the normal equations as they are. The ridge is added after dividing by the count."""
    m = len(names)
    A = gram[: m + 1, : m + 1] / n + ridge * np.diag([0.0] + [1.0] * m)
    b = gram[: m + 1, m + 1] / n
    smallest = float(np.linalg.eigvalsh(A).min())
    if smallest <= 1e-14 * float(np.abs(A).max()):
        message = f"X^T X is not positive definite: its smallest eigenvalue is {smallest:.3g}. Noise outweighs the features."
        return NotPositiveDefinite(smallest, message)
    theta = np.linalg.solve(A, b)
    weights = np.append(-theta, 1.0)
    rss, tss = float(weights @ gram @ weights), float(gram[m + 1, m + 1] - gram[0, m + 1] ** 2 / n)
    r2 = 1 - rss / tss if tss > 0 else 0.0
    r2 = r2 if 0 <= r2 <= 1 else 0.0
    return Fit(names, target, float(theta[0]), theta[1:], r2, adjusted(r2, n, m), rss, tss, n, ridge, repaired=False)
