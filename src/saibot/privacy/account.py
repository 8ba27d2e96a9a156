"""What is asked of a ledger and what it answers: a charge, an entry, a dataset's account. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from saibot.privacy.budget import Budget
from saibot.privacy.events import Event, Spent
from saibot.privacy.neighbours import Neighbours


@dataclass(frozen=True, slots=True)
class Charge:
    """What a release asks of the ledger. `source` and `release` are bytes that identify the rows and the whole request."""

    dataset: str
    neighbours: Neighbours
    cap: Budget | None
    asked: Budget
    events: tuple[Event, ...]
    source: bytes
    release: bytes
    new_version: bool = False


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

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "edition": self.edition,
            "asked": self.asked.to_json(),
            "events": [event.to_json() for event in self.events],
            "created": self.created,
            "digest": self.digest,
            "state": "released" if self.digest else "spent, nothing released",
        }


@dataclass(frozen=True, slots=True)
class Account:
    """A dataset's standing: its terms, its charges, and what they come to."""

    dataset: str
    neighbours: Neighbours
    cap: Budget
    entries: tuple[LedgerEntry, ...]

    @property
    def spent_epsilon(self) -> float:
        """Epsilon spent at the cap's delta."""
        return self._spent().epsilon_at(self.cap.delta)

    @property
    def left_epsilon(self) -> float:
        return max(float(self.cap.epsilon) - self.spent_epsilon, 0.0)

    def _spent(self) -> Spent:
        return Spent.of_releases([entry.events for entry in self.entries], self.cap)

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "neighbours": str(self.neighbours),
            "cap": self.cap.to_json(),
            "spent_epsilon": self.spent_epsilon,
            "left_epsilon": self.left_epsilon,
            "releases": [entry.to_json() for entry in self.entries],
        }
