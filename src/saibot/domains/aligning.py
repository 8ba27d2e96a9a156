"""How two lists of keys meet: key by key, by their text, whatever their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saibot.domains.domain import KeyDomain


@dataclass(frozen=True)
class Alignment:
    """For each of our keys its place among theirs; their size where they do not have it."""

    places: np.ndarray
    size: int
    spelled: str = ""  # how some keys are written otherwise there, for people

    @property
    def shared(self) -> int:
        return int(np.count_nonzero(self.places < self.size))

    @property
    def share(self) -> float:
        """Of our keys, those that they have."""
        return self.shared / max(len(self.places), 1)

    def explain(self, ours: str, theirs: str) -> str:
        """`joined on 60 % of the keys of school-list (240 of 400), which short-list lists in another case`."""
        total = len(self.places)
        part = f"all {total:,} keys of {ours}" if self.shared == total else f"{percent(self.share)} of the keys of {ours}"
        counted = "" if self.shared == total else f" ({self.shared:,} of {total:,})"
        more = f" among {self.size - self.shared:,} others" if self.size > self.shared else ""
        order = "" if self.spelled or more or not self._reordered else " in another order"
        return f"joined on {part}{counted}, which {theirs} lists{more}{self.spelled}{order}"

    @property
    def _reordered(self) -> bool:
        found = self.places[self.places < self.size]
        return bool((np.diff(found) < 0).any())


def align(ours: Sequence[str], theirs: KeyDomain) -> Alignment:
    """One of ours meets one of theirs: the same text first, then another spelling where no other key could be meant."""
    return align_each([ours], theirs)[0]


def align_each(lists: Sequence[Sequence[str]], theirs: KeyDomain) -> list[Alignment]:
    """The same of several lists of ours, for which theirs is gone through once."""
    places = theirs.places([key for ours in lists for key in ours], once=True)
    ends = np.cumsum([len(ours) for ours in lists])[:-1]
    return [_aligned(ours, part, theirs) for ours, part in zip(lists, np.split(places, ends), strict=True)]


def _aligned(ours: Sequence[str], places: np.ndarray, theirs: KeyDomain) -> Alignment:
    same = np.array([place >= 0 and theirs.values[place] == key for key, place in zip(ours, places, strict=True)], bool)
    claims = np.bincount(places[places >= 0], minlength=len(theirs))
    clash = (places >= 0) & ~same & (claims[places] > 1)
    places = np.where(clash | (places < 0), len(theirs), places)
    met = zip(ours, same.tolist(), places.tolist(), strict=True)
    pairs = [(key, theirs.values[place]) for key, alike, place in met if not alike and place < len(theirs)]
    return Alignment(places, len(theirs), how_spelled(pairs))


def percent(share: float) -> str:
    """Never 0 % of something, never 100 % of less than all."""
    return f"{100 * share:.0f} %" if share in (0, 1) or 0.01 <= share <= 0.99 else f"{100 * share:.2f} %"


def how_spelled(pairs: Sequence[tuple[str, str]]) -> str:
    """In what the two texts of each pair differ, for people, with a blank in front; nothing of no pairs."""
    if not pairs:
        return ""
    if all(one.casefold() == other.casefold() for one, other in pairs):
        return " in another case"
    if all(one.casefold().lstrip("0") == other.casefold().lstrip("0") for one, other in pairs):
        return " with other zeros in front"
    return " in another spelling"
