"""A greedy step on a GPU: one kernel reads every value once and writes every candidate's scores.

What is linear in the request is done on the host in float64: the current features are made orthonormal, the target becomes
the current residual, so that for a candidate z

    r = z.z - sum_j (u_j.z)^2,   v = e.z,   and the error of v from two more columns

come from p + 2 columns against z and two against z*z (`saibot.search.scoring` has the same formulas without that basis). The
products run on tensor cores with float32 split into three parts of lower precision each, which keeps float32's accuracy;
they are added up in float32 and scored in float64. Gains agree with those of a processor to about 1e-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from saibot.search.scoring import LEAST_SHARE, MOST_EXPLAINED, Base

UPLOADED = 65_536  # candidates that are copied to the GPU at a time
LEAST_COLUMNS = 16  # the narrowest product that tensor cores take
ROWS, KEYS, WARPS, STAGES = 64, 32, 2, 4  # of a program: candidates, keys at a time; the fastest of forty on an H200


def resident(values: np.ndarray) -> Any:
    """Values (candidates x keys) in the GPU's memory, float32, keys filled up with zeros to whole blocks.

    Rows that begin at multiples of 128 bytes are read in full width; a thousand keys as they come take a third longer.
    """
    count, keys = values.shape
    there = torch.zeros((count, -(-keys // KEYS) * KEYS), dtype=torch.float32, device="cuda")
    for start in range(0, count, UPLOADED):  # mapped values are read-only, and torch wants a copy: block by block
        part = np.array(values[start : start + UPLOADED], dtype=np.float32)
        there[start : start + len(part), :keys] = torch.from_numpy(part).to("cuda")
    return there


class DeviceColumn:
    """A number of every candidate in the GPU's memory: what is asked for comes here, and the whole where that is needed."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.whole = parts[0] if len(parts) == 1 else torch.cat(list(parts))

    def __len__(self) -> int:
        return len(self.whole)

    def __getitem__(self, which: Any) -> Any:
        wanted = torch.as_tensor(np.asarray(which), device=self.whole.device)
        return self.whole[wanted].cpu().numpy().astype(np.float64)[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.whole.cpu().numpy(), dtype=dtype or np.float64)

    def best(self, most: int) -> np.ndarray:
        """The numbers of the `most` largest, largest first."""
        return np.asarray(torch.topk(self.whole, min(most, len(self.whole))).indices.cpu().numpy())


SCORES = ("gain", "lower", "deviation", "coefficient", "rank")  # the last orders as boards do: by bound, else by gain


@dataclass(frozen=True)
class DeviceScores:
    """`SCORES` of all candidates in the GPU's memory, (5, candidates) float32."""

    rows: Any

    def column(self, name: str) -> Any:
        return self.rows[SCORES.index(name)]


def score_on_gpu(values: Any, base: Base, *, quantile: float) -> DeviceScores:
    """The scores of all candidates of a `resident` matrix."""
    count, keys = values.shape
    width = max(LEAST_COLUMNS, triton.next_power_of_2(base.size + 2))
    weights = _weights(base, keys, width, quantile)
    out = torch.empty((5, count), dtype=torch.float32, device=values.device)
    _step[(triton.cdiv(count, ROWS),)](
        values,
        weights,
        weights.view(torch.float64),
        out,
        count,
        keys,
        P=base.size,
        WIDTH=width,
        ROWS=ROWS,
        KEYS=KEYS,
        LEAST_SHARE=LEAST_SHARE,
        MOST_EXPLAINED=MOST_EXPLAINED,
        num_warps=WARPS,
        num_stages=STAGES,
    )
    return DeviceScores(out)


def _weights(base: Base, keys: int, width: int, quantile: float) -> Any:
    """What a step needs of the request, as one buffer on the GPU: one copy costs less than three.

    Two matrices (keys, width) of float32, of largest entry 1 in every column: against z and against z*z; then, in float64,
    what each sum is to be multiplied by, and seven scalars.
    """
    p = base.size
    linear = np.empty((len(base.linear), p + 2))
    np.matmul(base.linear[:, :p], np.linalg.cholesky(base.inverse), out=linear[:, :p])
    np.subtract(base.linear[:, p], base.linear[:, :p] @ base.theta, out=linear[:, p])
    linear[:, p + 1] = base.linear[:, p + 1]
    whole = torch.empty(2 * keys * width + 2 * (2 * width + 7), dtype=torch.float32, pin_memory=True)
    buffer = whole.numpy()
    matrices = buffer[: 2 * keys * width].reshape(2, keys, width)
    matrices[:] = 0.0
    numbers = buffer[2 * keys * width :].view(np.float64)
    numbers[: 2 * width] = 1.0
    for place, columns in enumerate((linear, base.square)):
        largest = np.maximum(np.abs(columns).max(axis=0), 1e-300)
        np.divide(columns, largest, out=matrices[place, : len(columns), : columns.shape[1]], casting="same_kind")
        numbers[place * width : place * width + columns.shape[1]] = largest
    numbers[2 * width :] = (
        1 / max(base.count, 1.0),
        base.residual_total,
        base.weight_total,
        base.rows_per_key / max(base.weight_total, 1e-300),
        max(base.tss, 1e-300),
        quantile,
        np.sqrt(base.count),
    )
    return whole.to("cuda", non_blocking=True)


@triton.jit  # type: ignore[untyped-decorator]
def _step(  # type: ignore[no-untyped-def]
    values,
    weights,
    wide,
    out,
    count,
    keys,
    P: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    LEAST_SHARE: tl.constexpr,
    MOST_EXPLAINED: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = row < count
    column = tl.arange(0, WIDTH)
    key = tl.arange(0, KEYS)
    # The last rows again instead of rows that are not there: no mask, so that loads stay wide.
    place = values + tl.minimum(row, count - 1).to(tl.int64)[:, None] * keys + key[None, :]
    against = weights + key[:, None] * WIDTH + column[None, :]
    first = tl.zeros((ROWS, WIDTH), tl.float32)
    second = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, keys, KEYS):
        z = tl.load(place + start, eviction_policy="evict_first")
        first = tl.dot(z, tl.load(against + start * WIDTH), first, input_precision="tf32x3")
        second = tl.dot(z * z, tl.load(against + (keys + start) * WIDTH), second, input_precision="tf32x3")
    numbers = wide + keys * WIDTH  # behind the two matrices, in units of eight bytes
    moments = first.to(tl.float64) * tl.load(numbers + column)[None, :]
    squares_of = second.to(tl.float64) * tl.load(numbers + WIDTH + column)[None, :]
    scalars = numbers + 2 * WIDTH
    per_row = tl.load(scalars)
    residual_total = tl.load(scalars + 1)
    weight_total = tl.load(scalars + 2)
    explained_by = tl.load(scalars + 3)
    tss = tl.load(scalars + 4)
    quantile = tl.load(scalars + 5)
    root = tl.load(scalars + 6)

    zero = moments * 0.0
    total = tl.sum(tl.where(column[None, :] == 0, moments, zero), axis=1) * root  # the constant's column: counts / sqrt(n)
    along = tl.sum(tl.where(column[None, :] < P, moments * moments, zero), axis=1)
    product = tl.sum(tl.where(column[None, :] == P, moments, zero), axis=1)
    weighted = tl.sum(tl.where(column[None, :] == P + 1, moments, zero), axis=1)
    squares = tl.sum(tl.where(column[None, :] == 0, squares_of, zero), axis=1)
    weighted_squares = tl.sum(tl.where(column[None, :] == 1, squares_of, zero), axis=1)

    centre = total * per_row
    own = squares - centre * total
    left = tl.maximum(squares - along, LEAST_SHARE * own)
    usable = own > 1e-12 * (tl.abs(squares) + 1e-300)
    left = tl.where(usable, left, 1.0)
    product = tl.where(usable, product - centre * residual_total, 0.0)
    variance = weighted_squares - 2 * centre * weighted + centre * centre * weight_total
    spread = tl.sqrt(tl.maximum(variance, 0.0))
    explained = tl.minimum(product * product / left * explained_by, MOST_EXPLAINED)
    scale = left * tss
    clear = tl.maximum(tl.abs(product) - quantile * spread, 0.0)
    gain = tl.minimum(product * product / scale, 1.0)
    lower = tl.minimum(clear * clear / scale, 1.0)
    tl.store(out + row, gain.to(tl.float32), mask=there)
    tl.store(out + count + row, lower.to(tl.float32), mask=there)
    tl.store(out + 2 * count + row, (spread * tl.sqrt((1 - explained) / scale)).to(tl.float32), mask=there)
    tl.store(out + 3 * count + row, (product / left).to(tl.float32), mask=there)
    rank = tl.where(lower > 0, lower, -1.0 / (gain + 1e-30))
    tl.store(out + 4 * count + row, rank.to(tl.float32), mask=there)
