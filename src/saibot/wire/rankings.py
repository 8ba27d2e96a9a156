"""The ways to order candidates, by name. `saibot.search.rankings` enters them; flags, HTTP and pages offer what is here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Gain = Literal["gain", "potential", "expected"]


@dataclass(frozen=True)
class Ranking:
    """One way to order candidates: a sentence that explains it to people, and the function that does it.

    `sentence` follows the words "by the <name> gain:". `shows` is the number of an entry that it orders by, which people
    see; `first` says which candidates come first. `saibot.search.rankings` defines what `order` takes and returns.
    """

    name: str
    sentence: str
    order: Callable[..., Any]
    shows: Gain = "gain"
    first: str = "the surest"


RANKINGS: dict[str, Ranking] = {}


def register(ranking: Ranking) -> Ranking:
    """Offer a ranking everywhere. A name that is in use is refused, because results name their ranking."""
    if ranking.name in RANKINGS:
        raise ValueError(f"there is a ranking {ranking.name!r} already")
    RANKINGS[ranking.name] = ranking
    return ranking


def ranking_choices() -> str:
    """All of them with their sentences, for the help of a flag and for the HTTP interface."""
    return f"Which gain counts. {'; '.join(f'{one.name}: {one.sentence}' for one in RANKINGS.values())}."


def checked_ranking(name: str) -> str:
    """Return the name if it is a known ranking, else raise ValueError.

    Where `saibot.search` is not loaded no ranking is known: any name passes here, and the search checks it again.
    """
    if not RANKINGS or name in RANKINGS:
        return name
    *some, last = RANKINGS
    known = f"{', '.join(some)} or {last}" if some else last
    raise ValueError(f"candidates are ranked by their {known} gain, not by {name!r}")
