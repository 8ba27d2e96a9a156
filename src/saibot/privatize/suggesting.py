"""What a table's columns may be, for the provider's own screen: from their names, and from rows that are looked at there.

Suggestions are shown and forgotten. A card says what its provider has said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from saibot.domains import KeyDomain, named_domain
from saibot.errors import SaibotError
from saibot.privatize.cells import texts_of
from saibot.privatize.read import Source

_INDIVIDUALS = [
    "id",
    "ids",
    "nr",
    "no",
    "num",
    "number",
    "pid",
    "uid",
    "uuid",
    "code",
    "person",
    "patient",
    "man",
    "woman",
    "user",
    "customer",
    "client",
    "member",
    "employee",
    "worker",
    "household",
    "hh",
    "respondent",
    "subject",
    "participant",
    "student",
    "pupil",
    "account",
    "case",
    "firm",
    "company",
    "owner",
    "driver",
    "donor",
    "voter",
    "taxpayer",
]
_VOCABULARIES = {  # words of a column's name, and the vocabularies that it may be spelled in
    ("country", "nation", "iso"): ("iso-country", "iso-country-alpha-3"),
    ("county", "fips"): ("us-county-fips", "us-state-fips"),
    ("state", "province"): ("us-state", "us-state-fips", "iso-subdivision"),
    ("subdivision", "region", "province"): ("iso-subdivision",),
    ("continent",): ("continent",),
    ("currency",): ("iso-currency",),
    ("language", "lang", "locale"): ("iso-language", "iso-language-alpha-3"),
    ("icd", "icd10", "diagnosis", "disease"): ("icd-10-cm",),
    ("nuts", "nuts1", "nuts2", "nuts3"): ("nuts-3", "nuts-2", "nuts-1"),
    ("hour",): ("hour-of-day",),
    ("weekday", "dow"): ("weekday",),
    ("month",): ("month-of-year",),
}
_TIMES = ("date", "day", "time", "timestamp", "week", "month", "year", "when", "at")
_SAMPLE = 100_000  # different cells of a column that are held against a vocabulary


def words_of(column: str) -> list[str]:
    """The words of a column's name: `homeCountry_code` has home, country and code."""
    return re.findall(r"[a-z]+[0-9]*|[0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", column).lower())


def names_individuals(column: str) -> bool:
    """Whether a column is called like one that tells individuals apart."""
    words = words_of(column)
    return any(word in _INDIVIDUALS for word in words) or column.lower().endswith("id")


def vocabularies_of(column: str) -> list[str]:
    """Ids of vocabularies that a column of this name may be spelled in."""
    words = set(words_of(column))
    return list(dict.fromkeys(id for names, ids in _VOCABULARIES.items() if words & set(names) for id in ids))


def times_of(column: str) -> bool:
    """Whether a column is called like a date or a time, whose days, weeks, months or years may be keys."""
    return bool(set(words_of(column)) & set(_TIMES))


def share_in(source: Source, column: str, domain: KeyDomain) -> float:
    """The share of a column's different cells that are keys of a domain. Reads rows: for the provider's own screen."""
    cells = source.fetch(source.table.select(c=source.table[column]).distinct().limit(_SAMPLE)).column("c")
    texts = [text for text in texts_of(cells.combine_chunks()) if text]
    return float((domain.places(texts) >= 0).mean()) if texts else 0.0


def suggested_vocabularies(source: Source, column: str) -> list[tuple[str, float]]:
    """Vocabularies by the name of a column, each with the share of its cells that are in it, the best first."""
    found = []
    for id in vocabularies_of(column):
        try:
            found.append((id, share_in(source, column, named_domain(id))))
        except SaibotError:  # its package is not installed
            continue
    return sorted(found, key=lambda one: -one[1])


def repeated(source: Source, columns: Sequence[str]) -> list[str]:
    """Columns called like ids in which a value comes more than once. Reads rows: for the provider's own screen."""
    called = [name for name in columns if names_individuals(name)]
    if not called:
        return []
    table = source.table
    counted = {f"d{i}": table[name].nunique() for i, name in enumerate(called)}
    counted |= {f"n{i}": table[name].count() for i, name in enumerate(called)}
    found = source.fetch(table.aggregate(**counted)).to_pylist()[0]
    return [name for i, name in enumerate(called) if found[f"d{i}"] < found[f"n{i}"]]
