"""Datasets as they are shown to people: what the catalogue says of one, with its features, its private profile, and remarks.

Features and profiles take reading a sketch, so they are kept in memory for a while.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from cachetools import LRUCache

from saibot.platform.accounts import Caller
from saibot.platform.catalog import Catalog
from saibot.platform.domains import RegisteredDomains
from saibot.platform.shown_sketches import QUICK_BYTES, TooLargeToShow, stored_header, summed_sketch
from saibot.platform.storage.files import FileStore
from saibot.platform.validation import PROFILED_FEATURES
from saibot.wire.dataset import ShownFeature

DESCRIBED_BYTES = 64 << 20  # of features and profiles, kept in memory
Described = tuple[str, str | None, tuple[str, ...]]


class ShownDatasets:
    """What a sketch says is computed once; `forget` it where that changes, or nobody may hear of it any more."""

    def __init__(self, catalog: Catalog, files: FileStore, domains: RegisteredDomains, left_out: Mapping[str, str]) -> None:
        """`left_out` tells by digest why a sketch is in no search."""
        self._catalog, self._files, self._domains, self._left_out = catalog, files, domains, left_out
        self._described: LRUCache[str, Described] = LRUCache(DESCRIBED_BYTES, getsizeof=_size)
        self._lock = threading.Lock()

    def show(self, caller: Caller, id: str) -> dict[str, Any]:
        """The dataset with its versions, its private profile, and what people should know about it."""
        document = self._catalog.show(caller, id)
        features, text, remarks = self._profile(document["digest"])
        parts = document["key"]["parts"] if document["key"] else []
        unknown = [part["domain"] for part in parts if not self._knows(part)]
        notes = [
            *remarks,
            *(f"the key domain {name!r} is not registered here; the sketch lists its keys" for name in unknown),
        ]
        found = None if text is None else json.loads(text)
        return document | {"features": json.loads(features), "profile": found, "notes": notes}

    def takes_long(self, caller: Caller, id: str) -> bool:
        """Whether showing a dataset means to read a large sketch."""
        document = json.loads(self._catalog.row(caller, id)["document"])
        return int(document["bytes"]) > QUICK_BYTES

    def forget(self, digest: str | None = None) -> None:
        """What is kept of one sketch; of all without a digest."""
        with self._lock:
            if digest is None:
                self._described.clear()
            else:
                self._described.pop(digest, None)

    def _knows(self, part: dict[str, Any]) -> bool:
        from saibot.domains import spelled_size
        from saibot.domains.vocabularies import shipped

        vocabulary = shipped(part["domain"], part["version"])
        ships = vocabulary is not None and vocabulary.digest == part["digest"]
        return ships or self._domains.known(part["digest"]) or spelled_size(part["domain"]) == part["size"]

    def _profile(self, digest: str) -> Described:
        with self._lock:
            known = self._described.get(digest)
        if known is None:
            known = self._compute_profile(digest)
            with self._lock, suppress(ValueError):  # larger than the whole memory for them
                self._described[digest] = known
        return known

    def _compute_profile(self, digest: str) -> Described:
        """The features of a sketch and its profile, each as JSON, and what is to be said about them."""
        from saibot.estimate.profile import DRAWS, profile

        header = stored_header(self._files, digest)
        width = len(header.features)
        shown = [ShownFeature.model_validate(one.model_dump(), extra="ignore").to_json() for one in header.features]
        features = json.dumps(shown, separators=(",", ":"))
        remarks = [f"it is left out of searches: {self._left_out[digest]}"] if digest in self._left_out else []
        if width > PROFILED_FEATURES:
            return features, None, (*remarks, f"a profile is made for up to {PROFILED_FEATURES} features")
        try:
            sketch = summed_sketch(self._files, digest)
        except TooLargeToShow as problem:
            return features, None, (*remarks, f"there is no profile: {problem.message} {problem.hint}".rstrip("."))
        # Draws are products of all pairs of features: fewer of them keep memory in bounds for wide sketches.
        found = profile(sketch, draws=max(200, min(DRAWS, 2_000_000 // width**2)))
        return features, json.dumps(found.to_json(), separators=(",", ":"), allow_nan=False), tuple(remarks)


def _size(described: Described) -> int:
    features, text, _ = described
    return len(features) + len(text or "")
