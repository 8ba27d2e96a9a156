"""A local request: exact moments of the requester's own tables. No noise, no budget, and nothing leaves the machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from saibot.client.domains import Domains, best_domains, doubt_of_guess
from saibot.client.families import GAUSSIAN
from saibot.client.judging import RequestRows
from saibot.client.keys import places_of, request_key
from saibot.client.own_columns import OwnFeature, all_usable, features_of, is_category, most_columns
from saibot.client.own_means import own_means
from saibot.client.own_model import OwnModel, own_model
from saibot.client.tables import column_names, key_codes, numbers, read_columns
from saibot.client.working import RowModelling
from saibot.domains.aligning import how_spelled, percent
from saibot.errors import InvalidInput, InvalidTable
from saibot.estimate.moments import exact_moments
from saibot.privatize.card import Card
from saibot.privatize.read import TableLike
from saibot.privatize.schema import resolve_key
from saibot.search import SearchRequest
from saibot.search.units import KeyColumn, Terms, Units
from saibot.sketch import Feature, KeyDomain
from saibot.wire.result import OwnColumn

Keys = Sequence[str] | Mapping[str, KeyDomain | str | None]
LARGEST = 1e300  # beyond, a column's mean may be no number


@dataclass(frozen=True)
class LocalRequest(SearchRequest):
    """A request that holds its own rows, too: what it finds is judged by them, and they stay here."""

    rows: RequestRows | None = field(default=None, repr=False, compare=False)
    model: OwnModel = field(default_factory=OwnModel)


OWN_AVERAGE = "own average"  # a feature of the base model where gains are for known keys; no column has this name alone


def with_own_average(request: LocalRequest) -> LocalRequest:
    """The request with the requester's own average per key among its own features: what candidates must add to.

    Only the search sees it. It is made fold by fold, as `saibot.client.own_means` says.
    """
    rows = request.rows
    if rows is None or request.key is None:
        return request
    rng = np.random.default_rng(0)
    column = own_means(rows.own, rows.target, rows.codes, len(request.key), ~rows.held_out, request.model.family, rng)
    scale = float(column[~rows.held_out].std()) or 1.0
    target = request.terms.units[request.target] if request.terms is not None else Units(0.0, 1.0)
    table = np.column_stack([rows.own, column / scale, (rows.target - target.offset) / target.scale])
    names = (*rows.names, OWN_AVERAGE, request.target)
    parts = [rows.held_out == held_out for held_out in (False, True)]
    moments = [exact_moments(names, table[part], rows.codes[part], len(request.key)) for part in parts]
    return replace(request, train=moments[0], test=moments[1] if request.test is not None else None, facts=())


@dataclass(frozen=True)
class _Values:
    """Own features and target of one table, rows without a target left out."""

    table: pa.Table
    columns: np.ndarray  # (n, m) in original units, NaN where missing; the target last
    without_target: int


def local_request(
    train: TableLike,
    *,
    target: str,
    keys: Keys = (),
    test: TableLike | None = None,
    features: Sequence[str] | None = None,
    card: Card | None = None,
    domains: Domains | None = None,
    model: Any = None,
    family: str | None = None,
    name: str = "request",
) -> LocalRequest:
    """A request from tables: paths, pandas, polars or Arrow.

    `keys` names key columns, or keys of the card; a mapping gives a column its domain, or the id of one. Otherwise the
    domain is the card's, or the one among `domains` that holds most of the column's values. Own features are those named,
    or those of the card, or all columns that can explain something; a category becomes a column for each of its frequent
    values. Rows without a target are left out; a missing feature takes its column's mean.

    `model` is what the target is modelled with: `linear`, `gbm`, `forest` or any scikit-learn regressor or classifier;
    `family` says whether the target is any number (`gaussian`), a yes or no (`binomial`) or a count (`poisson`).
    """
    chosen_model = own_model(model, family)
    known = domains or Domains(None)
    asked = keys if isinstance(keys, Mapping) else dict.fromkeys(keys)
    key_columns = [part.column for key in asked for part in _card_parts(key, card)]
    target_column = _column_of(target, card)
    columns = _feature_columns(target, features, card)
    unnamed = columns is None
    if columns is None:
        both = set(column_names(train)) & set(column_names(train if test is None else test))
        columns = {n: n for n in column_names(train) if n in both and n not in {target_column, *key_columns}}
    first, second = (
        None if table is None else _read(table, columns.values(), target_column, key_columns, which)
        for table, which in ((train, "training"), (test, "test"))
    )
    assert first is not None
    resolved, told = _resolve_keys(asked, card, known, first.table)
    key, codes = request_key(resolved, [part.table for part in (first, second) if part is not None])
    size = 1 if key is None else len(key)
    if unnamed:
        used = list(columns.values())
        chosen, sentence = all_usable(
            first.table.select(used),
            most_columns(size),
            target=numbers(first.table, target_column),
            test=None if second is None else second.table.select(used),
        )
        notes = [sentence]
    else:
        chosen, notes = _features(columns, first, card), []
    notes = told + notes
    own = {"training": _values(first, chosen, target_column)}
    if second is not None:
        own["test"] = _values(second, chosen, target_column)
    units = _units((*(one.name for one in chosen), target), own["training"])
    least_squares = chosen_model.linear and chosen_model.family is GAUSSIAN
    if not least_squares:
        for values in own.values():
            chosen_model.family.check(values.columns[:, -1])
        units[target] = Units(0.0, 1.0)  # its linear part has no other unit
        stands_for = "" if chosen_model.family is GAUSSIAN else f"; what is called R² is {chosen_model.family.measure}"
        notes.append(f"model: {chosen_model.name}, {chosen_model.family.name}{stands_for}")
    for which, values in own.items():
        if values.without_target:
            notes.append(f"{values.without_target:,} rows of the {which} table have no target and are left out")
    scaled = [_scaled(values, units) for values in own.values()]
    moments = [exact_moments(tuple(units), part, code, size) for part, code in zip(scaled, codes, strict=True)]
    rows = RequestRows(
        names=tuple(one.name for one in chosen),
        own=np.vstack([part[:, :-1] for part in scaled]),
        target=np.concatenate([values.columns[:, -1] for values in own.values()]),
        codes=np.concatenate(codes),
        held_out=np.repeat([False, True][: len(codes)], [len(code) for code in codes]),
    )
    return LocalRequest(
        train=moments[0],
        test=None if test is None else moments[1],
        target=target,
        key=key,
        name=name,
        facts=_facts(units, card),
        own=() if card is None else (card.dataset.name,),
        terms=Terms(
            units=units,
            features=tuple(
                OwnColumn(
                    name=one.name,
                    column=one.column,
                    missing=0.0 if one.level is not None else units[one.name].offset,
                    level=one.level,
                    unit="" if one.level is not None else _unit(one.name, card),
                )
                for one in chosen
            ),
            target_column=target_column,
            keys=tuple(resolved),
            notes=tuple(notes),
        ),
        rows=rows,
        model=chosen_model,
        modelling=None if least_squares else RowModelling(rows, chosen_model, target, size),
    )


# ------------------------------------------------------------------------------------------------ features


def _column_of(name: str, card: Card | None) -> str:
    """The column of a feature: the card's, or the one of that name."""
    facts = card.features if card is not None else {}
    return (facts[name].column or name) if name in facts else name


def _feature_columns(target: str, features: Sequence[str] | None, card: Card | None) -> dict[str, str] | None:
    """The column of every own feature that was named, or that the card has; None where nobody has said."""
    if features is None and card is None:
        return None
    listed = tuple(name for name in card.features if name != target) if card is not None else ()
    chosen = listed if features is None else tuple(features)
    if target in chosen:
        raise InvalidInput(f"the target {target!r} cannot be one of the features that explain it.")
    if len(set(chosen)) < len(chosen):
        raise InvalidInput("a feature is named twice.", hint="Name each feature once.")
    return {name: _column_of(name, card) for name in chosen}


def _read(table: TableLike, features: Collection[str], target: str, keys: Sequence[str], which: str) -> _Values:
    """The columns of one table, rows without a target left out; its own features are not numbers yet."""
    # From CSV keys are read as text, so that 01 stays 01; one that is a feature, too, has to be a number.
    text = [key for key in keys if key != target and key not in features]
    rows = read_columns(table, [*features, target, *keys], text=text)
    if not rows.num_rows:  # a column without cells has no type, and would be taken for text
        raise InvalidTable(f"the {which} table has columns and no rows.", hint="Check that the file is complete.")
    there = ~np.isnan(numbers(rows, target))
    if not there.any():
        raise InvalidTable(f"no row of the {which} table has a target.", hint="Name a column of numbers with --target.")
    return _Values(rows if there.all() else rows.filter(pa.array(there)), np.zeros((0, 0)), int((~there).sum()))


def _features(columns: Mapping[str, str], train: _Values, card: Card | None) -> list[OwnFeature]:
    """The named own features as columns of numbers."""
    found = []
    facts = card.features if card is not None else {}
    for name, column in columns.items():
        levels = facts[name].levels if name in facts else None
        made = features_of(name, train.table, column, levels)
        if not made and levels is None and is_category(train.table.column(column).type):
            raise InvalidTable(
                f"column {column!r} holds text of which no value is frequent, and a model needs numbers.",
                hint="Leave it out, or make it a column of numbers; a join column is named with --key.",
            )
        found += made
    return found


def _values(read: _Values, features: Sequence[OwnFeature], target: str) -> _Values:
    columns = [one.values(read.table) for one in features]
    return replace(read, columns=np.column_stack([*columns, numbers(read.table, target)]))


def _units(names: tuple[str, ...], values: _Values) -> dict[str, Units]:
    """Around their own means, in units of their own spread: neither a year nor a population drowns the rest."""
    found = {}
    for i, name in enumerate(names):
        column = values.columns[:, i]
        cells = column[~np.isnan(column)]
        if not len(cells):
            raise InvalidTable(f"feature {name!r} has no value in the training table.", hint="Leave it out.")
        if np.abs(cells).max() > LARGEST:
            raise InvalidTable(f"feature {name!r} has a value beyond {LARGEST:g}.", hint="Leave it out, or scale it.")
        mean = float(cells.mean())
        peak = float(np.abs(cells - mean).max())  # squares of the largest floats overflow, of the smallest vanish
        spread = peak * float(((cells - mean) / peak).std()) if peak > 0 else 0.0
        constant = spread <= 1e-12 * max(abs(mean), 1e-300)
        if constant and name == names[-1]:
            raise InvalidTable(
                "the target is the same in every row of the training table: there is nothing to explain.",
                hint="Name another column with --target.",
            )
        found[name] = Units(mean, max(1.0, abs(mean)) if constant else spread)
    return found


def _facts(units: dict[str, Units], card: Card | None) -> tuple[Feature, ...]:
    """What unions are matched by: names and units. The bounds only spell out the units that the moments are in."""
    try:
        return tuple(
            Feature(
                name=name,
                kind="numeric",
                lower=unit.offset - unit.scale,
                upper=unit.offset + unit.scale,
                unit=_unit(name, card),
            )
            for name, unit in units.items()
        )
    except ValidationError:  # a column whose name or size no sketch could have: there is no table to add
        return ()


def _unit(name: str, card: Card | None) -> str:
    return card.features[name].unit if card is not None and name in card.features else ""


def _scaled(values: _Values, units: dict[str, Units]) -> np.ndarray:
    offset = np.array([unit.offset for unit in units.values()])
    scale = np.array([unit.scale for unit in units.values()])
    scaled = (values.columns - offset) / scale
    return np.where(np.isnan(scaled), 0.0, scaled)


# ------------------------------------------------------------------------------------------------ keys


def _card_parts(name: str, card: Card | None) -> list[KeyColumn]:
    """A key of the card as its columns; a name that the card does not have is a column itself, its domain still open."""
    if card is None or name not in card.keys:
        return [KeyColumn(name, name, ())]
    found = resolve_key(card, name)
    assert found is not None
    return [KeyColumn(part.name, part.column, (part.domain,)) for part in found.parts]


def _resolve_keys(
    asked: Mapping[str, KeyDomain | str | None], card: Card | None, known: Domains, table: pa.Table
) -> tuple[list[KeyColumn], list[str]]:
    """Every key with its domains, and what to say about them. Fails only if no key has any."""
    found: dict[str, KeyColumn] = {}
    notes, reasons = [], []
    for name, given in asked.items():
        chosen = known.named(given) if isinstance(given, str) else given
        for part in _card_parts(name, card):
            codes, texts = key_codes(table, part.column)
            rows = np.bincount(codes, minlength=len(texts))
            column: KeyColumn | None = part if chosen is None else replace(part, domains=(chosen,))
            if column is not None and not column.domains:
                fits = known.fits(texts, rows)
                column = best_domains(part.name, part.column, fits)
                if column is None:
                    message = f"the values of column {part.column!r} are in no key domain of the corpus."
                    reasons.append((message, _why(fits, known)))
                    continue
            assert column is not None
            found[column.name] = column
            guessed = chosen is None and not part.domains
            notes += [_covered(column, domain, texts, rows, guessed=guessed) for domain in column.domains]
    if not asked:
        notes.append("no key was named, so nothing can be joined")
    if asked and not found:
        message, hint = reasons[0]
        raise InvalidInput(message, hint=hint)
    return list(found.values()), notes + [f"{message} {hint}" for message, hint in reasons]


def key_columns(table: TableLike, known: Domains, target: str) -> list[str]:
    """The columns by which something of the corpus can be joined, each with its key domain: those that are called like it
    first, then the best covered."""
    names = [name for name in column_names(table) if name != target]
    rows = read_columns(table, names, text=names)
    found = []
    for name in names:
        codes, texts = key_codes(rows, name)
        fits = [fit for fit in known.fits(texts, np.bincount(codes, minlength=len(texts))) if fit.opens]
        if fits:
            apart = name.casefold() not in fits[0].domain.id.casefold()
            found.append(
                (apart, -fits[0].coverage, f"{name} ({fits[0].domain.id} lists {percent(fits[0].coverage)} of its rows)")
            )
    return [told for *_, told in sorted(found)]


def _covered(column: KeyColumn, domain: KeyDomain, texts: Sequence[str], rows: np.ndarray, *, guessed: bool) -> str:
    places = places_of(texts, domain)
    share = int(rows[places < len(domain)].sum()) / max(int(rows.sum()), 1)
    note = f"key {column.name}: {domain.id} ({len(domain):,} keys) covers {percent(share)} of the rows"
    pairs = [(text, domain.values[place]) for text, place in zip(texts, places.tolist(), strict=True) if place < len(domain)]
    spelled = how_spelled([pair for pair in pairs if pair[0] != pair[1]]) if not domain.id.startswith("dates:") else ""
    note += f", whose keys it lists{spelled}" if spelled else ""
    note = note if share >= 0.5 else f"{note}; the others are looked up as outside its domain"
    question = doubt_of_guess(column, domain) if guessed else ""
    return f"{note}; {question}" if question else note


def _why(fits: Sequence[object], known: Domains) -> str:
    if fits:
        return "It is coarser than every key that providers have published: a request needs their key or a finer one."
    have = sorted({domain.id for domain in known.all})
    names = ", ".join(have[:4]) + (f" and {len(have) - 4} more" if len(have) > 4 else "")
    return (
        f"Its domains are {names}; give the column's own with --card." if have else "Give the column's domain with --card."
    )
