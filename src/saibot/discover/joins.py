"""Which published lists of keys a request's own keys meet: the step that search, `saibot discover` and pages share.

Lists with the same keys in the same order have the same digest. Other lists are compared key by key, as text. A MinHash
signature excludes lists that share almost nothing without reading their keys; the rest are counted exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np

from saibot.domains import Alignment, DomainCard, KeyDomain, align_each, different, doubt, keys_digest
from saibot.domains.domain import range_name
from saibot.domains.meaning import bare_numbers
from saibot.domains.minhash import most_shared, signature
from saibot.domains.naming import domain_name

LEAST = 0.1  # share of the request's keys below which a list of keys counts as unrelated


def _short(id: str) -> str:
    """What a list of keys is called, without how they are written: that is told where it matters."""
    return domain_name(id).partition(" by ")[0]


def part_id(keys_digest: str) -> str:
    """A list of keys, as a corpus calls it."""
    return keys_digest[:32]


class KeyLists(Protocol):
    """Something that knows the keys behind the id of a list, such as a corpus."""

    def key_list(self, part: str) -> KeyDomain | None:
        """The keys themselves."""

    def key_signature(self, part: str) -> tuple[DomainCard, np.ndarray] | None:
        """What they are called, how many there are, and their signature; None where only the keys themselves can tell."""


@dataclass(frozen=True)
class OwnKeys:
    """A list of keys of the one who asks: a part of the key, or a coarser level of one."""

    label: tuple[str, str | None]
    name: str  # the domain's id, with the level
    keys: tuple[str, ...]
    part: str = ""  # its id, where it is a domain's
    told: str = ""  # what it is called, for people

    @classmethod
    def of(cls, name: str, domain: KeyDomain) -> list[OwnKeys]:
        """A part of the key and all its coarser levels, finest first."""
        levels = [(level, domain.with_levels([level]).level_values(1)) for level, _ in domain.parents]
        called = _short(domain.id)
        between = "." if called == domain.id else " by "
        coarser = [
            cls((name, level), f"{domain.id}.{level}", keys, part_id(keys_digest(keys)), f"{called}{between}{level}")
            for level, keys in levels
        ]
        return [cls((name, None), domain.id, domain.values, part_id(domain.keys_digest), called), *coarser]

    @cached_property
    def signature(self) -> np.ndarray:
        return signature(self.keys)

    @cached_property
    def bare(self) -> bool:
        return bare_numbers(self.keys)


@dataclass(frozen=True)
class Meeting:
    """One of the own lists, by its number, and how it lies in the other; None: it is the very same list."""

    own: int
    alignment: Alignment | None

    @property
    def share(self) -> float:
        return 1.0 if self.alignment is None else self.alignment.share


@dataclass(frozen=True)
class Joinable:
    """A key that the request's key leads to: what it is looked up with, and the share of the request's keys that it has."""

    labels: tuple[tuple[str, str | None], ...]
    share: float
    why: str


@dataclass(frozen=True)
class NotJoinable:
    reason: str


class Meetings:
    """`meet` finds for a list of keys the own lists that can be looked up in it, at most one for each part of the key."""

    def __init__(self, own: Sequence[OwnKeys], lists: KeyLists | None) -> None:
        self.own, self._lists = tuple(own), lists
        self._met: dict[str, tuple[Meeting, ...]] = {}
        self._strange: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def meet(self, part: str) -> tuple[Meeting, ...]:
        """For every part of the key, the identical list if there is one, else the level of it with the largest share."""
        if part not in self._met:
            found: dict[str, Meeting] = {}
            for number, own in enumerate(self.own):
                if own.part == part:
                    found.setdefault(own.label[0], Meeting(number, None))
            same = set(found)
            for meeting in self._aligned(part, same):
                name = self.own[meeting.own].label[0]
                if name not in found or found[name].share < meeting.share:
                    found[name] = meeting
            self._met[part] = tuple(found.values())
        return self._met[part]

    def why_not(self, part: str) -> str:
        """Why nothing meets a list, for people."""
        return self._strange.get(part, "its keys are not known here")

    def join(self, parts: Sequence[tuple[str, str]]) -> Joinable | NotJoinable:
        """Whether a key of these parts (digest of the keys, name of their domain) can be looked up with the own keys."""
        chosen: list[Meeting] = []
        reasons = []
        for digest, name in parts:
            part = part_id(digest)
            used = {self.own[meeting.own].label for meeting in chosen}
            free = [one for one in self.meet(part) if self.own[one.own].label not in used]
            if not free:
                missed = not self.meet(part)
                return NotJoinable(self.why_not(part) if missed else f"two of its parts would be {name}")
            chosen.append(max(free, key=lambda one: one.share))
            reasons.append(self.explain(chosen[-1], part, name))
        if not chosen:
            return NotJoinable("it has no key")
        labels = tuple(self.own[meeting.own].label for meeting in chosen)
        return Joinable(labels, prod(one.share for one in chosen), "; ".join(reasons))

    def explain(self, meeting: Meeting, part: str, name: str | None = None) -> str:
        """What the two have in common, for people; `name` is what the other list is called where it is published."""
        own = self.own[meeting.own]
        if meeting.alignment is None:
            told = f"joined on all {len(own.keys):,} keys of {own.told or own.name}"
        else:
            other = name or self._names.get(part)
            told = meeting.alignment.explain(own.told or own.name, "it" if other is None else _short(other))
        return "; ".join(filter(None, (told, self.doubt(meeting, part, name))))

    def doubt(self, meeting: Meeting, part: str, name: str | None = None) -> str:
        """What to ask oneself where both lists are bare numbers that nobody named; no text elsewhere.

        A list is shared by all who publish these keys, under whatever names; only a named range has one name for all.
        """
        own = self.own[meeting.own]
        if name is None:
            listed = own.name if meeting.alignment is None else self._names.get(part, "")
            name = listed if range_name(listed) is not None else ""
        return doubt(own.name, name, own.keys) if own.bare else ""

    def _aligned(self, part: str, same: set[str]) -> list[Meeting]:
        others = [(number, own) for number, own in enumerate(self.own) if own.label[0] not in same]
        if not others or self._lists is None:
            return []
        known = self._lists.key_signature(part)
        listed = self._lists.key_list(part) if known is None else None
        theirs = known[0].id if known is not None else listed.id if listed is not None else ""
        met: list[tuple[int, OwnKeys]] = []
        for number, own in others:
            if different(own.name, theirs):
                self._strange.setdefault(part, f"its keys are {_short(theirs)}, not {own.told or own.name}")
                continue
            if known is not None and most_shared(own.signature, len(own.keys), known[1], known[0].size) < self._least(own):
                few = f"few or none of the keys of {own.told or own.name} are among {_short(known[0].id)}"
                self._strange.setdefault(part, few)
                continue
            met.append((number, own))
        listed = (listed or self._lists.key_list(part)) if met else None
        if listed is None:
            return []
        self._names[part] = listed.id
        found, most = [], -1
        for (number, own), one in zip(met, align_each([own.keys for _, own in met], listed), strict=True):
            if one.shared >= self._least(own):
                found.append(Meeting(number, one))
            elif one.shared > most:
                most = one.shared
                some = f"{one.shared:,} of the {len(own.keys):,} keys of {own.told or own.name}"
                self._strange[part] = f"{some} are among {_short(listed.id)}"
        return found

    @staticmethod
    def _least(own: OwnKeys) -> float:
        return max(LEAST * len(own.keys), 1)
