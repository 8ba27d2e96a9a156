"""What lies on this machine of what platforms have published. A source of values that asks nobody.

A search at home is used with this one. Everything that it could choose was fetched before it read a row, so that fetching
tells a platform nothing; asking it for one sketch afterwards would tell what the rows chose.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from saibot.client.cache import SketchCache
from saibot.domains import KnownDomains, NamedDomain
from saibot.domains.file import card_of, read_domain, write_domain
from saibot.domains.finding import shipped_vocabulary, spelled_out
from saibot.domains.registry import SUFFIX
from saibot.errors import InvalidDomain, InvalidInput
from saibot.safe_file import write_safely
from saibot.search.shared_factors import SharedFactors, read_factors
from saibot.sketch import KeyDomain, Sketch, read_sketch

HINT = (
    "`saibot search --local` again fetches all that is published and tells nothing of your rows. `saibot augment --fetch` "
    "(in Python, `source=Published(platform)`) asks for this alone, which tells the platform what was chosen."
)


class Kept:
    """`Kept()`: sketches and key domains in this machine's cache, both by digest."""

    def __init__(self, cache: SketchCache | None = None) -> None:
        self.cache = cache or SketchCache()

    def sketch(self, digest: str) -> Sketch:
        if not self.cache.has(digest):
            raise InvalidInput(f"the sketch {digest[:12]}, which the result uses, is not on this machine.", hint=HINT)
        return read_sketch(self.cache.path(digest))

    def factors_named(self, version: str) -> SharedFactors:
        """Shared factors of this version, if they were kept."""
        try:
            return read_factors(self._factors_path(version).read_bytes(), version)
        except OSError:
            raise InvalidInput(
                f"the shared factors {version[:12]}, which the result uses, are not here.", hint=HINT
            ) from None

    def keep_factors(self, content: bytes, version: str) -> SharedFactors:
        """Keep factors under their version. Raises InvalidInput for anything else."""
        found = read_factors(content, version)
        write_safely(self._factors_path(version), content)
        return found

    def domain(self, part: NamedDomain) -> KeyDomain | None:
        """The domain of a sketch's key with its coarser levels, if its id spells it out, it was kept, or it ships."""
        return KnownDomains((spelled_out, self._kept_domain, shipped_vocabulary)).find(part)

    def _kept_domain(self, part: NamedDomain) -> KeyDomain | None:
        path = self._domain_path(part.digest)
        try:
            _, found = read_domain(path.read_bytes(), name=path.name)
        except (InvalidDomain, OSError):  # absent, or damaged: it is fetched again where that is allowed
            return None
        # The digest is of keys and parents; two platforms may call the same domain by two names.
        return replace(found, id=part.domain, version=part.version) if found.digest == part.digest else None

    def keep_domain(self, domain: KeyDomain) -> None:
        """Keep a domain under its digest. Raises InvalidDomain for one that no file can hold."""
        write_safely(self._domain_path(domain.digest), write_domain(domain, card_of(domain)))

    def _factors_path(self, version: str) -> Path:
        if not re.fullmatch("[0-9a-f]{64}", version):  # it becomes a file name, and a platform may have written it
            raise InvalidInput("this is no version of shared factors: 64 hexadecimal digits.")
        return self.cache.folder / "factors" / f"{version}.arrow"

    def _domain_path(self, digest: str) -> Path:
        return self.cache.folder / "domains" / f"{digest}{SUFFIX}"
