"""What a corpus knows of a key domain beyond any one sketch: its factors, in a file whose digest is their version.

Factors are learned from public sketches and applied to public sketches: post-processing, which costs nobody any budget. A
value that was improved by them is a function of its sketch and of one such file, so whoever has both gets the same value.

A provider's own requests must not be judged by factors that its own tables taught (the gain of *other* tables would look
surer than it is), so a file holds the factors of all tables, and for each of five groups of providers those of all others.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from saibot.errors import InvalidInput
from saibot.estimate.factors import (
    Factors,
    FactorValues,
    GroupedFactors,
    KeyTree,
    RankScore,
    Readings,
    apply,
    learn_by_group,
)
from saibot.safe_arrow import read_arrow
from saibot.sketch import KeyDomain, Sketch

FORMAT = {"format": "saibot-factors", "version": 1}
FEWEST = 8  # sketches of a key domain: fewer have nothing in common that could be told from noise
MOST_RANK = 64
MOST_COLUMNS = 1000
MOST_HEADER_BYTES = 1 << 26  # mostly digests of the sketches that taught
MOST_CELLS = 2**27  # numbers in one file, about 1 GB: more is no file of ours


@dataclass(frozen=True)
class SharedFactors:
    """The factors of one key domain, and which sketches they were learned from."""

    key: str  # id of the key domain in a corpus
    grouped: GroupedFactors
    taught: tuple[str, ...]  # digests, sorted

    @property
    def rank(self) -> int:
        return self.grouped.everyone.rank

    @property
    def tree(self) -> KeyTree:
        return self.grouped.everyone.tree

    @cached_property
    def content(self) -> bytes:
        return _written(self)

    @cached_property
    def version(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def groups(self) -> tuple[int | None, ...]:
        """Whose values there are: everybody's, and those of each group of providers."""
        return (None, *range(len(self.grouped.without))) if self.rank else (None,)

    @property
    def explained(self) -> np.ndarray:
        """The share of the values of a typical table that each factor explains, (r,); the rest is each table's own."""
        return np.asarray((self.grouped.everyone.loadings**2).mean(axis=0))

    def group_of(self, provider: str | None) -> int | None:
        """The group whose factors a provider's requests use; None for those that all tables taught."""
        return self.grouped.group.get(provider) if provider is not None and self.rank else None

    def of_group(self, group: int | None) -> Factors:
        return self.grouped.everyone if group is None else self.grouped.without[group]

    def name_of(self, group: int | None) -> str:
        """How a shard and a result name these factors: the version, with the group where it is one's."""
        return self.version if group is None else f"{self.version}@{group}"

    def readings(self, sketch: Sketch, domain: KeyDomain | None) -> Readings:
        return Readings.of_sketch(sketch, self.tree, domain if self.tree.names else None)

    def improved(self, readings: Readings, group: int | None = None) -> FactorValues:
        """A sketch's values with the help of all tables that may help."""
        return apply(self.of_group(group), readings)


def learn_shared(
    key: str, sketches: Iterable[Sketch], tree: KeyTree, domain: KeyDomain | None, providers: Sequence[str]
) -> SharedFactors:
    """Learn from all of these sketches, of one key domain; `providers` names the provider of each."""
    parts, names, digests = [], [], []
    for sketch, provider in zip(sketches, providers, strict=True):
        readings = Readings.of_sketch(sketch, tree, domain if tree.names else None)
        parts.append(readings)
        names += [provider] * len(readings)
        digests.append(sketch.digest)
    if len(parts) < FEWEST:
        return nothing_shared(key, tree)
    return SharedFactors(key, learn_by_group(Readings.join(parts), providers=names), tuple(sorted(digests)))


def nothing_shared(key: str, tree: KeyTree) -> SharedFactors:
    """Of a domain with too few sketches: every value is what its own sketch says."""
    none = Factors.none(tree)
    return SharedFactors(key, GroupedFactors(none, (), {}), ())


def key_tree(sketches: Iterable[Sketch], domain: KeyDomain | None) -> KeyTree:
    """The keys that these sketches share, with all coarser levels that any of them was released at and the domain knows."""
    size, levels = 0, set[str]()
    for sketch in sketches:
        size = len(sketch.levels[0].values) - 1
        levels |= set(sketch.header.key.levels if sketch.header.key else ())
    names = [name for name, _ in domain.parents if name in levels] if domain is not None else []
    return KeyTree.of(domain, names) if domain is not None and names else KeyTree(size)


# ------------------------------------------------------------------------------------------------ the file


def _written(shared: SharedFactors) -> bytes:
    """Arrow: a column of loadings for everyone and for each group, one row a key, and each key's place at every level."""
    tree, sets = shared.tree, (shared.grouped.everyone, *shared.grouped.without)
    header = FORMAT | {
        "key": shared.key,
        "keys": tree.size,
        "levels": list(tree.names),
        "rank": shared.rank,
        "shares": [factors.shares.tolist() for factors in sets],
        "tried": [[score.rank, score.gain, score.error] for score in sets[0].tried],
        "groups": {str(provider): group for provider, group in sorted(shared.grouped.group.items(), key=str)},
        "taught": list(shared.taught),
    }
    columns: list[pa.Array] = []
    for factors in sets:
        flat = pa.array(np.ascontiguousarray(factors.loadings).reshape(-1))
        kind = pa.list_(pa.float64(), shared.rank)
        columns.append(pa.FixedSizeListArray.from_arrays(flat, shared.rank) if shared.rank else pa.nulls(tree.size, kind))
    names = ["everyone", *(f"without {group}" for group in range(len(sets) - 1))]
    place = np.arange(tree.size)
    for name, step in zip(tree.names, tree.steps, strict=True):
        place = step[place]
        columns.append(pa.array(place.astype(np.int32)))
        names.append(f"level {name}")
    batch = pa.record_batch(columns, names=names)
    sink = pa.BufferOutputStream()
    schema = batch.schema.with_metadata({"saibot": json.dumps(header, sort_keys=True)})
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    return bytes(sink.getvalue())


def read_factors(content: bytes, version: str) -> SharedFactors:
    """The factors of this version; InvalidInput where the bytes are something else. They may come from anybody."""
    if hashlib.sha256(content).hexdigest() != version:
        raise InvalidInput(f"these are not the factors {version[:12]}.", hint="Fetch them again, or pack the corpus anew.")
    try:
        return _read(content)
    except InvalidInput:
        raise
    except (pa.ArrowException, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError):
        raise _damaged() from None


def _read(content: bytes) -> SharedFactors:
    read = read_arrow(pa.py_buffer(content), columns=MOST_COLUMNS)
    text = (read.schema.metadata or {})[b"saibot"]
    if len(text) > MOST_HEADER_BYTES:
        raise _damaged()
    header: dict[str, Any] = json.loads(text)
    if {name: header.get(name) for name in FORMAT} != FORMAT:
        raise InvalidInput("these factors have another format version.", hint="Pack the corpus anew with this saibot.")
    keys, rank, levels = int(header["keys"]), int(header["rank"]), [str(name) for name in header["levels"]]
    shares = np.array(header["shares"], float)
    if not (keys > 0 and 0 <= rank <= MOST_RANK and keys * max(rank, 1) * len(shares) <= MOST_CELLS):
        raise _damaged()
    if shares.shape != (len(shares), 1 + len(levels)) or not np.isfinite(shares).all() or (shares < 0).any():
        raise _damaged()
    (batch,) = read.batches
    if len(batch) != keys:
        raise _damaged()
    steps, below = [], np.arange(keys)
    for name in levels:
        place = batch.column(f"level {name}").to_numpy()
        step = np.zeros(int(below.max()) + 1, np.intp)
        step[below] = place
        if place.min() < 0 or place.max() >= keys or not np.array_equal(step[below], place):
            raise _damaged()
        steps.append(step)
        below = place
    tree = KeyTree(keys, tuple(levels), tuple(steps))
    tried = tuple(RankScore(int(rank), float(gain), float(error)) for rank, gain, error in header["tried"])
    names = ["everyone", *(f"without {group}" for group in range(len(shares) - 1))]
    sets = [_factors(batch.column(name), tree, rank, share, tried) for name, share in zip(names, shares, strict=True)]
    groups: dict[Hashable, int] = {str(provider): int(group) for provider, group in header["groups"].items()}
    if any(not 0 <= group < len(sets) - 1 for group in groups.values()):
        raise _damaged()
    taught = tuple(str(digest) for digest in header["taught"])
    return SharedFactors(str(header["key"]), GroupedFactors(sets[0], tuple(sets[1:]), groups), taught)


def _factors(column: pa.Array, tree: KeyTree, rank: int, shares: np.ndarray, tried: tuple[RankScore, ...]) -> Factors:
    if not rank:
        return Factors(tree, np.zeros((tree.size, 0)), shares, tried)
    loadings = np.array(column.values.to_numpy()).reshape(tree.size, rank)
    if not np.isfinite(loadings).all() or np.abs(loadings).max() > math.sqrt(tree.size):  # their mean square is at most 1
        raise _damaged()
    return Factors(tree, loadings, shares, tried)


def _damaged() -> InvalidInput:
    return InvalidInput("this file of factors is damaged.", hint="Fetch it again, or pack the corpus anew.")
