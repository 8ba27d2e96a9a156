"""What the columns of a local search are worth: beside the requester's own features, and beside its own average per key.

Everything happens on the requester's machine, after the search, with its own rows and with values that are public; nobody
is asked for anything. Models are fitted on some rows and judged on others: of keys that have training rows, where an own
average is the free alternative, and of keys that have none, where it is not to be had. All models meet the same rows, so
differences are paired, and intervals come from drawing keys anew: rows of one key share what their key is like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from saibot.client.families import BINOMIAL, GAUSSIAN
from saibot.client.folds import Judging, of_known_keys, of_new_keys
from saibot.client.own_means import own_means
from saibot.client.own_model import OwnModel
from saibot.report.format import fixed
from saibot.wire.worth import CalibrationPoint, Change, Judged, Situation, Worth

DRAWS = 400  # of keys, for intervals
SEED = 20  # folds and draws are the same for the same rows
BINS = 10  # of predicted means, for the calibration
WORTH_SAYING = 0.005  # of the loss: with many rows less than this is clear of chance, and of no use to anybody


@dataclass(frozen=True)
class RequestRows:
    """The rows of a local request: they are judged with, on this machine, and go nowhere."""

    names: tuple[str, ...]
    own: np.ndarray  # (n, p) in scaled units, missing cells at their column's mean
    target: np.ndarray  # (n,) in original units
    codes: np.ndarray  # (n,) the number of each row's finest key
    held_out: np.ndarray  # (n,) whether it is a row of the test table


def judge(
    rows: RequestRows,
    values: np.ndarray,
    groups: np.ndarray,
    model: OwnModel,
    *,
    key: str,
    confidence: float,
    progress: Callable[[str, float | None], None] = lambda stage, part: None,
) -> Worth:
    """Compare the models. `values` (keys, columns) has what was taken, `groups` (keys,) which keys count as one."""
    rng = np.random.default_rng(SEED)
    keys = groups[rows.codes]
    looked_up = values[rows.codes]
    judgings = {"known": of_known_keys(keys, rows.held_out, rng), "new": of_new_keys(keys, rows.held_out, rng)}
    found: dict[str, Situation | None] = {}
    calibration: tuple[CalibrationPoint, ...] = ()
    for name, judging in judgings.items():
        if judging is None:
            found[name] = None
            continue
        progress(f"judging on rows of {name} keys", None)
        outcome = _Outcome.of(rows, keys, looked_up, judging, model, means=name == "known", rng=rng)
        found[name] = outcome.situation(judging.held_out, confidence, rng)
        if model.family is not GAUSSIAN:
            calibration = outcome.calibration()
    return Worth(
        measure=model.family.measure,
        model=model.name,
        family=model.family.name,  # type: ignore[arg-type]  # there are these three
        key=key,
        confidence=confidence,
        known=found["known"],
        new=found["new"],
        sentence=conclusion(found["known"], found["new"], key=key, measure=model.family.measure),
        calibration=calibration,
    )


@dataclass(frozen=True)
class _Outcome:
    """Predictions of every model for the rows that it was not fitted on; `null` is the mean of what it was fitted on."""

    model: OwnModel
    target: np.ndarray
    keys: np.ndarray  # numbered without gaps
    predicted: dict[str, np.ndarray]

    @classmethod
    def of(
        cls,
        rows: RequestRows,
        keys: np.ndarray,
        looked_up: np.ndarray,
        judging: Judging,
        model: OwnModel,
        *,
        means: bool,
        rng: np.random.Generator,
    ) -> _Outcome:
        X, y = rows.own, rows.target
        names = ["null", "own", *(["means"] if means else [])]
        if looked_up.shape[1]:
            names += ["private", *(["both"] if means else [])]
        predicted = {name: np.zeros(len(y)) for name in names}
        for fold in judging.folds:
            fit, on = fold.fit, fold.judged
            own_mean = np.zeros((len(y), 0))
            if means:
                own_mean = own_means(X, y, keys, int(keys.max()) + 1, fit, model.family, rng)[:, None]
            tables = {"own": X, "means": np.hstack([X, own_mean]), "private": np.hstack([X, looked_up])}
            tables["both"] = np.hstack([X, own_mean, looked_up])
            predicted["null"][on] = y[fit].mean()
            for name in names[1:]:
                predicted[name][on] = model.fitted(tables[name][fit], y[fit])(tables[name][on])
        judged = judging.judged
        numbered = np.unique(keys[judged], return_inverse=True)[1]
        return cls(model, y[judged], numbered, {name: one[judged] for name, one in predicted.items()})

    def situation(self, held_out: bool, confidence: float, rng: np.random.Generator) -> Situation:
        size = int(self.keys.max()) + 1
        names = [*self.predicted]
        losses = np.column_stack(
            [np.bincount(self.keys, self.model.family.loss(self.target, self.predicted[name]), size) for name in names]
        )
        drawn = np.array([rng.multinomial(size, np.full(size, 1 / size)) for _ in range(DRAWS)]) @ losses
        whole, drawn = _explained(losses.sum(axis=0)), _explained(drawn)
        tails = 100 * np.array([(1 - confidence) / 2, (1 + confidence) / 2])
        place = {name: i for i, name in enumerate(names)}

        def judged(name: str) -> Judged | None:
            if name not in place:
                return None
            low, high = np.percentile(drawn[:, place[name]], tails)
            extra = _of_yes_or_no(self.target, self.predicted[name]) if self.model.family is BINOMIAL else {}
            return Judged(score=float(whole[place[name]]), interval=(float(low), float(high)), **extra)

        def change(name: str, over: str) -> Change | None:
            if name not in place or over not in place:
                return None
            low, high = np.percentile(drawn[:, place[name]] - drawn[:, place[over]], tails)
            return Change(score=float(whole[place[name]] - whole[place[over]]), interval=(float(low), float(high)))

        own = judged("own")
        assert own is not None
        return Situation(
            rows=len(self.target),
            keys=size,
            held_out=held_out,
            own=own,
            means=judged("means"),
            private=judged("private"),
            both=judged("both"),
            free=change("means", "own"),
            gain=change("private", "own"),
            beyond=change("both", "means"),
        )

    def calibration(self) -> tuple[CalibrationPoint, ...]:
        """Rows in bins of about the same predicted mean, of the model with the private columns where there are any."""
        predicted = self.predicted.get("private", self.predicted["own"])
        bins = np.array_split(np.argsort(predicted, kind="stable"), BINS)
        return tuple(
            CalibrationPoint(predicted=float(predicted[b].mean()), observed=float(self.target[b].mean()), rows=len(b))
            for b in bins
            if len(b)
        )


def conclusion(known: Situation | None, new: Situation | None, *, key: str, measure: str) -> str:
    """What to make of the numbers, in one sentence."""
    parts = [_of_known(known, key, measure), _of_new(new, key, measure)]
    told = "; ".join(part for part in parts if part)
    return f"{told[:1].upper()}{told[1:]}." if told else "There are too few rows to judge what the columns are worth."


def _of_known(found: Situation | None, key: str, measure: str) -> str:
    if found is None or found.means is None or found.free is None:
        return ""
    where, own, means = f"where you have rows for a {key}", fixed(found.own.score, 2), fixed(found.means.score, 2)
    if found.both is None or found.private is None or found.beyond is None or found.gain is None:
        helped = (
            f"take {measure} from {own} to {means}" if found.free.clear else f"do not help ({measure} {own} without them)"
        )
        return f"{where}, your own averages {helped}"
    if found.beyond.clear and found.beyond.score >= WORTH_SAYING:
        return (
            f"{where}, the private columns add to your own averages: {measure} {means} becomes {fixed(found.both.score, 2)}"
        )
    if found.free.clear or found.gain.clear:
        as_well = f"{means} with them, {fixed(found.private.score, 2)} with the private columns"
        return f"{where}, your own averages do as well or better ({measure} {as_well})"
    return f"{where}, neither your own averages nor the private columns help ({measure} {own} without them)"


def _of_new(found: Situation | None, key: str, measure: str) -> str:
    if found is None:
        return ""
    where, own = f"for a new {key}", fixed(found.own.score, 2)
    if found.private is None or found.gain is None:
        return f"{where}, your own features reach {measure} {own}, and no published column was found to help"
    with_them = fixed(found.private.score, 2)
    if found.gain.clear and found.gain.score >= WORTH_SAYING:
        return f"{where}, the private columns take {measure} from {own} to {with_them}"
    return f"{where}, the private columns do not clearly help ({measure} {own} without, {with_them} with them)"


def _explained(losses: np.ndarray) -> np.ndarray:
    """The share of the null model's loss, the first column, that each model explains."""
    answer: np.ndarray = 1 - losses / np.maximum(losses[..., :1], 1e-300)
    return answer


def _of_yes_or_no(target: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """AUC, ties counting half, and the log loss per row."""
    loss = float(BINOMIAL.loss(target, predicted).mean()) / 2
    yes = target > 0.5
    if yes.all() or not yes.any():
        return {"log_loss": loss}
    from scipy.stats import rankdata

    ranks, n = rankdata(predicted), int(yes.sum())
    return {"auc": (float(ranks[yes].sum()) - n * (n + 1) / 2) / (n * (len(target) - n)), "log_loss": loss}
