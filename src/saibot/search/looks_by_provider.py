"""The correction for many looks, by provider: each provider has an equal share of what may be accepted by luck.

A search that looks at N useless candidates may take one by luck with probability alpha at most. Candidate i of provider p is
held to the level

    alpha_i = alpha * (share of p's class) / (providers of the class) / (candidates of p)

These add up to alpha, so the chance of any wrong gain is at most alpha, whatever the candidates have to do with each other
(mathematics.md, "Stopping"). How many candidates a provider publishes changes the levels of its own alone: five hundred
made-up features cost the other providers one share, not five hundred. Where some providers are verified and others are not,
the two classes have half each: accounts that anybody may open then cost verified ones a factor of two, however many.

Sketches whose provider nobody knows (a folder of unsigned ones) are one provider together: all of them share one share, as
N candidates without providers always did.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from saibot.errors import InvalidInput

if TYPE_CHECKING:
    from saibot.search.corpus import Corpus
    from saibot.wire import SearchOptions

LEAST_LETTERS = 8  # of a fingerprint that names a key


@dataclass(frozen=True)
class LooksByProvider:
    """How many candidates each provider has, by its number in the corpus, and which providers are verified."""

    candidates: Mapping[int, int]
    verified: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return sum(self.candidates.values())

    def and_of(self, providers: Iterable[int]) -> LooksByProvider:
        """With one more candidate of each of these."""
        counted = dict(self.candidates)
        for provider in providers:
            counted[provider] = counted.get(provider, 0) + 1
        return LooksByProvider(counted, self.verified)

    def levels(self, alpha: float) -> dict[int, float]:
        """What a candidate of each provider is held to."""
        there = [provider for provider, count in self.candidates.items() if count > 0]
        classes = [[p for p in there if p in self.verified], [p for p in there if p not in self.verified]]
        several = all(classes)
        return {
            provider: alpha / (2 if several else 1) / len(members) / self.candidates[provider]
            for members in classes
            for provider in members
        }


def chosen_providers(corpus: Corpus, options: SearchOptions) -> frozenset[int] | None:
    """The numbers of the providers that a search is limited to; None where it is not."""
    if not options.providers and not options.verified:
        return None
    there = corpus.sketches_of()
    chosen = {_named(name, there) for name in options.providers} if options.providers else set(there)
    if options.verified:
        if not corpus.verified & there.keys():
            raise InvalidInput(
                "no provider is verified here.",
                hint="An admin of a platform verifies providers; a folder has none: name keys with --provider.",
            )
        chosen &= corpus.verified
    return frozenset(corpus.provider_numbers[name] for name in chosen if name in corpus.provider_numbers)


def chosen_digests(corpus: Corpus, chosen: frozenset[int] | None) -> frozenset[str] | None:
    """The sketches of these providers."""
    if chosen is None:
        return None
    numbers = corpus.provider_numbers
    return frozenset(
        digest for name, digests in corpus.sketches_of().items() if numbers.get(name) in chosen for digest in digests
    )


def spread_out(order: Sequence[int], providers: Sequence[int], clear: Sequence[bool], most: int) -> list[int]:
    """The first `most` places of an order, in which no provider's unclear candidates take more than every other place.

    Where there are clear ones, one of these is first: of five hundred made-up features the luckiest may look better than any
    honest one, and is not what a search takes. Otherwise clear ones stay where they are. Candidates that nobody is known to
    be the provider of are not moved: all of a folder may be such.
    """
    left, unclear, chosen = list(order), dict[int, int](), list[int]()
    if left and providers[left[0]]:
        first = next((place for place in left if clear[place]), left[0])
        left.remove(first)
        left.insert(0, first)

    def may_come(place: int) -> bool:
        return clear[place] or not providers[place] or 2 * unclear.get(providers[place], 0) <= len(chosen)

    while left and len(chosen) < most:
        place = next(filter(may_come, left), left[0])  # the first of all where there is nobody else
        left.remove(place)
        chosen.append(place)
        if not clear[place]:
            unclear[providers[place]] = unclear.get(providers[place], 0) + 1
    return chosen


def counted(providers: np.ndarray, without: np.ndarray) -> dict[int, int]:
    """How many candidates each provider has, those at the places `without` left out."""
    kept = np.delete(providers, without) if len(without) else providers
    numbers, counts = np.unique(kept, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def added(counts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """The candidates of all parts together."""
    whole: dict[int, int] = {}
    for one in counts:
        for provider, count in one.items():
            whole[provider] = whole.get(provider, 0) + count
    return whole


def _named(name: str, there: Collection[str]) -> str:
    """A provider by its name, or by the first letters of its key's fingerprint."""
    if name in there:
        return name
    letters = name.casefold().replace(" ", "-")
    fits = [one for one in there if one and one.startswith(letters)] if len(letters) >= LEAST_LETTERS else []
    if len(fits) == 1:
        return fits[0]
    known = ", ".join(sorted(one for one in there if one)[:5])
    raise InvalidInput(
        f"no provider is called {name!r} here.",
        hint=f"There are {known}." if known else "Nobody has signed these sketches, so none of them has a provider.",
    )
