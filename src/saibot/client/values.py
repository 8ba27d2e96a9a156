"""The values that a result has chosen, looked up for the requester's keys: in a corpus, or in sketches fetched by digest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from saibot.client.kept import HINT
from saibot.domains import KnownDomains, level_domain
from saibot.errors import InvalidInput
from saibot.search import Corpus, RequestKey
from saibot.search.hops import hop_shards, spread_of, through
from saibot.search.key_lists import ListedKeys
from saibot.search.key_maps import View, Views, key_id, view_id
from saibot.search.packed_rows import pack, shared_rows
from saibot.search.searched_corpus import SHARED
from saibot.search.shard import ShardRows
from saibot.search.shared_factors import SharedFactors
from saibot.sketch import KeyDomain, KeyPart, Sketch
from saibot.wire import NewColumn


class ValueSource(Protocol):
    """Whoever can give a published sketch by its digest: this machine's cache (`Kept`), or a platform (`Published`)."""

    def sketch(self, digest: str) -> Sketch: ...

    def domain(self, part: KeyPart) -> KeyDomain | None:
        """The domain that a sketch's key names, with its coarser levels, where it is known."""

    def factors_named(self, version: str) -> SharedFactors:
        """The shared factors of this version."""


SAME = 1e-6  # two spreads that differ by less than this part are one
Place = tuple[View, ShardRows, int]  # the view that the keys have on a feature, its shard and its row there


@dataclass(frozen=True)
class LookedUp:
    """A chosen column's value for every finest key, in original units, and whether the dataset lists that key."""

    values: np.ndarray
    listed: np.ndarray


def looked_up(source: Corpus | ValueSource, column: NewColumn, key: RequestKey) -> LookedUp:
    """What a chosen column says of every finest key; of one that is not listed, what it says of all such keys together."""
    view, shard, row = _in_corpus(source, column, key) if isinstance(source, Corpus) else _in_sketches(source, column, key)
    if shard.values.shape[1] != view.size:
        raise InvalidInput(f"the values of {column.dataset!r} do not fit their list of keys.", hint="Search again.")
    # A shard holds deviations from the feature's mean.
    offset, scale, mean = (float(shard.numbers[number][row]) for number in ("offset", "scale", "mean"))
    values = (offset + scale * (mean + shard.values[row].astype(np.float64)))[view.index]
    return LookedUp(values, view.index < view.size - 1)


def _in_corpus(corpus: Corpus, column: NewColumn, key: RequestKey) -> Place:
    views = Views(key, corpus)
    known = False
    if column.dataset.startswith(SHARED):
        return _shared(corpus, column, views)
    if column.via is None:
        for id in corpus.key_ids:
            for shard in corpus.shards(id):
                row = _row(shard, column)
                known = known or row is not None
                view = _view(views, id, column) if row is not None else None
                if row is not None and view is not None:
                    if (column.factors or "") == shard.factors:
                        return view, shard, row
                    return view, _as_chosen(corpus, column), corpus.sketch(column.digest).features.index(column.feature)
    elif {column.digest, column.via} <= set(corpus.digests):
        known = True
        for view, shard in hop_shards(corpus, views):
            row = _row(shard, column)
            if row is not None and view.parts == column.joined_on:
                return view, shard, row
    if known:
        raise _no_key(column)
    raise InvalidInput(
        f"the corpus {corpus.folder} does not hold the sketch {column.digest[:12]} of {column.dataset!r}, "
        "which the result uses.",
        hint="Give the corpus that was searched, or search again: it may have been withdrawn.",
    )


def _shared(source: Corpus | ValueSource, column: NewColumn, views: Views) -> Place:
    """A column of what the tables of a key domain have in common."""
    shared, group = _factors(source, column)
    if shared is None or not column.feature.isdigit() or not 0 < int(column.feature) <= shared.rank:
        raise InvalidInput(f"{column.name!r} is no column that the shared factors give.", hint="Search again.")
    view = _view(views, shared.key, column)
    if view is None:
        raise _no_key(column)
    return view, shared_rows(shared, group, column.dataset), int(column.feature) - 1


def _in_sketches(source: ValueSource, column: NewColumn, key: RequestKey) -> Place:
    if column.dataset.startswith(SHARED):
        return _shared(source, column, Views(key))
    sketch = _fetched(source, column.digest)
    if sketch.header.key is None or column.feature not in sketch.features:
        raise InvalidInput(f"the sketch of {column.dataset!r} is not the one that the result uses.")
    shard = _packed(sketch, source, column, key)
    row = sketch.features.index(column.feature)
    id = key_id(sketch.header.key)
    if column.via is None:
        view = _view(Views(key, ListedKeys(sketch)), id, column)
        if view is not None:
            return view, shard, row
        raise _no_key(column)
    bridge = _fetched(source, column.via)
    views = Views(key, ListedKeys(bridge))
    parts = [view_id([part.keys_digest]) for part in bridge.header.key.parts] if bridge.header.key else []
    for near, far in ((0, 1), (1, 0)) if len(parts) == 2 else ():
        view = _view(views, parts[near], column)
        if view is not None and parts[far] == id:
            return view, through(shard, spread_of(bridge, near), bridge.header.dataset.name, bridge.digest), row
    raise _no_key(column)


def _packed(sketch: Sketch, source: ValueSource, column: NewColumn, key: RequestKey) -> ShardRows:
    """The sketch's values as the search had them: with the factors that helped them, and with its coarser key levels, if
    those were known where it was packed.

    A result does not carry domains of providers, only the spread of the values it chose, which tells both apart.
    """
    shared, group = _factors(source, column)
    packed = [pack(sketch, None, shared, group)]
    assert sketch.header.key is not None
    part, row = sketch.header.key.parts[0], sketch.features.index(column.feature)
    if sketch.header.key.levels:
        for domain in (source.domain(part), KnownDomains.of(_domains(key)).find(part)):
            try:
                packed += [pack(sketch, domain, shared, group)] if domain is not None else []
            except InvalidInput:  # the same keys with other levels
                continue
    wanted = column.spread
    if wanted is None:
        return packed[-1]

    def off(rows: ShardRows) -> float:
        return abs(float(rows.numbers["spread"][row]) - wanted)

    best = min(packed, key=off)
    if sketch.header.key.levels and len(packed) == 1 and off(best) > SAME * abs(wanted):
        raise InvalidInput(
            f"{column.dataset!r} was searched with coarser keys, which the key domain {part.domain!r} gives; "
            "it is not at hand.",
            hint=HINT,
        )
    return best


def _as_chosen(corpus: Corpus, column: NewColumn) -> ShardRows:
    """The values of a sketch with the factors that the result was found with, where the corpus has learned since."""
    shared, group = _factors(corpus, column)
    sketch = corpus.sketch(column.digest)
    return corpus.packed(sketch, shared, group)


def _factors(source: Corpus | ValueSource, column: NewColumn) -> tuple[SharedFactors | None, int | None]:
    if column.factors is None:
        return None, None
    version, _, group = column.factors.partition("@")
    return source.factors_named(version), int(group) if group.isdigit() else None


def _domains(key: RequestKey) -> Iterable[KeyDomain]:
    for _, domain in key.parts:
        yield domain
        for level, _ in domain.parents:
            yield level_domain(domain, level)


def _fetched(source: ValueSource, digest: str) -> Sketch:
    sketch = source.sketch(digest)
    if sketch.digest != digest:
        raise InvalidInput(f"instead of the sketch {digest[:12]} another one was given.", hint="Fetch it again.")
    return sketch


def _view(views: Views, id: str, column: NewColumn) -> View | None:
    return next((view for view in views.find_all(id) if view.parts == column.joined_on), None)


def _row(shard: ShardRows, column: NewColumn) -> int | None:
    text = shard.text
    same = (text["digest"] == column.digest) & (text["feature"] == column.feature)
    if column.via is not None:
        same &= text["via"] == column.via
    rows = np.flatnonzero(same)
    return int(rows[0]) if len(rows) else None


def _no_key(column: NewColumn) -> InvalidInput:
    name = f"{column.dataset}.{column.feature}"
    return InvalidInput(f"{name} was joined on {column.on}, which these keys do not give.")
