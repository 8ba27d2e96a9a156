"""Keys as columns: grouping and matching composite keys without a Python object per key.

A key is one array per part. To compare keys, each part's values are numbered in sorted order and the numbers
of all parts are combined into one integer *code* per key; equal codes are equal keys and codes sort as keys
do, part by part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from saibot.semiring.errors import KeyPartError
from saibot.semiring.exact import INT64_MAX, Indices, frozen, peak

KeyColumn: TypeAlias = npt.NDArray[Any]
Key: TypeAlias = tuple[KeyColumn, ...]

_KINDS = {"U": "text", "i": "integers", "b": "booleans", "M": "dates"}


def as_key_column(part: str, data: npt.ArrayLike) -> KeyColumn:
    """One part of a key as a read-only 1-d array of text, integers, booleans or dates."""
    column = np.asarray(data)
    if column.ndim != 1:
        raise KeyPartError(f"Key part {part!r} must be one column, not an array of shape {column.shape}.")
    if column.dtype.kind == "T":
        column = column.astype(object)  # numpy's own text of any length does not sort with the other kind
    kind = column.dtype.kind
    if not column.size and kind not in _KINDS:
        column = np.empty(0, dtype=np.str_)  # numpy calls an empty list float64
    elif kind == "O" and all(isinstance(value, str) for value in column):
        column = column.astype(np.str_)
    elif kind in "iu" and peak(column) <= INT64_MAX:
        column = column.astype(np.int64, copy=False)
    elif kind == "O" and all(type(value) is int and abs(value) <= INT64_MAX for value in column):
        column = column.astype(np.int64)
    elif kind == "M" and bool(np.isnat(column).any()):
        raise KeyPartError(f"Key part {part!r} has missing dates.")
    elif kind not in _KINDS:
        # A float key would match by its last bit, and NaN is how a missing integer arrives.
        raise KeyPartError(f"Key part {part!r} must be text, integers, booleans or datetime64, not {column.dtype}.")
    return frozen(column)


def check_parts(parts: Iterable[str]) -> tuple[str, ...]:
    """The names of a key's parts as a tuple."""
    names = tuple(parts)
    if len({*names}) != len(names) or not all(isinstance(name, str) and name for name in names):
        raise KeyPartError(f"The parts of a key must have unique, non-empty names, not {names}.")
    return names


def as_key(parts: Sequence[str], columns: Sequence[npt.ArrayLike], *, length: int | None = None) -> Key:
    """One column per part, all of one length: the given one, where there is one."""
    if len(columns) != len(parts):
        raise KeyPartError(f"A key of {len(parts)} parts needs as many columns, not {len(columns)}.")
    key = tuple(as_key_column(part, column) for part, column in zip(parts, columns, strict=True))
    for part, column in zip(parts, key, strict=True):
        if len(column) != (expected := len(key[0]) if length is None else length):
            raise KeyPartError(f"Key part {part!r} must have {expected} keys, not {len(column)}.")
    return key


def stacked(part: str, columns: Sequence[KeyColumn]) -> KeyColumn:
    """One column after the other. numpy would turn 1 and "1" into equal text; here they are an error."""
    filled = [column for column in columns if column.size]
    if len(kinds := {_KINDS[column.dtype.kind] for column in filled}) > 1:
        raise KeyPartError(f"Key part {part!r} holds {' on one side and '.join(sorted(kinds))} on the other.")
    return np.concatenate(filled) if filled else columns[0]


def encode(parts: Sequence[str], keys: Sequence[Key], lengths: Sequence[int]) -> tuple[list[Indices], int]:
    """Codes 0..n-1 for the keys of several tables at once, and n. Without parts, all rows have one key."""
    codes: Indices = np.zeros(sum(lengths), dtype=np.intp)
    count = 1
    for position, part in enumerate(parts):
        column = stacked(part, [key[position] for key in keys])
        distinct, numbers = np.unique(column, return_inverse=True)
        # Two parts have at most rows^2 combinations; made dense after each part, codes never outgrow 64 bits.
        codes, count = codes * len(distinct) + numbers, len(distinct)
        if position:
            present, codes = np.unique(codes, return_inverse=True)
            count = len(present)
    return np.split(codes, np.cumsum(lengths)[:-1]), count


def group(parts: Sequence[str], key: Key, length: int) -> tuple[Indices, Indices]:
    """The first row of each distinct key, in sorted order of the keys, and the group of each row."""
    (codes,), _ = encode(parts, [key], [length])
    _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    return first, groups


def pairs(left: Indices, right: Indices, count: int) -> tuple[Indices, Indices]:
    """All pairs (i, j) of rows with left[i] == right[j], ordered by i and then by j."""
    order = np.argsort(right, kind="stable")
    found = np.bincount(right, minlength=count)
    starts = np.cumsum(found) - found
    matches = found[left]
    i = np.repeat(np.arange(len(left)), matches)
    # Within the run of pairs of one left row, count up from the first match.
    ends = np.cumsum(matches)
    offset = np.arange(len(i)) - np.repeat(ends - matches, matches)
    return i, order[starts[left[i]] + offset]


def same(left: Key, right: Key) -> bool:
    """Whether two keys are the same arrays row by row, the common case of two tables on one domain."""
    return all(a is b or (a.dtype.kind == b.dtype.kind and np.array_equal(a, b)) for a, b in zip(left, right, strict=True))
