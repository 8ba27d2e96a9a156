"""The sets of keys that hold most of a given one, however they are named. Found by samples, then counted exactly.

Domains are public, so nothing has to rest on an estimate: the samples only say where to look. Sets are counted in the order
of what they might hold at most, until none of the rest can still be among the best.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from saibot.discover.domain_file import keys_at, names_of
from saibot.discover.domains import DomainSource
from saibot.discover.index import DOUBT, Answer, DomainIndex, Place
from saibot.discover.minhash import Containment
from saibot.errors import InvalidDomain
from saibot.sketch.domain import KeyDomain

PATIENCE = 20  # sets counted beyond the number asked for, before an uncertain answer is good enough


@dataclass(frozen=True)
class Match:
    """A set of keys that shares some with the question. `coverage`: of the question's keys; `precision`: of the set's."""

    places: tuple[Place, ...]
    size: int
    shared: int
    coverage: float
    estimate: Containment

    @property
    def precision(self) -> float:
        return self.shared / self.size

    def explain(self) -> str:
        others = f" and {len(self.places) - 1} more" if len(self.places) > 1 else ""
        return f"{self.places[0]}{others} holds {self.coverage:.1%} of the keys ({self.shared:,}; it has {self.size:,})"


@dataclass(frozen=True)
class Closest:
    """The best matches, best first, counted exactly.

    `rest`: no set that was not counted covers more than this share of the question, but with probability `doubt`. A question
    of few keys may have none among the sampled ones of a large set: then `rest` is large, and only counting can tell.
    """

    matches: tuple[Match, ...]
    rest: float
    counted: int

    @property
    def certain(self) -> bool:
        """Whether no set that was not counted can be better than the last of the matches."""
        return self.rest <= (self.matches[-1].coverage if self.matches else 0.0)


def closest(
    index: DomainIndex,
    source: DomainSource,
    keys: Collection[str],
    *,
    top: int = 10,
    thorough: bool = False,
    doubt: float = DOUBT,
) -> Closest:
    """The `top` sets with the largest share of these keys. `thorough` counts until that is certain, however long."""
    question = frozenset(keys)
    if not question or top < 1:
        return Closest((), 0.0, 0)
    answer = index.ask(question, doubt=doubt)
    found: list[Match] = []
    bar = 0.0  # what the last of the best covers
    left = np.ones(len(answer.numbers), bool)
    patience = top + PATIENCE
    for i in _order(answer, top, everything=thorough):
        if len(found) >= top and answer.upper[i] <= bar:
            if thorough:
                break  # and so are all that follow
            continue
        if not thorough and patience == 0:
            break
        patience -= 1
        left[i] = False
        match = _count(index, source, question, answer, i)
        if match is not None and match.shared:
            found.append(match)
            found.sort(key=lambda m: (-m.shared, m.size, m.places))
            bar = found[top - 1].coverage if len(found) >= top else 0.0
    rest = float(answer.upper[left].max(initial=0.0))
    return Closest(tuple(found[:top]), rest, int((~left).sum()))


def closest_to_domain(
    index: DomainIndex, source: DomainSource, domain: KeyDomain, *, top: int = 10, thorough: bool = False
) -> dict[str, Closest]:
    """For the keys of a domain ("") and of each coarser level, by its name: the closest sets elsewhere."""
    answers = {}
    for level, name in enumerate(names_of(domain)):
        found = closest(index, source, keys_at(domain, level), top=top + 1, thorough=thorough)
        own = Place(domain.id, domain.version, level, name)
        elsewhere = tuple(match for match in found.matches if match.places != (own,))
        answers[name] = Closest(elsewhere[:top], found.rest, found.counted)
    return answers


def _order(answer: Answer, top: int, *, everything: bool) -> list[int]:
    """The best estimates first. Where everything is asked, the best `top` of them, then by what a set might hold at most."""
    there = np.arange(len(answer.hits)) if everything else np.flatnonzero(answer.hits)
    # Half a hit more and half a miss more: few keys looked up, little trust.
    values = (answer.hits[there] + 0.5) / (answer.samples[there] + 1)
    best = there[np.lexsort((answer.sizes[there], -values))]
    if not everything:
        return [int(i) for i in best]
    first, rest = best[:top], best[top:]
    return [*map(int, first), *map(int, rest[np.argsort(-answer.upper[rest], kind="stable")])]


def _count(index: DomainIndex, source: DomainSource, question: frozenset[str], answer: Answer, i: int) -> Match | None:
    number = int(answer.numbers[i])
    places = index.places([number]).get(number, ())
    for place in places:
        try:
            domain = source.get(place.domain, place.version)
        except InvalidDomain:  # removed, or its file is damaged: another place may still have the keys
            continue
        if place.level <= len(domain.parents):
            held = keys_at(domain, place.level)
            shared = len(question.intersection(held))
            return Match(places, len(held), shared, shared / len(question), answer.containment(i))
    return None
