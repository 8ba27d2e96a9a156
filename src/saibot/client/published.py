"""What a platform has published, on this machine: sketches by digest, and slices of the corpus to be searched at home.

Everything is cached by digest, so a sketch crosses the network once. A slice is brought up to date each time: what was
published since is added, what was withdrawn is gone from it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from saibot.client.answers import Progress, SliceItem
from saibot.client.cache import SketchCache
from saibot.client.errors import NotFound, PlatformError
from saibot.client.packing import Packed, pack_sketches
from saibot.client.platform import Platform
from saibot.discover.domains import DomainRegistry, generated_domain
from saibot.errors import InvalidDomain, InvalidInput
from saibot.search import Corpus
from saibot.sketch import KeyDomain, KeyPart, Sketch, read_sketch

AT_ONCE = 8  # downloads


class Published:
    """Sketches and key domains of one platform, from the cache where they are there. Gives a result its values."""

    def __init__(self, platform: Platform, cache: SketchCache | None = None) -> None:
        self.platform = platform
        self.cache = cache or SketchCache()
        self._place = hashlib.sha256(platform.url.encode()).hexdigest()[:16]

    # ---------------------------------------------------------------------------------- a source of values

    def sketch(self, digest: str) -> Sketch:
        """A published sketch; older versions can be had as long as their dataset is not withdrawn."""
        try:
            return read_sketch(self.cache.fetch(self.platform.wire, digest))
        except NotFound:
            raise NotFound(
                f"the platform has no sketch {digest[:12]}, and it was not downloaded before.",
                hint="Its provider may have withdrawn it: search again.",
                status=404,
            ) from None

    def domain(self, part: KeyPart) -> KeyDomain | None:
        """The domain of a sketch's key with its coarser levels, if its id spells it out or anyone registered it."""
        generated = generated_domain(part.domain)
        if generated is not None and generated.keys_digest == part.keys_digest:
            return generated
        known = self._registry.find(part.digest)
        if known is not None:
            return known
        try:
            found = self.platform.domain(part.domain, part.version)
        except NotFound:
            return None
        if found.digest != part.digest:
            return None
        with suppress(InvalidDomain):  # another one is cached under its name: this one still serves
            self._registry.register(found)
        return found

    # ---------------------------------------------------------------------------------- slices

    def corpus(
        self, domain: str | None = None, *, progress: Progress = lambda stage, part: None
    ) -> tuple[Corpus, tuple[str, ...]]:
        """The corpus, or the slice with one key domain, ready to be searched here; and what to know about it."""
        progress("asking what is published", None)
        items = {item.digest: item for item in self.platform.manifest(domain)}
        if not items:
            narrowed = f" with the key domain {domain!r}" if domain else ""
            raise InvalidInput(
                f"nothing is published at {self.platform.url}{narrowed}.", hint="`saibot datasets` lists what there is."
            )
        paths = self._download(items.values(), progress)
        folder = self.cache.folder / "slices" / f"{self._place}-{hashlib.sha256((domain or '').encode()).hexdigest()[:16]}"
        progress("packing", None)
        corpus, packed = self._packed(folder, paths)
        notes = [f"a sketch was passed over: {reason}" for _, reason in packed.refused]
        return corpus, (*notes, *packed.notes)

    def _download(self, items: Iterable[SliceItem], progress: Progress) -> dict[str, Path]:
        listed = list(items)
        missing = [item for item in listed if not self.cache.has(item.digest)]
        total, done = sum(item.bytes for item in missing), 0
        gone: set[str] = set()

        def fetch(item: SliceItem) -> SliceItem:
            try:
                self.cache.fetch(self.platform.wire, item.digest, expected=item.bytes)
            except NotFound:  # withdrawn since it was listed
                gone.add(item.digest)
            return item

        if missing:
            progress(f"downloading {len(missing)} sketches", 0.0)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for item in pool.map(fetch, missing):
                done += item.bytes
                progress(f"downloading {len(missing)} sketches", done / max(total, 1))
        return {item.digest: self.cache.path(item.digest) for item in listed if item.digest not in gone}

    def _packed(self, folder: Path, paths: dict[str, Path]) -> tuple[Corpus, Packed]:
        """The slice's corpus with exactly these sketches; one that cannot be brought up to date is made anew."""
        try:
            return self._updated(folder, paths)
        except (InvalidInput, OSError):
            shutil.rmtree(folder, ignore_errors=True)
            return self._updated(folder, paths)

    def _updated(self, folder: Path, paths: dict[str, Path]) -> tuple[Corpus, Packed]:
        corpus = Corpus(folder) if (folder / "index.json").exists() else Corpus.create(folder)
        known = set(corpus.digests)
        for digest in known - paths.keys():
            corpus.remove(digest)
        domains, stale = self._levels(corpus, paths)
        for digest in stale:
            corpus.remove(digest)
        new = [path for digest, path in paths.items() if digest not in known or digest in stale]
        return pack_sketches(folder, new, domains=domains) if new else (corpus, Packed())

    def _levels(self, corpus: Corpus, paths: dict[str, Path]) -> tuple[list[KeyDomain], set[str]]:
        """The domains that open coarser key levels, and the sketches that were packed before theirs was known."""
        registered = DomainRegistry(corpus.folder / "domains")
        before, packed = {card.digest for card in registered.entries()}, set(corpus.digests)
        found: dict[str, KeyDomain | None] = {}
        stale = set()
        for digest in paths:
            header = corpus.headers[digest] if digest in packed else read_sketch(paths[digest]).header
            if header.key is None or not header.key.levels or generated_domain(header.key.parts[0].domain) is not None:
                continue
            part = header.key.parts[0]
            if part.digest in before:
                continue
            if part.digest not in found:
                found[part.digest] = self._domain_or_none(part)
            if found[part.digest] is not None and digest in packed:
                stale.add(digest)
        return [domain for domain in found.values() if domain is not None], stale

    def _domain_or_none(self, part: KeyPart) -> KeyDomain | None:
        try:
            return self.domain(part)
        except (PlatformError, InvalidDomain):  # the keys are in the sketch; without their levels, values are less sharp
            return None

    @property
    def _registry(self) -> DomainRegistry:
        return DomainRegistry(self.cache.folder / "domains" / self._place)
