"""What a result's model says of the requester's own rows: made on the requester's machine, for its eyes, kept in no result.

Right after a search at home, models are fitted on some rows and predict others, as in `saibot.client.judging`: nothing
flatters the picture. Later a result has its model and no rows, and predicts those of any table that it is given.
"""

from __future__ import annotations

import numpy as np

from saibot.client.exact_request import LocalRequest
from saibot.client.folds import of_any_rows
from saibot.errors import InvalidTable
from saibot.search.key_maps import RequestKey
from saibot.wire import FitOnRows, KeyResiduals, ModelOnRows, PlotCell
from saibot.wire.worth import CalibrationPoint

SEED = 21  # of folds: the same for the same rows
BINS = 10  # of predictions, for the diamonds
MOST_POINTS = 1000  # rows that are drawn one by one
SQUARES = 36  # of each axis where there are more
INSIDE = 0.9  # of the rows
MOST_KEYS = 20_000


def fit_of_request(request: LocalRequest, values: np.ndarray) -> FitOnRows | None:
    """Of the rows that a search has just used; `values` (keys, columns) is what it took. None where there are too few."""
    rows, key = request.rows, request.key
    judging = None if rows is None else of_any_rows(rows.held_out, np.random.default_rng(SEED))
    if rows is None or judging is None:
        return None
    taken = values[rows.codes] if values.shape[1] else np.zeros((len(rows.target), 0))
    tables = {"before": rows.own, "after": np.hstack([rows.own, taken])}
    predicted = {name: np.zeros(len(rows.target)) for name in tables}
    for fold in judging.folds:
        for name, table in tables.items():
            fitted = request.model.fitted(table[fold.fit], rows.target[fold.fit])
            predicted[name][fold.judged] = fitted(table[fold.judged])
    seen = judging.judged
    which = "those held out, which chose nothing" if judging.held_out else "the training rows, each predicted without itself"
    return fit_on_rows(
        which,
        rows.target[seen],
        predicted["before"][seen] if taken.shape[1] else None,
        predicted["after"][seen],
        key,
        rows.codes[seen],
    )


def fit_on_rows(
    which: str,
    actual: np.ndarray,
    before: np.ndarray | None,
    after: np.ndarray,
    key: RequestKey | None,
    codes: np.ndarray,
) -> FitOnRows:
    """`codes` are the rows' places among the finest keys. Rows without a target or a prediction are left out."""
    sound = np.isfinite(actual) & np.isfinite(after) & (True if before is None else np.isfinite(before))
    if sound.sum() < 2:
        raise InvalidTable("fewer than two rows have a target and a prediction.", hint="Give a table with the target in it.")
    actual, after, codes = actual[sound], after[sound], codes[sound]
    before = None if before is None else before[sound]
    return FitOnRows(
        which=which,
        rows=len(actual),
        before=None if before is None else _model(actual, before),
        after=_model(actual, after),
        residuals=() if key is None else _by_key(actual, before, after, key, codes),
    )


def _model(actual: np.ndarray, predicted: np.ndarray) -> ModelOnRows:
    few, yes_or_no = len(actual) <= MOST_POINTS, len(np.unique(actual)) <= 2  # of which a cloud shows nothing
    points = zip(predicted.tolist(), actual.tolist(), strict=True) if few and not yes_or_no else ()
    left, spread = actual - predicted, actual - actual.mean()
    far = np.abs(left)
    return ModelOnRows(
        r2=float(1 - (left @ left) / max(float(spread @ spread), 1e-300)),
        root_mean_square=float(np.sqrt(np.mean(left**2))),
        mean_absolute=float(far.mean()),
        within=float(np.quantile(far, INSIDE)),
        points=tuple((_short(a), _short(b)) for a, b in points),
        cells=() if few or yes_or_no else _cells(actual, predicted),
        calibration=_calibration(actual, predicted),
    )


def _cells(actual: np.ndarray, predicted: np.ndarray) -> tuple[PlotCell, ...]:
    """Squares of the plane with the number of rows in them; rows far out count in the squares at the edge."""
    x, y = (np.linspace(*_reach(part), SQUARES + 1) for part in (predicted, actual))
    counts, _, _ = np.histogram2d(np.clip(predicted, x[0], x[-1]), np.clip(actual, y[0], y[-1]), bins=(x, y))
    return tuple(
        PlotCell(predicted=(_short(x[i]), _short(x[i + 1])), actual=(_short(y[j]), _short(y[j + 1])), rows=int(counts[i, j]))
        for i, j in np.argwhere(counts > 0).tolist()
    )


def _reach(values: np.ndarray) -> tuple[float, float]:
    """All but the farthest, which would leave no room for the others."""
    low, high = np.quantile(values, [0.001, 0.999])
    return (float(low), float(high)) if high > low else (float(low) - 0.5, float(low) + 0.5)


def _calibration(actual: np.ndarray, predicted: np.ndarray) -> tuple[CalibrationPoint, ...]:
    bins = np.array_split(np.argsort(predicted, kind="stable"), BINS)
    return tuple(
        CalibrationPoint(predicted=_short(predicted[b].mean()), observed=_short(actual[b].mean()), rows=len(b))
        for b in bins
        if len(b)
    )


def _by_key(
    actual: np.ndarray, before: np.ndarray | None, after: np.ndarray, key: RequestKey, codes: np.ndarray
) -> tuple[KeyResiduals, ...]:
    """By each part of the key; of several lists that a part was looked up in, the one that has most of its rows."""
    best: dict[str, tuple[int, int]] = {}  # of each name: rows inside, and which list
    for number, (name, domain) in enumerate(key.parts):
        inside = int((key.places[codes, number] < len(domain)).sum())
        if name not in best or inside > best[name][0]:
            best[name] = inside, number
    return tuple(_of_part(actual, before, after, key, codes, number) for inside, number in best.values() if inside)


def _of_part(
    actual: np.ndarray, before: np.ndarray | None, after: np.ndarray, key: RequestKey, codes: np.ndarray, number: int
) -> KeyResiduals:
    name, domain = key.parts[number]
    place = key.places[codes, number]
    rows = np.bincount(place, minlength=len(domain) + 1)[:-1]
    there = np.flatnonzero(rows)
    columns = [None if part is None else _means(actual - part, place, there, rows) for part in (before, after)]
    assert columns[1] is not None
    if len(there) > MOST_KEYS:
        kept = np.sort(np.argsort(-np.abs(columns[1][0]) / np.maximum(columns[1][1], 1e-300), kind="stable")[:MOST_KEYS])
    else:
        kept = np.arange(len(there))

    def told(column: np.ndarray | None) -> tuple[float, ...]:
        return () if column is None else tuple(_short(value) for value in column[kept].tolist())

    first, second = columns[0] or (None, None), columns[1]
    return KeyResiduals(
        key=name,
        domain=domain.id,
        keys=tuple(domain.values[i] for i in there[kept].tolist()),
        rows=tuple(float(count) for count in rows[there][kept].tolist()),
        before=told(first[0]),
        before_error=told(first[1]),
        after=told(second[0]),
        after_error=told(second[1]),
        left_out=len(there) - len(kept),
    )


def _means(left: np.ndarray, place: np.ndarray, there: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means by key with their standard errors; the spread within keys is taken to be the same for all of them."""
    size = len(rows) + 1
    means = np.bincount(place, left, size)[:-1][there] / rows[there]
    spread = np.zeros(size)
    spread[there] = means
    inside = place < size - 1
    freedom = max(int(inside.sum()) - len(there), 1)
    within = float(((left - spread[place])[inside] ** 2).sum()) / freedom
    return means, np.sqrt(within / rows[there])


def _short(value: float) -> float:
    return float(f"{value:.6g}")
