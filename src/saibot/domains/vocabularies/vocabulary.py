"""What a shipped vocabulary is: a public key domain that everybody has who has the package that it is read from.

Its id and version mean one list of keys for good, which a digest pins. The keys themselves stay in the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version

from saibot.domains.domain import KeyDomain
from saibot.errors import InvalidDomain
from saibot.extras import how_to_install, how_to_install_package

Row = tuple[str, ...]
"""A key, then its parents, fine to coarse."""


@dataclass(frozen=True)
class Package:
    """Where keys are read from: a distribution, the edition of it that the digests are of, and who may use the data how."""

    name: str
    edition: str
    licence: str  # of the package
    source: str  # of the data
    data_licence: str


@dataclass(frozen=True)
class Vocabulary:
    """A key domain that ships, described without reading it. `domain` reads it.

    `levels` names the coarser levels, fine to coarse, and the vocabulary whose keys each has: two levels of one vocabulary
    are the same thing, and two vocabularies are not, whatever their keys look like.
    """

    id: str
    title: str
    size: int
    digest: str
    read: Callable[[], Iterable[Row]] = field(repr=False)
    levels: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[Package, ...] = ()
    version: int = 1
    names: Callable[[], Mapping[str, str]] | None = field(default=None, repr=False)  # what people call the keys
    domain_id: str = ""  # of a vocabulary that is a named range: the id that sketches say

    @cached_property
    def domain(self) -> KeyDomain:
        """The keys with all coarser levels on offer. Raises InvalidDomain where a package is missing or lists other keys."""
        try:
            rows = sorted(self.read()) if self.packages else list(self.read())
        except ImportError:
            names = " and ".join(package.name for package in self.packages)
            raise InvalidDomain(
                f"the key domain {self.id!r} is read from the package {names}, which is not installed.",
                hint=how_to_install("vocabularies"),
            ) from None
        keys, *parents = zip(*rows, strict=True)
        id, coarser = self.domain_id or self.id, dict(zip(self.levels, parents, strict=True))
        domain = KeyDomain.of(id, keys, version=self.version, parents=coarser)
        if domain.digest != self.digest:
            have = ", ".join(f"{package.name} {_installed(package.name)}" for package in self.packages)
            want = "' '".join(f"{package.name}=={package.edition}" for package in self.packages)
            raise InvalidDomain(
                f"the installed {have} lists other keys than version {self.version} of the key domain {self.id!r}.",
                hint=f"{how_to_install_package(want)}, or import a list of your own with `saibot domains import`.",
            )
        return domain


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(unknown version)"
