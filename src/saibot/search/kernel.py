"""The sweep's inner loops, compiled: needs numba (the `fast` extra); `saibot.search.sweep` does without where it is missing.

Two rows at a time share the weights that are loaded: their 14 sums and the weights stay in a processor's vector registers,
and every further row would push some of them out to memory and back. The rows lie half a block apart, so that each half is
read from end to end. What will be summed next is asked for beforehand, tile by tile: left to itself a processor waits for
memory first and multiplies then, which takes nearly twice as long.
Products are summed in the values' own type, where vector units are fast, over TILE keys at most, and the tiles' sums in
float64: a lane of float32 adds up a dozen numbers, never millions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

LINEAR, SQUARE = 5, 2  # columns of weights in the first pass over two rows: two own features and what goes with them
MORE = 7  # linear columns in every further pass, when the rows are in the nearest cache
TILE = 192  # keys; shorter tiles spend their time on adding up, longer ones ask for more at once than is fetched meanwhile
AHEAD = 1024  # values
LINE = 64  # bytes that memory hands over at a time
SCORED = 512  # candidates whose moments are scored as soon as they are known
SHORT = 256  # keys up to which weights stay in registers and the nearest cache, so that one row at a time is faster


def rows(columns: int) -> int:
    """How many rows of linear weights `fused` wants for so many columns."""
    return LINEAR + max(-(-(columns - LINEAR) // MORE), 0) * MORE


def _compiled(*, fastmath: bool | set[str] = False) -> Callable[[Any], Any]:
    """Compiled when first called, and kept for the next process."""

    def compile(function: Any) -> Any:
        try:
            return numba.njit(fastmath=fastmath, nogil=True, error_model="numpy", cache=True)(function)
        except RuntimeError:  # nowhere to keep it: a server's installation is read-only, and its user has no home
            return numba.njit(fastmath=fastmath, nogil=True, error_model="numpy")(function)

    return compile


def _ahead(context: Any, row: Any, key: Any) -> Any:
    """Ask for the tile that lies AHEAD of this one, in this row or in those after it: nothing is read, so nothing can fail
    where the values end."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        array, size = (
            context.make_array(signature.args[0])(context, builder, given[0]),
            signature.args[0].dtype.bitwidth // 8,
        )
        whole, word, pointer = given[1].type, ir.IntType(32), ir.IntType(8).as_pointer()
        first = builder.add(builder.ptrtoint(array.data, whole), builder.mul(given[1], ir.Constant(whole, size)))
        hint = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], hint)
        to_read, nearest, data = (ir.Constant(word, number) for number in (0, 3, 1))
        for place in range(AHEAD * size, (AHEAD + TILE) * size, LINE):
            address = builder.inttoptr(builder.add(first, ir.Constant(whole, place)), pointer)
            builder.call(prefetch, [address, to_read, nearest, data])
        return context.get_dummy_value()

    return types.void(row, types.intp), generate


_fetch: Any = intrinsic(_ahead)  # called with a row and a key


@_compiled(fastmath=True)
def _short(
    values: np.ndarray,
    linear: np.ndarray,
    square: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """What `fused` does, for few keys: two rows at once would spend their time on adding up 14 short sums."""
    l0, l1, l2, l3, l4, s0, s1 = linear[0], linear[1], linear[2], linear[3], linear[4], square[0], square[1]
    for row in range(start, stop):
        numbers = values[row]
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = values.dtype.type(0)
        for k in range(values.shape[1]):
            z = numbers[k]
            a0, a1, a2, a3, a4 = a0 + z * l0[k], a1 + z * l1[k], a2 + z * l2[k], a3 + z * l3[k], a4 + z * l4[k]
            a5, a6 = a5 + z * z * s0[k], a6 + z * z * s1[k]
        first[0, row], first[1, row], first[2, row], first[3, row], first[4, row] = a0, a1, a2, a3, a4
        second[0, row], second[1, row] = a5, a6


@_compiled(fastmath=True)
def fused(
    values: np.ndarray,
    linear: np.ndarray,
    square: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Moments of the candidates from `start` to `stop`: first (p, N) and second (2, N), with p as `rows` says."""
    if values.shape[1] <= SHORT and len(linear) == LINEAR:
        _short(values, linear, square, first, second, start, stop)
        return
    half = (stop - start + 1) // 2
    sums = np.zeros((2, MORE))
    moments = np.zeros((stop - start, len(linear) + SQUARE))  # row by row here: fewer places to write to while sweeping
    for step in range(half):
        # The second half ends with the block; where the block cannot be divided, a row is done twice.
        a, b = start + step, stop - half + step
        _both(values, a, b, linear, square, sums)
        for r, row in enumerate((a, b)):
            moments[row - start, : LINEAR + SQUARE] = sums[r]
        for p in range(LINEAR, len(linear), MORE):
            _more(values, a, b, linear, p, sums)
            for r, row in enumerate((a, b)):
                moments[row - start, p + SQUARE : p + SQUARE + MORE] = sums[r]
    first[:LINEAR, start:stop] = moments[:, :LINEAR].T
    second[:, start:stop] = moments[:, LINEAR : LINEAR + SQUARE].T
    first[LINEAR:, start:stop] = moments[:, LINEAR + SQUARE :].T


@_compiled(fastmath=True)
def _both(values: np.ndarray, a: int, b: int, linear: np.ndarray, square: np.ndarray, sums: np.ndarray) -> None:
    """Sums (2, 7): both rows' products with five columns, and of their squares with two."""
    va, vb = values[a], values[b]
    l0, l1, l2, l3, l4, s0, s1 = linear[0], linear[1], linear[2], linear[3], linear[4], square[0], square[1]
    p0 = p1 = p2 = p3 = p4 = p5 = p6 = q0 = q1 = q2 = q3 = q4 = q5 = q6 = 0.0
    for key in range(0, len(va), TILE):
        end = min(key + TILE, len(va))
        _fetch(va, key)
        _fetch(vb, key)
        ya, yb, w0, w1, w2, w3 = va[key:end], vb[key:end], l0[key:end], l1[key:end], l2[key:end], l3[key:end]
        w4, w5, w6 = l4[key:end], s0[key:end], s1[key:end]
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = b0 = b1 = b2 = b3 = b4 = b5 = b6 = values.dtype.type(0)
        for k in range(end - key):
            z = ya[k]
            a0, a1, a2, a3, a4 = a0 + z * w0[k], a1 + z * w1[k], a2 + z * w2[k], a3 + z * w3[k], a4 + z * w4[k]
            a5, a6 = a5 + z * z * w5[k], a6 + z * z * w6[k]
            z = yb[k]
            b0, b1, b2, b3, b4 = b0 + z * w0[k], b1 + z * w1[k], b2 + z * w2[k], b3 + z * w3[k], b4 + z * w4[k]
            b5, b6 = b5 + z * z * w5[k], b6 + z * z * w6[k]
        p0, p1, p2, p3, p4, p5, p6 = p0 + a0, p1 + a1, p2 + a2, p3 + a3, p4 + a4, p5 + a5, p6 + a6
        q0, q1, q2, q3, q4, q5, q6 = q0 + b0, q1 + b1, q2 + b2, q3 + b3, q4 + b4, q5 + b5, q6 + b6
    _put(sums[0], p0, p1, p2, p3, p4, p5, p6)
    _put(sums[1], q0, q1, q2, q3, q4, q5, q6)


@_compiled(fastmath=True)
def _more(values: np.ndarray, a: int, b: int, linear: np.ndarray, start: int, sums: np.ndarray) -> None:
    """Sums (2, 7): both rows' products with seven columns from `start` on."""
    va, vb = values[a], values[b]
    l0, l1, l2, l3, l4, l5, l6 = (
        linear[start],
        linear[start + 1],
        linear[start + 2],
        linear[start + 3],
        linear[start + 4],
        linear[start + 5],
        linear[start + 6],
    )
    p0 = p1 = p2 = p3 = p4 = p5 = p6 = q0 = q1 = q2 = q3 = q4 = q5 = q6 = 0.0
    for key in range(0, len(va), TILE):
        end = min(key + TILE, len(va))
        ya, yb, w0, w1, w2, w3 = va[key:end], vb[key:end], l0[key:end], l1[key:end], l2[key:end], l3[key:end]
        w4, w5, w6 = l4[key:end], l5[key:end], l6[key:end]
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = b0 = b1 = b2 = b3 = b4 = b5 = b6 = values.dtype.type(0)
        for k in range(end - key):
            z = ya[k]
            a0, a1, a2, a3, a4 = a0 + z * w0[k], a1 + z * w1[k], a2 + z * w2[k], a3 + z * w3[k], a4 + z * w4[k]
            a5, a6 = a5 + z * w5[k], a6 + z * w6[k]
            z = yb[k]
            b0, b1, b2, b3, b4 = b0 + z * w0[k], b1 + z * w1[k], b2 + z * w2[k], b3 + z * w3[k], b4 + z * w4[k]
            b5, b6 = b5 + z * w5[k], b6 + z * w6[k]
        p0, p1, p2, p3, p4, p5, p6 = p0 + a0, p1 + a1, p2 + a2, p3 + a3, p4 + a4, p5 + a5, p6 + a6
        q0, q1, q2, q3, q4, q5, q6 = q0 + b0, q1 + b1, q2 + b2, q3 + b3, q4 + b4, q5 + b5, q6 + b6
    _put(sums[0], p0, p1, p2, p3, p4, p5, p6)
    _put(sums[1], q0, q1, q2, q3, q4, q5, q6)


@_compiled()
def _put(sums: np.ndarray, x0: float, x1: float, x2: float, x3: float, x4: float, x5: float, x6: float) -> None:
    sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6] = x0, x1, x2, x3, x4, x5, x6


@_compiled()
def swept_and_scored(
    values: np.ndarray,
    linear: np.ndarray,
    square: np.ndarray,
    linear_size: np.ndarray,
    square_size: np.ndarray,
    inverse: np.ndarray,
    theta: np.ndarray,
    facts: np.ndarray,
    scores: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Moments and then scores of the candidates from `start` to `stop`, SCORED at a time, so that moments never leave the
    core's own cache and no memory is asked for on the way."""
    first, second = np.zeros((len(linear), SCORED)), np.zeros((len(square), SCORED))
    for begin in range(start, stop, SCORED):
        part = values[begin : min(begin + SCORED, stop)]
        fused(part, linear, square, first, second, 0, len(part))
        for j in range(len(linear_size)):
            for i in range(len(part)):
                first[j, i] *= linear_size[j]
        for j in range(len(square_size)):
            for i in range(len(part)):
                second[j, i] *= square_size[j]
        _scored(first, second, inverse, theta, facts, scores, begin, len(part))


@_compiled(fastmath={"reassoc", "contract", "nsz"})  # not a number stays what it is
def _scored(
    first: np.ndarray,
    second: np.ndarray,
    inverse: np.ndarray,
    theta: np.ndarray,
    facts: np.ndarray,
    scores: np.ndarray,
    start: int,
    count: int,
) -> None:
    """What `scoring.score` says of the candidates whose moments are the first `count` of `first` and `second`, in float64.

    `facts`: count, residual_total, weight_total, rows_per_key / weight_total, tss, quantile, LEAST_SHARE, MOST_EXPLAINED.
    `scores` (5, N) gets gain, lower, deviation, coefficient and what candidates are ordered by, from `start` on. Loops go
    over candidates innermost and touch few arrays each: a compiler works on several candidates in one instruction only where
    it can see that no array it writes overlaps one it reads.
    """
    p = len(theta)
    residual_total, weight_total, per_weight, tss, quantile = facts[1], facts[2], facts[3], facts[4], facts[5]
    one_more, least_share, most_explained = 1.0 / facts[0], facts[6], facts[7]
    explained_by_own, fitted = np.zeros(count), np.zeros(count)
    for j in range(p):
        row, weight = first[j], theta[j]
        for i in range(count):
            fitted[i] += row[i] * weight
        for k in range(j + 1):
            other, factor = first[k], inverse[j, k] if k == j else inverse[j, k] + inverse[k, j]
            for i in range(count):
                explained_by_own[i] += factor * row[i] * other[i]
    sums, with_target, weighted, squares, weighted_squares = first[0], first[p], first[p + 1], second[0], second[1]
    left, product, spread = np.empty(count), np.empty(count), np.empty(count)
    for i in range(count):
        own = squares[i] - sums[i] * one_more * sums[i]
        rest, least = squares[i] - explained_by_own[i], least_share * own
        rest = rest if rest > least else least
        left[i] = rest if own > 1e-12 * (abs(squares[i]) + 1e-300) else 1.0
    for i in range(count):
        centre = sums[i] * one_more
        own = squares[i] - centre * sums[i]
        found = with_target[i] - fitted[i] - centre * residual_total
        product[i] = found if own > 1e-12 * (abs(squares[i]) + 1e-300) else 0.0
    for i in range(count):
        centre = sums[i] * one_more
        variance = weighted_squares[i] - 2 * centre * weighted[i] + centre * centre * weight_total
        spread[i] = np.sqrt(variance if variance > 0.0 else 0.0)
    gains, lowers, end = scores[0, start : start + count], scores[1, start : start + count], start + count
    for i in range(count):
        clear = abs(product[i]) - quantile * spread[i]
        clear = clear if clear > 0.0 else 0.0
        scale = left[i] * tss  # divided by, not inverted: the inverse of a tiny one is infinite, and 0 times that no number
        gain, lower = product[i] * product[i] / scale, clear * clear / scale
        gains[i] = gain if gain < 1.0 else 1.0
        lowers[i] = lower if lower < 1.0 else 1.0
    deviations, coefficients, ranks = scores[2, start:end], scores[3, start:end], scores[4, start:end]
    for i in range(count):
        coefficient = product[i] / left[i]
        explained = product[i] * coefficient * per_weight
        explained = explained if explained < most_explained else most_explained
        deviations[i] = spread[i] * np.sqrt((1.0 - explained) / (left[i] * tss))
        coefficients[i] = coefficient
    for i in range(count):
        ranks[i] = 1.0 + lowers[i] if lowers[i] > 0.0 else gains[i] * (1.0 - 1e-9)


def keep_no_more() -> None:
    """What this process compiles from now on is its own: it may not write where others look for compiled kernels."""
    for found in globals().values():
        if isinstance(found, Dispatcher):
            found._cache.disable()  # type: ignore[attr-defined]
