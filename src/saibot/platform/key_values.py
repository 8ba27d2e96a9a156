"""What a published sketch says of each of its keys: value, error and rows, alone and with the help of the corpus.

All of it is post-processing of what is public already: it costs no budget, and every visitor may have all of it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
from cachetools import LRUCache

from saibot.domains.naming import coarser_id, key_labels
from saibot.estimate.lookup import LookupValues
from saibot.platform.opened_corpus import OpenedCorpus, Stamp
from saibot.platform.shown_sketches import is_whole, shown_feature, stored_header
from saibot.platform.storage.files import FileStore
from saibot.search.key_maps import key_id
from saibot.search.packed_rows import own_values_and_errors
from saibot.sketch import Feature, KeyDomain, Sketch, at_level

REMEMBERED_BYTES = 32 << 20  # enough for 100,000 keys with six features
ALONE_BYTES = 12 << 20
DESCRIBED = 64  # sketches whose features are known by name: there may be a thousand of each
AT_ONCE = 8  # sketches that are read; whoever asks for the same one waits for it
T = TypeVar("T")
TIMES = " × "  # between the parts of a composite key


@dataclass(frozen=True)
class FeatureByKey:
    """One feature over all keys in original units: what the sketch says, and what it says with the help of the corpus.

    Errors are standard deviations of what is left open: the privacy noise, how keys with little data may differ, and that
    nobody knows how much keys differ.
    """

    name: str
    unit: str
    values: np.ndarray
    errors: np.ndarray
    better: np.ndarray | None
    better_errors: np.ndarray | None
    bounds: tuple[float, float] | None = None  # public

    def take(self, rows: np.ndarray) -> FeatureByKey:
        """Of some of the keys."""
        better = None if self.better is None else self.better[rows]
        errors = None if self.better_errors is None else self.better_errors[rows]
        return replace(self, values=self.values[rows], errors=self.errors[rows], better=better, better_errors=errors)


@dataclass(frozen=True)
class ValuesByKey:
    """Features of a sketch over its keys, in the order of its key domain: all of them, or one of a large sketch."""

    domains: tuple[str, ...]  # ids, of each part of the key
    parts: tuple[str, ...]  # names of the key's parts
    keys: tuple[Sequence[str], ...]  # one column of texts for each part
    counts: np.ndarray  # rows of each key, as far as the noise lets anyone say
    features: tuple[FeatureByKey, ...]
    named: tuple[tuple[str, str], ...]  # all features, whether they are here or not, each with its unit
    factors: str | None  # version of what helped
    levels: tuple[str, ...] = ()  # coarser levels of the key
    level: str | None = None  # the one that this is of

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def whole(self) -> bool:
        """Whether all features are here."""
        return len(self.features) == len(self.named)

    @property
    def domain(self) -> str:
        """One id, or those of all parts joined by `+`, which an id may have in it, too."""
        return "+".join(self.domains)

    @cached_property
    def labels(self) -> Sequence[str]:
        """A key as one text."""
        return self.keys[0] if len(self.keys) == 1 else [TIMES.join(key) for key in zip(*self.keys, strict=True)]

    @cached_property
    def told(self) -> Sequence[str]:
        """The same for people: with the names of places beside their codes."""
        columns = [key_labels(id, column) for id, column in zip(self.domains, self.keys, strict=True)]
        named = any(one is not own for one, own in zip(columns, self.keys, strict=True))
        return [TIMES.join(key) for key in zip(*columns, strict=True)] if named else self.labels

    @cached_property
    def _folded(self) -> list[str]:
        return [label.casefold() for label in self.told]

    def within(self, part: int, text: str) -> ValuesByKey:
        """Of a composite key the keys with this text in a part, by the other parts."""
        rows = np.array([one == text for one in self.keys[part]])

        def of(columns: Sequence[T]) -> tuple[T, ...]:
            return tuple(column for place, column in enumerate(columns) if place != part)

        return replace(
            self,
            domains=of(self.domains),
            parts=of(self.parts),
            keys=tuple([key for key, taken in zip(column, rows, strict=True) if taken] for column in of(self.keys)),
            counts=self.counts[rows],
            features=tuple(feature.take(rows) for feature in self.features),
        )

    def feature(self, name: str | None) -> FeatureByKey:
        """The feature with this name, the first where there is none."""
        return next((one for one in self.features if one.name == name), self.features[0])

    def order(self, feature: FeatureByKey, *, by: str, down: bool, text: str) -> np.ndarray:
        """Places of the keys that hold a text, ordered by a column; keys without a number in it come last."""
        if text:
            wanted = text.casefold()
            chosen = np.array([i for i, label in enumerate(self._folded) if wanted in label], np.intp)
        else:
            chosen = np.arange(len(self))
        column = self._column(feature, by)
        if column is None:
            return chosen[::-1] if down else chosen
        order = np.argsort(-column[chosen] if down else column[chosen], kind="stable")
        return np.asarray(chosen[order])

    def _column(self, feature: FeatureByKey, by: str) -> np.ndarray | None:
        columns = {
            "value": feature.values,
            "error": feature.errors,
            "better": feature.better,
            "better_error": feature.better_errors,
            "rows": self.counts,
        }
        return columns.get(by)


class KeyValues:
    """Reads only, and remembers the last sketches that somebody looked at."""

    def __init__(self, files: FileStore, corpus: OpenedCorpus) -> None:
        self._files, self._corpus = files, corpus
        self._remembered: LRUCache[_Place, ValuesByKey | None] = LRUCache(REMEMBERED_BYTES, getsizeof=_bytes)
        # What a sketch says alone stays the same when the corpus changes, and takes longest.
        self._alone: LRUCache[tuple[str, str | None, bool], _Alone] = LRUCache(ALONE_BYTES, getsizeof=_bytes_alone)
        self._described = lru_cache(DESCRIBED)(self._describe)
        self._lock = threading.Lock()
        self._reading = [threading.Lock() for _ in range(AT_ONCE)]

    def of(self, digest: str, feature: str | None = None, level: str | None = None) -> ValuesByKey | None:
        """What a stored sketch says of its keys, or of those of a coarser level; None where it has none. Of a large sketch
        one feature alone, the first where none has this name. Raises TooLargeToShow.
        """
        told = self._described(digest)
        one = None if told.whole else feature if feature in dict(told.named) else told.named[0][0]
        place = digest, one, level if level in told.levels else None, self._corpus.stamp()
        with self._reading[hash(digest) % AT_ONCE]:
            with self._lock:
                if place in self._remembered:
                    return self._remembered[place]
            found = self._read(*place)
            with self._lock, suppress(ValueError):  # larger than the whole memory for them
                self._remembered[place] = found
            return found

    def _describe(self, digest: str) -> _Told:
        header = stored_header(self._files, digest)
        named = tuple((feature.name, feature.unit) for feature in header.features)
        return _Told(is_whole(self._files, digest), named, header.key.levels if header.key else ())

    def _read(self, digest: str, one: str | None, level: str | None, stamp: Stamp) -> ValuesByKey | None:
        sketch, told = shown_feature(self._files, digest, one), self._described(digest)
        key, corpus = sketch.header.key, self._corpus.at(stamp)
        if key is None:
            return None
        if level is not None:
            return _at_level(at_level(sketch, 1 + key.levels.index(level)), told, level)
        domain = corpus.domain_of(sketch) if corpus is not None else None
        alone, errors = self._read_alone(sketch, one, domain)
        shared = corpus.factors(key_id(key)) if corpus is not None else None
        helped = shared.improved(shared.readings(sketch, domain)) if shared is not None and shared.rank else None
        better = None if helped is None else (helped.values, helped.variance)
        return ValuesByKey(
            domains=tuple(part.domain for part in key.parts),
            parts=tuple(part.name for part in key.parts),
            keys=_texts(sketch),
            counts=alone.counts[:-1],
            features=tuple(_feature(feature, i, alone, errors, better) for i, feature in enumerate(sketch.header.features)),
            named=told.named,
            factors=None if shared is None or helped is None else shared.version,
            levels=told.levels,
        )

    def _read_alone(self, sketch: Sketch, one: str | None, domain: KeyDomain | None) -> _Alone:
        place = sketch.digest, one, domain is not None
        with self._lock:
            if place in self._alone:
                return self._alone[place]
        found = own_values_and_errors(sketch, domain)
        with self._lock, suppress(ValueError):
            self._alone[place] = found
        return found


_Place = tuple[str, str | None, str | None, Stamp]  # digest, the feature that was read alone, level, corpus that helped
_Alone = tuple[LookupValues, np.ndarray]  # values, and their errors


@dataclass(frozen=True)
class _Told:
    """Whether a sketch is read with all its features at once, their names and units, and coarser levels of its key."""

    whole: bool
    named: tuple[tuple[str, str], ...]
    levels: tuple[str, ...]


def _at_level(sketch: Sketch, told: _Told, level: str) -> ValuesByKey:
    """By the keys of a coarser level, from what the sketch says of those alone."""
    assert sketch.header.key is not None
    alone, errors = own_values_and_errors(sketch, None)
    keys = _texts(sketch)[:1]
    return ValuesByKey(
        domains=(coarser_id(sketch.header.key.parts[0].domain, level, keys[0]),),
        parts=(level,),
        keys=keys,
        counts=alone.counts[:-1],
        features=tuple(_feature(feature, i, alone, errors, None) for i, feature in enumerate(sketch.header.features)),
        named=told.named,
        factors=None,
        levels=told.levels,
        level=level,
    )


def _texts(sketch: Sketch) -> tuple[list[str], ...]:
    return tuple(list(map(str, column[:-1])) for column in sketch.levels[0].keys)


def _bytes_alone(found: _Alone) -> int:
    return 4 * found[0].values.nbytes + found[1].nbytes


def _bytes(found: ValuesByKey | None) -> int:
    """About what they take in memory; a key takes 80 bytes as a text of Python's."""
    return 1 if found is None else len(found) * (100 * len(found.keys) + 8 + 32 * len(found.features))


def _feature(
    feature: Feature,
    place: int,
    alone: LookupValues,
    errors: np.ndarray,
    better: tuple[np.ndarray, np.ndarray] | None,
) -> FeatureByKey:
    def original(scaled: np.ndarray) -> np.ndarray:
        return np.asarray(feature.offset + feature.scale * scaled)

    told = errors[place, :-1]
    # What is open because the spread of keys is not known is open with the help of the corpus, too.
    unknown = told**2 - alone.posterior_variance[place, :-1]
    return FeatureByKey(
        name=feature.name,
        unit=feature.unit,
        values=original(alone.values[place, :-1]),
        errors=feature.scale * told,
        better=None if better is None else original(better[0][place]),
        better_errors=None if better is None else feature.scale * np.sqrt(np.maximum(better[1][place] + unknown, 0.0)),
        bounds=(feature.lower, feature.upper),
    )
