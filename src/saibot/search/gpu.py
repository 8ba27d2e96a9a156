"""A greedy step on a GPU: one kernel reads every value once, another one makes scores of each candidate's six sums.

What is linear in the request is done on the host in float64: the current features are made orthonormal, the target becomes
the current residual, so that for a candidate z

    r = z.z - sum_j (u_j.z)^2,   v = e.z,   and the error of v from two more columns

come from p + 2 columns against z and two against z*z (`saibot.search.scoring` has the same formulas without that basis).
Products are added up in float32 and scored in float64; gains agree with those of a processor to about 1e-6. With few current
features (FEW, the constant among them) plain multiply-adds keep up with memory: a step takes as long as reading the values.
With more, products run on tensor cores, float32 split into three parts of lower precision each, which keeps its accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from saibot.search.scoring import LEAST_SHARE, MOST_EXPLAINED, Base

UPLOADED = 65_536  # candidates that are copied to the GPU at a time
FEW = 3  # current features up to which seven sums of a candidate stay in registers
STEP = 64  # numbers of float32 that a step needs for every candidate, and more than it does
PADDED = 32  # keys to a whole block in the GPU's memory
LEAST_COLUMNS = 16  # the narrowest product that tensor cores take


class ProgramShape(NamedTuple):
    """Of a program: candidates, keys at a time, warps, and loads under way; the fastest of some forty on an H200."""

    rows: int
    keys: int
    warps: int
    stages: int


ADDED, MULTIPLIED = ProgramShape(32, 32, 2, 4), ProgramShape(64, 32, 2, 4)
SCORED = 256  # candidates of a program that scores: one to a thread, or float64 would hold up the reading


def resident(values: np.ndarray) -> Any:
    """Values (candidates x keys) in the GPU's memory, float32, keys filled up with zeros to whole blocks.

    Rows that begin at multiples of 128 bytes are read in full width; a thousand keys as they come take a third longer.
    """
    count, keys = values.shape
    there = torch.zeros((count, -(-keys // PADDED) * PADDED), dtype=torch.float32, device="cuda")
    for start in range(0, count, UPLOADED):  # mapped values are read-only, and torch wants a copy: block by block
        part = np.array(values[start : start + UPLOADED], dtype=np.float32)
        there[start : start + len(part), :keys] = torch.from_numpy(part).to("cuda")
    return there


class DeviceShards:
    """Shards in the GPU's memory as far as it has room; the others are sent there piece by piece at every step."""

    def __init__(self, most_bytes: int | None = None) -> None:
        self._room, self._kept = most_bytes, dict[int, Any]()

    def scores(self, number: int, values: np.ndarray, base: Base, *, quantile: float) -> list[DeviceScores]:
        """Of the shard of this number, whose values these are: one part after the other."""
        if number not in self._kept:
            self._kept[number] = resident(values) if self._fits(values) else None
        there = self._kept[number]
        if there is not None:
            return [score_on_gpu(there, base, quantile=quantile)]
        pieces = (resident(values[start : start + UPLOADED]) for start in range(0, len(values), UPLOADED))
        return [score_on_gpu(piece, base, quantile=quantile) for piece in pieces]

    def _fits(self, values: np.ndarray) -> bool:
        """Whether a shard and what a step needs beside it fit into what is free."""
        taken = sum(there.nbytes for there in self._kept.values() if there is not None)
        room = torch.cuda.mem_get_info()[0] if self._room is None else self._room - taken
        return bool(1.1 * len(values) * 4 * (values.shape[1] + PADDED + STEP) < room)


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
        """The numbers of the `most` largest, largest first: sorting all is faster here than looking for the largest."""
        return np.asarray(torch.sort(self.whole, descending=True, stable=True).indices[:most].cpu().numpy())


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
    few = base.size <= FEW
    p = FEW if few else base.size
    shape = ADDED if few else MULTIPLIED
    how = {"ROWS": shape.rows, "KEYS": shape.keys, "STAGES": shape.stages, "num_warps": shape.warps}
    sums = torch.empty((p + 4, count), dtype=torch.float32, device=values.device)
    out = torch.empty((len(SCORES), count), dtype=torch.float32, device=values.device)
    columns, size = _columns(base, p)
    grid = (triton.cdiv(count, shape.rows),)
    if few:
        weights, wide = _on_device(columns, size, (p + 4, keys), base, quantile)
        _added[grid](values, weights, sums, count, keys, FEW=FEW, **how)
    else:
        width = max(LEAST_COLUMNS, triton.next_power_of_2(p + 2))
        matrices = np.zeros((2, keys, width), np.float32)
        matrices[0, : len(base.linear), : p + 2] = columns[: p + 2].T
        matrices[1, : len(base.linear), :2] = columns[p + 2 :].T
        weights, wide = _on_device(matrices.reshape(1, -1), size, (1, matrices.size), base, quantile)
        _multiplied[grid](values, weights, sums, count, keys, P=p, WIDTH=width, **how)
    _scored[(triton.cdiv(count, SCORED),)](sums, wide, out, count, p, LEAST_SHARE, MOST_EXPLAINED, SCORED)
    return DeviceScores(out)


def _columns(base: Base, p: int) -> tuple[np.ndarray, np.ndarray]:
    """What values are multiplied by, (p + 4, keys), each of largest entry 1, and what it was divided by.

    First p current features, orthonormal, 0 where there are fewer; the residual and E_k^2; counts and E_k^2, for z*z.
    """
    own, columns = base.size, np.zeros((p + 4, len(base.linear)))
    np.matmul(np.linalg.cholesky(base.inverse).T, base.linear[:, :own].T, out=columns[:own])
    np.subtract(base.linear[:, own], base.linear[:, :own] @ base.theta, out=columns[p])
    columns[p + 1], columns[p + 2 :] = base.linear[:, own + 1], base.square.T
    size = np.maximum(np.abs(columns).max(axis=1), 1e-300)
    columns /= size[:, None]
    return columns, size


def _on_device(
    weights: np.ndarray, size: np.ndarray, shape: tuple[int, int], base: Base, quantile: float
) -> tuple[Any, Any]:
    """Weights in float32, filled up with zeros to `shape`, and in float64 what sums are multiplied by, then seven scalars.

    Both in one copy to the GPU: that costs less than three.
    """
    floats, numbers = shape[0] * shape[1], len(size) + 7
    whole = torch.empty(floats + 2 * numbers, dtype=torch.float32, pin_memory=True)
    buffer = whole.numpy()
    there = buffer[:floats].reshape(shape)
    there[:, : weights.shape[1]], there[:, weights.shape[1] :] = weights, 0.0
    wide = buffer[floats:].view(np.float64)
    wide[: len(size)] = size
    wide[len(size) :] = (
        1 / max(base.count, 1.0),
        base.residual_total,
        base.weight_total,
        base.rows_per_key / max(base.weight_total, 1e-300),
        max(base.tss, 1e-300),
        quantile,
        np.sqrt(base.count),
    )
    moved = whole.to("cuda", non_blocking=True)
    return moved, moved[floats:].view(torch.float64)


@triton.jit  # type: ignore[untyped-decorator]
def _added(  # type: ignore[no-untyped-def]
    values,
    weights,
    sums,
    count,
    keys,
    FEW: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Up to FEW (three) current features: seven sums for every candidate, added up where the values are."""
    tl.static_assert(FEW == 3)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    key = tl.arange(0, KEYS)
    # The last rows again instead of rows that are not there: no mask, so that loads stay wide.
    place = values + tl.minimum(row, count - 1).to(tl.int64)[:, None] * keys + key[None, :]
    a0 = tl.zeros((ROWS, KEYS), tl.float32)
    a1, a2, a3, a4, a5, a6 = a0, a0, a0, a0, a0, a0
    for start in tl.range(0, keys, KEYS, num_stages=STAGES):
        z = tl.load(place + start, eviction_policy="evict_first")
        w = weights + start + key
        a0 += z * tl.load(w)[None, :]
        a1 += z * tl.load(w + keys)[None, :]
        a2 += z * tl.load(w + 2 * keys)[None, :]
        a3 += z * tl.load(w + 3 * keys)[None, :]
        a4 += z * tl.load(w + 4 * keys)[None, :]
        squared = z * z
        a5 += squared * tl.load(w + 5 * keys)[None, :]
        a6 += squared * tl.load(w + 6 * keys)[None, :]
    there = row < count
    tl.store(sums + row, tl.sum(a0, axis=1), mask=there)
    tl.store(sums + count + row, tl.sum(a1, axis=1), mask=there)
    tl.store(sums + 2 * count + row, tl.sum(a2, axis=1), mask=there)
    tl.store(sums + 3 * count + row, tl.sum(a3, axis=1), mask=there)
    tl.store(sums + 4 * count + row, tl.sum(a4, axis=1), mask=there)
    tl.store(sums + 5 * count + row, tl.sum(a5, axis=1), mask=there)
    tl.store(sums + 6 * count + row, tl.sum(a6, axis=1), mask=there)


@triton.jit  # type: ignore[untyped-decorator]
def _multiplied(  # type: ignore[no-untyped-def]
    values,
    weights,
    sums,
    count,
    keys,
    P: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Any number of current features: two matrix products."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    key = tl.arange(0, KEYS)
    place = values + tl.minimum(row, count - 1).to(tl.int64)[:, None] * keys + key[None, :]
    against = weights + key[:, None] * WIDTH + column[None, :]
    first = tl.zeros((ROWS, WIDTH), tl.float32)
    second = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in tl.range(0, keys, KEYS, num_stages=STAGES):
        z = tl.load(place + start, eviction_policy="evict_first")
        first = tl.dot(z, tl.load(against + start * WIDTH), first, input_precision="tf32x3")
        second = tl.dot(z * z, tl.load(against + (keys + start) * WIDTH), second, input_precision="tf32x3")
    there = row[:, None] < count
    of_row = sums + column[None, :].to(tl.int64) * count + row[:, None]
    tl.store(of_row, first, mask=there & (column[None, :] < P + 2))
    tl.store(of_row + (P + 2) * count, second, mask=there & (column[None, :] < 2))


@triton.jit  # type: ignore[untyped-decorator]
def _scored(  # type: ignore[no-untyped-def]
    sums, wide, out, count, P: tl.constexpr, LEAST_SHARE: tl.constexpr, MOST_EXPLAINED: tl.constexpr, SCORED: tl.constexpr
):
    """What `saibot.search.scoring.score` says, in the orthonormal basis whose first column is the constant's."""
    row = tl.program_id(0).to(tl.int64) * SCORED + tl.arange(0, SCORED)
    there = row < count
    of_row = sums + row
    first = tl.load(of_row, mask=there, other=0.0).to(tl.float64) * tl.load(wide)
    along = first * first
    for j in tl.static_range(1, P):
        other = tl.load(of_row + j * count, mask=there, other=0.0).to(tl.float64) * tl.load(wide + j)
        along += other * other
    product = tl.load(of_row + P * count, mask=there, other=0.0).to(tl.float64) * tl.load(wide + P)
    weighted = tl.load(of_row + (P + 1) * count, mask=there, other=0.0).to(tl.float64) * tl.load(wide + P + 1)
    squares = tl.load(of_row + (P + 2) * count, mask=there, other=0.0).to(tl.float64) * tl.load(wide + P + 2)
    weighted_squares = tl.load(of_row + (P + 3) * count, mask=there, other=0.0).to(tl.float64) * tl.load(wide + P + 3)
    scalars = wide + P + 4
    per_row = tl.load(scalars)
    residual_total = tl.load(scalars + 1)
    weight_total = tl.load(scalars + 2)
    explained_by = tl.load(scalars + 3)
    tss = tl.load(scalars + 4)
    quantile = tl.load(scalars + 5)
    total = first * tl.load(scalars + 6)  # the constant's column is counts / sqrt(n)
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
