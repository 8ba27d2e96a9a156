"""The keys of a corpus: one domain file for every list of keys that a packed sketch has, with a signature to compare by.

They are public, and every sketch lists its own; here each list is written once, so that a search reads neither sketches nor
lists that have nothing in common with it. A corpus that was packed without them is read from its sketches.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from saibot.discover.joins import part_id
from saibot.domains import DomainCard, KeyDomain
from saibot.domains.file import card_of, read_domain, read_signature, write_domain
from saibot.domains.minhash import signature
from saibot.domains.remembered_domains import RememberedDomains
from saibot.errors import InvalidDomain
from saibot.safe_arrow import mapped
from saibot.safe_file import write_safely
from saibot.sketch import Sketch, listed_domain

SUFFIX = ".keys.arrow"


class KeyListFiles:
    """`folder/keys`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.remembered = RememberedDomains()
        self.signature = cache(self._signature)

    def add(self, sketch: Sketch) -> None:
        """Write the lists of a sketch's key that are not here yet."""
        for number, part in enumerate(sketch.header.key.parts if sketch.header.key else ()):
            path = self._path(part_id(part.keys_digest))
            if path.exists():
                continue
            domain = listed_domain(sketch, number)
            with suppress(InvalidDomain):  # no file can hold it: it is read from the sketch each time
                content = write_domain(domain, card_of(domain), signature=signature(domain.values))
                write_safely(path, content, public=True)
        self.remembered.clear()
        self.signature.cache_clear()

    def sweep(self, used: Collection[str]) -> None:
        """Delete the lists that no sketch has any more."""
        for path in self.folder.iterdir() if self.folder.is_dir() else ():  # also what a power cut left behind
            if path.name.removesuffix(SUFFIX) not in used:
                path.unlink(missing_ok=True)

    def read(self, part: str) -> KeyDomain | None:
        known = self.remembered.get(part)
        if known is not None:
            return known
        try:
            _, domain = read_domain(self._path(part).read_bytes(), name=f"keys/{part}{SUFFIX}")
        except (OSError, InvalidDomain):
            return None
        if part_id(domain.keys_digest) != part:
            return None
        self.remembered.put(part, domain)
        return domain

    def _signature(self, part: str) -> tuple[DomainCard, np.ndarray] | None:
        try:
            card, found = read_signature(mapped(str(self._path(part))), name=f"keys/{part}{SUFFIX}")
        except (OSError, InvalidDomain):
            return None
        return None if found is None else (card, found)

    def _path(self, part: str) -> Path:
        return self.folder / f"{part}{SUFFIX}"


class ListedKeys:
    """The same of single sketches, as they list their keys themselves."""

    def __init__(self, *sketches: Sketch) -> None:
        self._lists = {
            part_id(part.keys_digest): listed_domain(sketch, number)
            for sketch in sketches
            for number, part in enumerate(sketch.header.key.parts if sketch.header.key else ())
        }

    def key_list(self, part: str) -> KeyDomain | None:
        return self._lists.get(part)

    def key_signature(self, part: str) -> tuple[DomainCard, np.ndarray] | None:
        return None
