"""Which keys a table has, bought from the budget: individuals counted by key, and the keys whose noisy count is high enough.

The list that comes out is public. It is kept on this machine under the name that the card gives it, and whoever names it
again has it for nothing. Proof: ../privacy/mechanisms/found_keys.proof.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saibot.domains import OTHER, DomainRegistry, KeyDomain
from saibot.domains.domain import MAX_KEYS
from saibot.domains.finding import found_domain
from saibot.domains.spelling import shortest
from saibot.errors import InvalidInput, SaibotError
from saibot.privacy.budget import Budget, exact_decimal
from saibot.privacy.mechanisms import Plan
from saibot.privacy.mechanisms.found_keys import FindingPlan, keys_delta
from saibot.privatize.aggregate import Rows, kept_rows
from saibot.privatize.card import DomainFacts
from saibot.privatize.cells import individual_in, texts_of
from saibot.privatize.noise import NoiseSource, gaussian_measurement
from saibot.privatize.schema import KeyPartColumn, ReleaseKey

USUAL_SHARE = "0.2"  # of mu^2
LONGEST = 200  # letters of a key
_LARGEST = 1 << 61  # what a scaled count may be of 64 bits, noise besides


# ------------------------------------------------------------------------------------------------ the price


def share_of(facts: DomainFacts, *, lists: int = 1) -> Decimal:
    """The share of mu^2 that pays for finding the keys of a card; several lists divide the usual one."""
    return searching_share(facts.buy) if facts.buy is not None else Decimal(USUAL_SHARE) / lists


def searching_share(text: str) -> Decimal:
    share = exact_decimal(text, name="the share that finds keys")
    if not 0 < share < 1:
        raise InvalidInput(f"the share of the budget that finds keys is between 0 and 1, not {text}.")
    return share


def plan_to_find(whole: Plan, budget: Budget, *, share: Decimal, keys_each: int, lists: int = 1) -> FindingPlan:
    """How keys are found: a share of mu^2 of a plan that has the whole budget, and a part of the budget's delta."""
    assert whole.mu is not None
    mu = whole.mu * float(share) ** 0.5 * (1 - 1e-9)
    return FindingPlan(mu, keys_delta(budget, lists), keys_each, whole.request.neighbours)


def keys_each(facts: DomainFacts, rows_per_individual: int) -> int:
    """With how many keys an individual is counted: the card's number, or one for each row that is kept."""
    return min(facts.each or rows_per_individual, rows_per_individual)


def check_enough_individuals(plan: FindingPlan, part: KeyPartColumn, most: int) -> None:
    """Refuse to look for keys that no table of so many rows can show. `most` is public, or what the card declares."""
    assert part.to_find is not None
    usual = part.to_find.individuals
    if plan.least_individuals <= (most if usual is None else min(most, usual)):
        return
    has = f"the table has {most:,} rows at most" if usual is None or most < usual else f"usual ones have {usual:,}"
    raise InvalidInput(
        f"keys of {part.name!r} cannot be found at this price: it takes about {plan.least_individuals:,} individuals with "
        f"one key, and {has}.",
        hint="Give a public list of keys, a coarser key, a larger --epsilon or a larger share (buy).",
    )


# ------------------------------------------------------------------------------------------------ counting


@dataclass(frozen=True)
class KeyCounts:
    """How many individuals have each key. As sensitive as the rows."""

    keys: tuple[str, ...]
    individuals: np.ndarray


def count_individuals(rows: Rows, part: KeyPartColumn, *, each: int) -> KeyCounts:
    """Individuals by the normal text of their key, each with at most `each` different ones."""
    kept = kept_rows(rows)
    cell = kept[part.column]
    named = {"key": cell}
    if cell.type().is_string() and (spelling := rows.source.engine.spelling(cell)) is not None:
        named["spelling"] = spelling  # a column may compare texts without their case, and would give one for the other
    if rows.id_column is None:
        table = kept.select(**named)
        fetched = rows.source.fetch(table.group_by(list(named)).aggregate(n=ibis._.count()))
        texts, place = _normal_texts(fetched.column("key"))
        counts = np.zeros(len(texts), np.int64)
        np.add.at(counts, place, fetched.column("n").to_numpy().astype(np.int64))
        return _those_that_are_keys(texts, counts)
    named["individual"] = individual_in(kept[rows.id_column])
    fetched = rows.source.fetch(kept.select(**named).distinct())
    texts, place = _normal_texts(fetched.column("key"))
    ids = _encoded(fetched.column("individual"))
    pairs = np.unique(np.stack([ids.indices.to_numpy().astype(np.int64), place]), axis=1)
    pairs = pairs[:, [is_key(texts[key]) for key in pairs[1]]] if pairs.size else pairs
    chosen = _first_of_each(pairs, [shortest(one) for one in texts_of(ids.dictionary)], texts, rows.secret, each)
    return _those_that_are_keys(texts, np.bincount(chosen, minlength=len(texts)).astype(np.int64))


def is_key(text: str) -> bool:
    """Whether a text may be a key of a list: of a length to be read, without characters that command a terminal.

    NaN is none: it is a missing cell of a column of floats, of which somebody's word has made texts.
    """
    return bool(text) and text != OTHER and text.lower() != "nan" and len(text) <= LONGEST and text.isprintable()


def _normal_texts(column: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """The different texts of a column, and for every cell the place of its own."""
    encoded = _encoded(column)
    cells = [shortest(text) for text in texts_of(encoded.dictionary)]
    texts = list(dict.fromkeys(cells))
    place = {text: number for number, text in enumerate(texts)}
    places = np.array([place[text] for text in cells], np.int64)
    return texts, places[encoded.indices.to_numpy()] if len(cells) else np.zeros(0, np.int64)


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    return encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded


def _first_of_each(pairs: np.ndarray, ids: Sequence[str], texts: Sequence[str], secret: str, each: int) -> np.ndarray:
    """The keys of all individuals, of each the first few in the order of a keyed hash of individual and key."""
    individuals, keys = pairs if pairs.size else np.zeros((2, 0), np.int64)
    too_many = np.bincount(individuals, minlength=len(ids))[individuals] > each if len(individuals) else np.zeros(0, bool)
    kept = [keys[~too_many]]
    several: dict[int, list[tuple[bytes, int]]] = {}
    for individual, key in zip(individuals[too_many].tolist(), keys[too_many].tolist(), strict=True):
        told = f"{secret}\x1f{ids[individual]}\x1f{texts[key]}".encode()
        several.setdefault(individual, []).append((hashlib.sha256(told).digest(), key))
    kept += [np.array([key for _, key in sorted(found)[:each]], np.int64) for found in several.values()]
    return np.concatenate(kept)


def _those_that_are_keys(texts: Sequence[str], counts: np.ndarray) -> KeyCounts:
    chosen = [number for number, text in enumerate(texts) if is_key(text) and counts[number] > 0]
    return KeyCounts(tuple(texts[number] for number in chosen), counts[chosen])


# ------------------------------------------------------------------------------------------------ finding and keeping


def keys_above_threshold(counts: KeyCounts, plan: FindingPlan, noise: NoiseSource) -> list[str]:
    """The keys that are found: the one step with randomness. What it returns may be published."""
    if gaussian_measurement(plan.scale).map(plan.multiplier * plan.moved**0.5) > plan.mu**2 / 2 * (1 + 1e-9):
        raise SaibotError("internal: OpenDP's map does not confirm the search for keys; nothing was released.")
    scaled = np.minimum(counts.individuals, _LARGEST // plan.multiplier) * plan.multiplier
    noisy = noise.gaussian(scaled, plan.scale, lambda count: None)
    return [key for key, count in zip(counts.keys, noisy.tolist(), strict=True) if count > plan.threshold]


def search(rows: Rows, part: KeyPartColumn, plan: FindingPlan, noise: NoiseSource) -> KeyDomain | None:
    """The keys of a column that are found, which is none where no count is high enough."""
    facts = part.to_find
    assert facts is not None and facts.find is not None
    found = keys_above_threshold(count_individuals(rows, part, each=plan.keys_each), plan, noise)
    if len(found) > MAX_KEYS:
        raise InvalidInput(f"more than {MAX_KEYS:,} keys of {part.name!r} were found.", hint="Give a coarser key.")
    return KeyDomain.of_found(facts.find, found, version=facts.version) if found else None


def find_keys(rows: Rows, part: KeyPartColumn, plan: FindingPlan, noise: NoiseSource, home: Path) -> KeyDomain:
    """Find the keys of a column and keep the list on this machine."""
    facts = part.to_find
    assert facts is not None
    found = search(rows, part, plan, noise)
    if found is None:
        raise InvalidInput(
            f"no key of {part.name!r} was found: it takes about {plan.least_individuals:,} individuals with one key. "
            "What it cost is spent.",
            hint="Give a public list of keys, a coarser key, or a larger share (buy).",
        )
    if noise.simulated:  # an experiment's list is not one that others may be given
        return found
    kept = known_list(facts, home)  # or somebody else has found it meanwhile: one name means one list here
    if kept is None:
        DomainRegistry(home / "domains").register(found)
    return kept or found


def known_list(facts: DomainFacts, home: Path) -> KeyDomain | None:
    """The list that was found on this machine under the card's name and version, if there is one."""
    folder = home / "domains"
    assert facts.find is not None
    return found_domain(DomainRegistry(folder), facts.find, facts.version) if folder.is_dir() else None


def with_domain(key: ReleaseKey, domain: KeyDomain) -> ReleaseKey:
    """A key whose list was to be found, with the list."""
    (part,) = key.parts
    return replace(key, parts=(replace(part, domain=domain, to_find=None),))
