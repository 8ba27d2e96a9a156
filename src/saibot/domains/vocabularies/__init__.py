"""Key vocabularies that ship: countries, regions, currencies, languages, diagnoses, hours. Read when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module

from saibot.domains.domain import KeyDomain
from saibot.domains.errors import UnknownDomain
from saibot.domains.vocabularies.vocabulary import Package, Vocabulary

__all__ = ["Package", "Vocabulary", "catalogue", "finer_lists", "key_names", "of_domain", "shipped", "vocabulary"]

FAMILIES = ("countries", "united_states", "nuts", "diseases", "clock")


@cache
def catalogue() -> dict[str, Vocabulary]:
    """All that ship, by id, described without reading their keys."""
    modules = [import_module(f"{__name__}.{family}") for family in FAMILIES]
    return {one.id: one for module in modules for one in module.VOCABULARIES}


def shipped(id: str, version: int | None = None) -> Vocabulary | None:
    """The vocabulary with this id and version, the only version there is where none is named."""
    found = catalogue().get(id)
    return found if found is not None and version in (None, found.version) else None


def of_domain(id: str) -> Vocabulary | None:
    """The vocabulary whose domain sketches name by this id: that of a named range is not its own id."""
    return next((one for one in catalogue().values() if id == (one.domain_id or one.id)), None)


def finer_lists(id: str) -> list[str]:
    """The domains of which a coarser level has these keys: counties, of states."""
    own = of_domain(id)
    every = catalogue().values() if own is not None else ()
    return [one.domain_id or one.id for one in every if own and own.id in one.levels.values() and one.size > own.size]


@lru_cache(100)
def key_names(id: str) -> Mapping[str, str]:
    """What people call the keys of a domain that ships: `TX` is Texas. Empty where no package says so."""
    found = of_domain(id)
    try:
        return found.names() if found is not None and found.names is not None else {}
    except ImportError:
        return {}


def vocabulary(id: str, version: int | None = None) -> KeyDomain:
    """The key domain of a shipped vocabulary with all its coarser levels: `vocabulary("iso-country")`."""
    found = shipped(id, version)
    if found is None:
        named = repr(id) if version is None else f"{id!r} version {version}"
        raise UnknownDomain(named, hint="`saibot domains list` shows those that ship with Saibot.")
    return found.domain
