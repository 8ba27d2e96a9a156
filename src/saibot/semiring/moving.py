"""Arithmetic of `Moments` on plain arrays: pairs of rows, coarser keys, other units, and the noise that goes with them."""

from __future__ import annotations

import numpy as np


def noise_share(noise: np.ndarray) -> np.ndarray:
    """Each key's share of all keys' noise variance, column by column; the same for all where there is none."""
    largest = noise.max(axis=0)
    relative = np.where(largest > 0, noise / np.where(largest > 0, largest, 1.0), 1.0) ** 2
    share: np.ndarray = relative / relative.sum(axis=0)
    return share


def total_error(weights: np.ndarray, noise: np.ndarray, total_noise: float) -> float:
    """The noise, as a standard deviation, of sum_k w_k x_k read off balanced moments: noisy x_k and a better known total.

    The total is an inverse-variance average that the x_k take part in, so its covariance with their sum is its variance:
    sum (w - w0) x~ + w0 total has uncorrelated terms for w0 the noise-weighted mean of w, and no other w0 does better.
    """
    centre = float(noise_share(noise) @ weights)
    rest = (weights - centre) * noise
    return float(np.sqrt(rest @ rest + (centre * total_noise) ** 2))


def bordered(square: np.ndarray, side: np.ndarray, corner: float) -> np.ndarray:
    return np.block([[square, side[:, None]], [side[None, :], np.array([[corner]])]])


def pairs(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The semi-ring's product of moment matrices: c = ca cb; s = [cb sa, ca sb]; Q = [cb Qa, sa sb^T; ., ca Qb]."""
    a, b = left.shape[1], right.shape[1]
    found = np.empty((len(left), a + b - 1, a + b - 1))
    found[:, :a, :a] = left * right[:, :1, :1]
    found[:, a:, a:] = left[:, :1, :1] * right[:, 1:, 1:]
    found[:, :a, a:] = left[:, :, :1] * right[:, :1, 1:]
    found[:, a:, :a] = found[:, :a, a:].transpose(0, 2, 1)
    return found


def grouped(values: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
    """The sums of an array's rows, key by key of a coarser key."""
    flat = values.reshape(len(values), -1)
    found = np.empty((size, flat.shape[1]))
    for i, column in enumerate(flat.T):
        found[:, i] = np.bincount(index, column, size)
    return found.reshape(size, *values.shape[1:])


def moved_sums(sums: np.ndarray, counts: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a x + b summed over rows, feature by feature: of many keys and features there should be no further copies."""
    found = np.empty(sums.shape)
    for i in range(sums.shape[1]):
        found[:, i] = sums[:, i] * a[i] + counts * b[i]
    return found


def moved_sum_noise(sums: np.ndarray, counts: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found = np.empty(sums.shape)
    for i in range(sums.shape[1]):
        found[:, i] = np.hypot(sums[:, i] * a[i], counts * b[i])
    return found


def moved_products(products: np.ndarray, sums: np.ndarray, counts: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(a x + b)(a x + b)^T summed over rows; leading axes are keys."""
    crossed = (sums * a)[..., :, None] * b
    moved = products * np.outer(a, a) + crossed + np.swapaxes(crossed, -1, -2)
    return np.asarray(moved + counts[..., None, None] * np.outer(b, b))


def moved_noise(products: np.ndarray, sums: np.ndarray, counts: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    crossed = np.abs((sums * a)[..., :, None] * b)
    # On the diagonal both crossed terms are the same number, so their noise adds before it is squared.
    both = np.where(np.eye(len(a), dtype=bool), 2 * crossed, np.hypot(crossed, np.swapaxes(crossed, -1, -2)))
    return np.asarray(np.hypot(np.hypot(products * np.outer(a, a), both), counts[..., None, None] * np.outer(b, b)))
