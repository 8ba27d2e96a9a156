"""What a looked-up column is really worth, by least squares on rows."""

from __future__ import annotations

import numpy as np


def r2_with(table: np.ndarray, z: np.ndarray | None, *, train: np.ndarray | None = None) -> float:
    """R2 of y on (1, x, z) by least squares: on all rows, or fitted on `train` (a mask) and judged on the other rows."""
    columns = [np.ones(len(table)), table[:, 0]] + ([] if z is None else [z])
    A, y = np.column_stack(columns), table[:, 1]
    fit = np.ones(len(y), bool) if train is None else train
    judged = fit if train is None else ~train
    theta = np.linalg.lstsq(A[fit], y[fit], rcond=1e-10)[0]
    rest = y[judged] - A[judged] @ theta
    around = y[judged] - y[fit].mean()
    return 1 - float(rest @ rest) / max(float(around @ around), 1e-300)
