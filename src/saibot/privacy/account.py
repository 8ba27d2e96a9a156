"""What is asked of a ledger and what it answers: a charge, an entry, an account of individuals. Plain values.

An account is about individuals, not about a file or a name: everything ever released about them comes out of its one cap. An
individual's total is composed of all releases of whole tables and, for each recorded split, of the releases of the one part
that the individual is in; the largest such part counts. Proof: mechanisms/accounts.proof.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any

from saibot.privacy.budget import Budget, plain
from saibot.privacy.events import Event, KeysEvent, Spent
from saibot.privacy.neighbours import Neighbours

MOST_COMBINATIONS = 1024  # of parts that one individual can be in; beyond, the largest of every split is taken


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of which split a release is about: no individual is in two parts of one split."""

    split: str
    part: str


@dataclass(frozen=True, slots=True)
class Charge:
    """What a release asks of the ledger. `source` identifies the rows for the provider's eyes; `release` the request alone.

    `unit` is the column that tells individuals apart, None where every row counts as one.
    """

    account: str
    dataset: str
    neighbours: Neighbours
    unit: str | None
    cap: Budget | None
    asked: Budget
    events: tuple[Event, ...]
    source: bytes
    release: bytes
    share: Share | None = None
    new_version: bool = False
    rows_per_individual: int = 1
    aside: Decimal | None = None  # of the cap's delta, for finding keys; None: what this charge takes, if it is the first
    once_for: str | None = None  # digest of what `release` is asked about; a second charge for that release is refused

    @property
    def set_aside(self) -> Decimal:
        """What a new account keeps of its delta for finding keys."""
        return Spent.of(self.events).delta if self.aside is None else self.aside

    def events_for(self, unit: str | None) -> tuple[Event, ...]:
        """What it costs an account with this unit. Proof: mechanisms/accounts.proof.md, lemma U.

        One row may be the change of two individuals: its old owner, who then keeps another row instead, and its new one. A
        release that bounds two rows of each covers that. One that keeps a single row of each does not, and counts double.
        Keys that are found have no price then: the two may bring one new key together.
        """
        if unit is not None or self.unit is None:
            return self.events
        if self.rows_per_individual > 1 and not any(isinstance(event, KeysEvent) for event in self.events):
            return self.events
        return tuple(event.doubled() for event in self.events)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One charge, with the digest of what it bought, or None if the release never finished."""

    number: int
    dataset: str
    edition: int
    asked: Budget
    events: tuple[Event, ...]
    created: str
    digest: str | None
    share: Share | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "dataset": self.dataset,
            "edition": self.edition,
            "split": self.share.split if self.share else None,
            "part": self.share.part if self.share else None,
            "asked": self.asked.to_json(),
            "events": [event.to_json() for event in self.events],
            "created": self.created,
            "digest": self.digest,
            "state": "released" if self.digest else "spent, nothing released",
        }


@dataclass(frozen=True, slots=True)
class Standing:
    """What a sketch says of its account: a name that only the ledger can tell, and the total of all releases so far."""

    account: str
    spent: Budget


Priced = tuple[Share | None, tuple[Event, ...]]  # of one release


def within(releases: Sequence[Priced], cap: Budget, aside: Decimal = Decimal(0)) -> bool:
    """Whether every individual's total stays within the cap, whichever parts of splits they are in.

    `aside` is the part of the cap's delta that finding keys may take, and nothing else.
    """
    totals = [Spent.of_releases(seen, cap, aside) for seen in _seen_by_individuals(releases)]
    return all(total.delta <= aside and total.within(cap, aside) for total in totals)


def epsilon_of(releases: Sequence[Priced], cap: Budget, aside: Decimal = Decimal(0)) -> float:
    """The largest total of any individual, as epsilon at the cap's delta."""
    return max(Spent.of_releases(seen, cap, aside).epsilon_at(cap.delta, aside) for seen in _seen_by_individuals(releases))


def _seen_by_individuals(releases: Sequence[Priced]) -> Iterator[list[tuple[Event, ...]]]:
    """What different individuals are in, in order: for each choice of one part per split, the releases that they see."""
    parts: dict[str, dict[str, None]] = {}
    for share, _ in releases:
        if share is not None:
            parts.setdefault(share.split, {})[share.part] = None
    combinations = 1
    for names in parts.values():
        combinations *= len(names)
    if combinations > MOST_COMBINATIONS:  # as if everybody were in all parts: more than anybody's total
        yield [events for _, events in releases]
        return
    for choice in product(*parts.values()):
        chosen = dict(zip(parts, choice, strict=True))
        yield [events for share, events in releases if share is None or chosen[share.split] == share.part]


@dataclass(frozen=True, slots=True)
class LedgerAccount:
    """The standing of some individuals: their terms, all charges about them, and what those come to."""

    name: str
    neighbours: Neighbours
    unit: str | None
    cap: Budget
    aside: Decimal  # of the cap's delta, for finding keys: it counts as spent from the first release on
    entries: tuple[LedgerEntry, ...]

    @property
    def spent_epsilon(self) -> float:
        """The largest total of any individual: epsilon at the cap's delta."""
        return epsilon_of([(entry.share, entry.events) for entry in self.entries], self.cap, self.aside)

    @property
    def left_epsilon(self) -> float:
        return max(float(self.cap.epsilon) - self.spent_epsilon, 0.0)

    def to_json(self) -> dict[str, Any]:
        return {
            "account": self.name,
            "dataset": self.name,
            "neighbours": str(self.neighbours),
            "unit": self.unit or "row",
            "cap": self.cap.to_json() | ({"keys": plain(self.aside)} if self.aside else {}),
            "spent_epsilon": self.spent_epsilon,
            "left_epsilon": self.left_epsilon,
            "releases": [entry.to_json() for entry in self.entries],
        }
