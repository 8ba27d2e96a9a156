"""Several features of one dataset scored together: what all of them explain that the current model does not.

The same arithmetic as for one feature, with matrices: R is the Gram matrix of the dataset's features after the current
ones are taken out, v their products with the current residual, S the covariance of v's error; the gain is v' R^-1 v / TSS.
Datasets with equally many features are solved in one batch. The bound they are ranked by takes off what noise alone would
gain in all directions but the one it points in, then a multiple of the error in that one; with a single feature it is the
bound of `scoring`. The test statistic is Wald's, v' S^-1 v.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saibot.search.potential import signal_share
from saibot.search.scoring import MOST_EXPLAINED, Base
from saibot.search.shard import ShardRows
from saibot.semiring.solve import inverse_roots, wald

LEAST_LEFT = 0.01  # of a unit variance: directions in which features all but repeat each other, or the current ones
BLOCK_VALUES = 4_000_000  # of a batch, float64


@dataclass(frozen=True)
class JointScores:
    """Per dataset, as `Scores` are per feature; `wald` is compared with a chi-square of as many degrees as features."""

    gain: np.ndarray
    lower: np.ndarray
    deviation: np.ndarray
    wald: np.ndarray
    potential: np.ndarray


def dataset_groups(shard: ShardRows) -> tuple[np.ndarray, np.ndarray]:
    """Start and length of every run of rows of one sketch."""
    digests = shard.text["digest"]
    if not len(digests):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.concatenate([[0], 1 + np.flatnonzero(digests[1:] != digests[:-1])])
    return starts, np.diff(np.append(starts, len(digests)))


def score_datasets(
    shard: ShardRows, first: np.ndarray, starts: np.ndarray, sizes: np.ndarray, base: Base, *, quantile: float
) -> JointScores:
    """All datasets of a shard; `first` are the sweep's linear moments of its rows."""
    answer = JointScores(*(np.zeros(len(starts)) for _ in range(5)))
    counts, weight = base.square[:, 0], base.square[:, 1]
    for size in np.unique(sizes):
        groups = np.flatnonzero(sizes == size)
        block = max(BLOCK_VALUES // (int(size) * shard.values.shape[1]), 1)
        for begin in range(0, len(groups), block):
            chosen = groups[begin : begin + block]
            rows = starts[chosen][:, None] + np.arange(size)
            values = shard.values[rows].astype(np.float64)  # (G, f, d)
            square, heavy = ((values * column) @ values.transpose(0, 2, 1) for column in (counts, weight))
            share, variance = signal_share(shard.numbers["reliability"][rows], max(base.keys, 1))
            more = np.maximum(1 / share / (1 + variance) if "via" not in shard.text else np.ones(rows.shape), 1.0)
            for name, column in _scores(first[rows], square, heavy, base, quantile, more).items():
                getattr(answer, name)[chosen] = column
    return answer


def _scores(
    first: np.ndarray, square: np.ndarray, weighted: np.ndarray, base: Base, quantile: float, more: np.ndarray
) -> dict[str, np.ndarray]:
    p = base.size
    along, with_target, heavy = first[..., :p], first[..., p], first[..., p + 1]
    centre = along[..., 0] / max(base.count, 1.0)
    own = np.diagonal(square, axis1=1, axis2=2) - centre * along[..., 0]
    usable = own > 1e-12 * (np.abs(np.diagonal(square, axis1=1, axis2=2)) + 1e-300)
    unit = np.where(usable, np.sqrt(np.where(usable, own, 1.0)), 1.0)
    alive = usable[..., :, None] & usable[..., None, :]
    eye = np.eye(square.shape[1])
    left = np.where(alive, square - along @ base.inverse @ along.transpose(0, 2, 1), 0.0)
    left = np.where(alive, left / (unit[..., :, None] * unit[..., None, :]), eye)
    product = with_target - along @ base.theta - centre * base.residual_total
    product = np.where(usable, product / unit, 0.0)
    error = weighted - centre[..., :, None] * heavy[..., None, :] - centre[..., None, :] * heavy[..., :, None]
    error = error + centre[..., :, None] * centre[..., None, :] * base.weight_total
    error = np.where(alive, error / (unit[..., :, None] * unit[..., None, :]), 0.0)
    tss = max(base.tss, 1e-300)
    half = inverse_roots(left, least=LEAST_LEFT) / np.sqrt(tss)  # columns: whitened directions
    u = np.einsum("gij,gi->gj", half, product)
    covariance = half.transpose(0, 2, 1) @ error @ half
    gain = np.sum(u**2, axis=1)
    direction = u / np.sqrt(np.maximum(gain, 1e-300))[:, None]
    along_u = np.maximum(np.einsum("gi,gij,gj->g", direction, covariance, direction), 0.0)
    trace = np.trace(covariance, axis1=1, axis2=2)
    explained = np.minimum(gain * tss * base.rows_per_key / max(base.weight_total, 1e-300), MOST_EXPLAINED)
    kept = np.sqrt(np.maximum(gain - np.maximum(trace - along_u, 0.0), 0.0))
    lower = np.maximum(kept - quantile * np.sqrt(along_u), 0.0) ** 2
    slopes = np.einsum("gij,gj->gi", half, u) * tss
    parts = np.where(usable, slopes**2, 0.0)  # of unit variances: what each feature's own slope explains
    ratio = np.sum(parts * more, axis=1) / np.maximum(np.sum(parts, axis=1), 1e-300)
    return {
        "gain": np.minimum(gain, 1.0),
        "lower": np.minimum(lower, 1.0),
        "deviation": np.sqrt(along_u * (1 - explained)),
        "wald": np.where(gain > 0, wald(u, covariance) / (1 - explained), 0.0),
        "potential": np.minimum(gain * np.maximum(ratio, 1.0), 1.0),
    }
