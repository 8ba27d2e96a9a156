"""Which rows a model is fitted on and which it is judged on: rows of known keys, and rows of keys it has never seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FOLDS = 5
LEAST_ROWS = 30  # to judge on; and so many held-out rows make folds unnecessary
LEAST_KEYS = 5


@dataclass(frozen=True)
class JudgedFold:
    """Masks over all rows: fitted on `fit`, judged on `judged`."""

    fit: np.ndarray
    judged: np.ndarray


@dataclass(frozen=True)
class Judging:
    """Folds whose judged rows are disjoint, and whether those rows are of the test table: then they chose nothing."""

    folds: tuple[JudgedFold, ...]
    held_out: bool

    @property
    def judged(self) -> np.ndarray:
        whole: np.ndarray = np.any([fold.judged for fold in self.folds], axis=0)
        return whole


def of_known_keys(keys: np.ndarray, held_out: np.ndarray, rng: np.random.Generator) -> Judging | None:
    """Rows whose key has training rows: those of the test table where there are some, or else fold by fold of rows."""
    train = ~held_out
    whole = JudgedFold(train, held_out & _seen(keys, train))
    if whole.judged.sum() >= LEAST_ROWS:
        return Judging((whole,), held_out=True)
    fold = np.where(train, rng.permutation(len(keys)) % FOLDS, -1)
    found = []
    for number in range(FOLDS):
        fit = train & (fold != number)
        found.append(JudgedFold(fit, (fold == number) & _seen(keys, fit)))
    return _enough(found)


def of_new_keys(keys: np.ndarray, held_out: np.ndarray, rng: np.random.Generator) -> Judging | None:
    """Rows whose key has no training row: those of the test table where it has such keys, or else fold by fold of keys."""
    train = ~held_out
    whole = JudgedFold(train, held_out & ~_seen(keys, train))
    if whole.judged.sum() >= LEAST_ROWS and len(np.unique(keys[whole.judged])) >= LEAST_KEYS:
        return Judging((whole,), held_out=True)
    there = np.unique(keys[train])
    if len(there) < LEAST_KEYS:
        return None
    number_of = np.zeros(int(keys.max()) + 1, np.int64)
    number_of[there] = rng.permutation(len(there)) % FOLDS
    fold = number_of[keys]
    return _enough([JudgedFold(train & (fold != number), train & (fold == number)) for number in range(FOLDS)])


def of_any_rows(held_out: np.ndarray, rng: np.random.Generator) -> Judging | None:
    """All rows of the test table, where it has enough; or else those of the training table, fold by fold."""
    train = ~held_out
    if held_out.sum() >= LEAST_ROWS:
        return Judging((JudgedFold(train, held_out),), held_out=True)
    fold = np.where(train, rng.permutation(len(train)) % FOLDS, -1)
    return _enough([JudgedFold(train & (fold != number), fold == number) for number in range(FOLDS)])


def _seen(keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Which rows have a key that one of these rows has."""
    answer: np.ndarray = np.bincount(keys[rows], minlength=int(keys.max()) + 1)[keys] > 0
    return answer


def _enough(folds: list[JudgedFold]) -> Judging | None:
    sound = tuple(fold for fold in folds if fold.judged.any() and fold.fit.sum() > 1)
    found = Judging(sound, held_out=False) if sound else None
    return found if found is not None and found.judged.sum() >= LEAST_ROWS else None
