"""From a card to the columns of a release: which features, which key, which norm bound. Reads names and types, no rows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path

import ibis.expr.datatypes as dt

from saibot.domains import imported_domains, named_domain
from saibot.domains.domain import MAX_KEYS, KeyDomain
from saibot.domains.finding import found_domain
from saibot.domains.times import counts_days
from saibot.errors import InvalidCard, InvalidDomain, InvalidTable
from saibot.privatize.card import BoughtBounds, Card, DomainFacts, FeatureFacts
from saibot.privatize.domain_file import read_domain
from saibot.privatize.logarithms import log2_of
from saibot.sketch.header import Feature


@dataclass(frozen=True)
class Column:
    """A released feature and the table column it is computed from. Bounds may still have to be bought."""

    feature: Feature | None
    name: str
    column: str
    facts: FeatureFacts

    @property
    def to_buy(self) -> BoughtBounds | None:
        return self.facts.bounds if isinstance(self.facts.bounds, BoughtBounds) else None


@dataclass(frozen=True)
class KeyPartColumn:
    """One part of the key: its column and its public domain."""

    name: str
    column: str
    domain: KeyDomain  # where the list has yet to be found, one of a single key stands in for it
    dates: bool  # times of one day have one key
    to_find: DomainFacts | None = None


@dataclass(frozen=True)
class ReleaseKey:
    name: str
    parts: tuple[KeyPartColumn, ...]

    @property
    def to_find(self) -> KeyPartColumn | None:
        """The part whose keys have yet to be found in the rows."""
        return next((part for part in self.parts if part.to_find is not None), None)

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """Keys of every level, catch-all included, finest first."""
        if len(self.parts) > 1:
            size = 1
            for part in self.parts:
                size *= len(part.domain)
            return (size + 1,)
        domain = self.parts[0].domain
        return tuple(len(domain.level_values(level)) + 1 for level in range(1 + len(domain.level_names)))


def resolve_features(card: Card, chosen: tuple[str, ...]) -> list[Column]:
    """The chosen features (all when none are named) as columns; a categorical one becomes one indicator per level."""
    if len(set(chosen)) < len(chosen):
        raise InvalidCard("a feature is named twice.", hint="Name each feature once.")
    unknown = [name for name in chosen if name not in card.features]
    if unknown:
        raise InvalidCard(f"the card has no feature {unknown[0]!r}.", hint=f"It has {', '.join(card.features)}.")
    columns = []
    for name in chosen or tuple(card.features):
        facts = _in_logarithms(card.features[name])
        source = facts.column or name
        if facts.levels is not None:
            for level in facts.levels:
                feature = Feature(
                    name=f"{name}={level}", kind="indicator", lower=0.0, upper=1.0, unit=facts.unit, column=name, level=level
                )
                columns.append(Column(feature, feature.name, source, facts))
        elif isinstance(facts.bounds, BoughtBounds):
            columns.append(Column(None, name, source, facts))
        else:
            assert facts.bounds is not None
            columns.append(Column(numeric_feature(name, facts, *facts.bounds), name, source, facts))
    return columns


def _in_logarithms(facts: FeatureFacts) -> FeatureFacts:
    """The facts of a feature whose logarithm is released, in its units; those of others as they are."""
    if not facts.log:
        return facts

    def pair(ends: tuple[float, float]) -> tuple[float, float]:
        return twelve_digits(log2_of(ends[0])), twelve_digits(log2_of(ends[1]))

    bounds = facts.bounds
    if isinstance(bounds, BoughtBounds):
        bounds = bounds.model_copy(update={"range": None if bounds.range is None else pair(bounds.range)})
    elif bounds is not None:
        bounds = pair(bounds)
    missing = None if facts.missing is None else twelve_digits(log2_of(facts.missing))
    return facts.model_copy(update={"bounds": bounds, "missing": missing, "unit": f"log2 {facts.unit}".strip()})


def numeric_feature(name: str, facts: FeatureFacts, lower: float, upper: float) -> Feature:
    """A numeric feature; missing cells take the midpoint of its bounds unless the card says otherwise."""
    missing = facts.missing if facts.missing is not None else (lower + upper) / 2
    if not lower <= missing <= upper:
        raise InvalidCard(f"the missing value of feature {name!r} lies outside its bounds.")
    return Feature(name=name, kind="numeric", lower=lower, upper=upper, unit=facts.unit, missing=missing)


def twelve_digits(value: float) -> float:
    """A constant that was computed rather than declared, short enough to mean the same float in every engine."""
    return float(f"{value:.12g}")


def default_bound_squared(columns: list[Column]) -> Decimal:
    """Number of numeric plus number of categorical features: the box of all rows lies inside this ball."""
    return Decimal(card_features(columns))


def card_features(columns: list[Column]) -> int:
    """How many features of the card these columns come from; two of them may well read the same table column."""
    return len({column.feature.column if column.feature and column.feature.column else column.name for column in columns})


def check_names(
    columns: list[Column], key: ReleaseKey | None, id_column: str | None, schema: dict[str, dt.DataType]
) -> None:
    """Every column of the card is there."""
    wanted = [column.column for column in columns]
    wanted += [part.column for part in key.parts] if key else []
    wanted += [id_column] if id_column else []
    for name in wanted:
        if name not in schema:
            # Listed only where the card knows one of them: without a header line, they would be the first row's cells.
            known = any(other in schema for other in wanted)
            listed = f"It has {', '.join([*schema][:30])}{' and more' if len(schema) > 30 else ''}." if known else ""
            near = get_close_matches(name, list(schema), 1) if known else []
            meant = f"Did you mean {near[0]!r}? " if near else ""
            raise InvalidTable(
                f"the table has no column {name!r}.",
                hint=f"{meant}{listed}" or "`saibot init TABLE` writes a card with its columns.",
            )


def check_types(columns: list[Column], key: ReleaseKey | None, schema: dict[str, dt.DataType]) -> None:
    """What the table declares fits what the card needs of it. Says names and types, never a value.

    A column of text may hold numbers: which of its cells do is each cell's own matter, and no reason to refuse the others.
    """
    for part in key.parts if key else ():
        if schema[part.column].is_nested() or schema[part.column].is_interval():
            raise InvalidTable(
                f"key {part.name!r} needs single values, but column {part.column!r} holds {schema[part.column]}.",
                hint="Give each field that is a key a column of its own.",
            )
    for column in columns:
        kind = schema[column.column]
        if column.facts.levels is not None and not _has_one_spelling(kind):
            raise InvalidTable(
                f"feature {column.name.partition('=')[0]!r} has levels, but column {column.column!r} holds {kind}.",
                hint="Levels are texts, numbers, truths or dates: make it a column of those.",
            )
        if column.facts.levels is None and not (
            kind.is_numeric() or kind.is_boolean() or kind.is_string() or kind.is_null()
        ):
            raise InvalidTable(
                f"feature {column.name!r} needs numbers, but column {column.column!r} holds {kind}.",
                hint="Make it a column of numbers, or of texts that read as numbers.",
            )


def _has_one_spelling(kind: dt.DataType) -> bool:
    """Whether a cell can be compared with a level, which is text. Engines spell bytes, times and lists differently."""
    date = kind.is_date() or kind.is_timestamp()
    return bool(kind.is_numeric() or kind.is_boolean() or kind.is_string() or kind.is_null() or kind.is_uuid() or date)


def resolve_key(card: Card, name: str | None) -> ReleaseKey | None:
    if name is None:
        return None
    if name not in card.keys:
        have = ", ".join(card.keys) or "none"
        raise InvalidCard(f"the card has no key {name!r}.", hint=f"It has {have}; a key needs a public domain.")
    facts = card.keys[name]
    parts = tuple(_key_column(card, part, alone=facts.parts is None) for part in facts.parts or (name,))
    key = ReleaseKey(name, parts)
    if key.level_sizes[0] > MAX_KEYS + 1:
        raise InvalidDomain(f"the parts of key {name!r} have more than {MAX_KEYS:,} combinations.")
    return key


def _key_column(card: Card, name: str, *, alone: bool) -> KeyPartColumn:
    facts = card.keys[name]
    assert facts.domain is not None
    if alone and facts.domain.find is not None:
        standing_in = KeyDomain.of_found(facts.domain.find, ["?"], version=facts.domain.version)
        return KeyPartColumn(name, facts.column or name, standing_in, dates=False, to_find=facts.domain)
    domain = resolve_domain(facts.domain, card.folder).with_levels(facts.levels)
    listed = facts.domain.file is not None or facts.domain.values is not None
    return KeyPartColumn(name, facts.column or name, domain, dates=not listed and counts_days(domain.id))


def resolve_domain(facts: DomainFacts, folder: Path) -> KeyDomain:
    if facts.dates is not None:
        return KeyDomain.of_dates(*facts.dates)
    if facts.range is not None:
        return KeyDomain.of_range(*facts.range, of=facts.of)
    if facts.find is not None:
        return _found_before(facts.find, facts.version)
    assert facts.id is not None
    if facts.values is not None:
        return KeyDomain.of(facts.id, [str(value) for value in facts.values], version=facts.version)
    if facts.file is None:
        return named_domain(facts.id, facts.version)
    return read_domain(folder / facts.file, id=facts.id, version=facts.version)


def _found_before(name: str, version: int) -> KeyDomain:
    """A list that was found on this machine; a part of a composite key has to be found by itself first."""
    registry = imported_domains()
    found = None if registry is None else found_domain(registry, name, version)
    if found is None:
        raise InvalidDomain(
            f"the keys called {name!r} have not been found on this machine.",
            hint="`saibot privatize --key` with the key that finds them does, and pays for it.",
        )
    return found
