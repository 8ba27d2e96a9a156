"""What is asked: the moments of a training table, its target, its key, and how far the search may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from saibot.errors import InvalidInput
from saibot.privacy import Neighbours
from saibot.search.terms import Terms
from saibot.search.views import RequestKey
from saibot.semiring import Moments
from saibot.sketch import Feature

Rank = Literal["usable", "potential", "expected"]
Join = Literal["lookup", "many-to-many", "many-to-many-unbiased"]


@dataclass(frozen=True)
class SearchRequest:
    """A request on the one code path of both ways to ask: `private` moments carry noise, local ones are exact."""

    train: Moments
    test: Moments | None
    target: str
    key: RequestKey | None
    name: str = "request"
    facts: tuple[Feature, ...] = ()  # kind, unit and bounds of the features in order: what unions are matched by
    neighbours: Neighbours | None = None  # the relation that protects a private request
    own: tuple[str, ...] = ()  # digests and names of the requester's own datasets, which are no candidates
    terms: Terms | None = None  # what the numbers mean to the one who asks; a document of the result needs it

    def __post_init__(self) -> None:
        self.train.position(self.target)
        if self.test is not None and set(self.test.features) != set(self.train.features):
            raise InvalidInput("the training and the test part do not have the same features.")
        if self.facts and tuple(fact.name for fact in self.facts) != self.train.features:
            raise InvalidInput("the request's facts do not fit its features.")
        if self.key is not None and len(self.key) != len(self.train.counts):
            raise InvalidInput("the request's statistics do not fit its key.")

    @property
    def private(self) -> bool:
        return not self.train.exact


@dataclass(frozen=True)
class SearchOptions:
    """How to search. The defaults are what most people want.

    `confidence` is of the whole search: a candidate is accepted if its gain is above 0 by a bound that accounts for all
    candidates. `ranking_quantile` is milder, for the order in which candidates are shown. `interval` is the confidence of
    the intervals that are shown, each for its candidate alone.

    `rank` says which gain counts: `usable`, what the private values give as they are; `potential`, what the provider's raw
    means would give (if they were bought, or trained on in a federation), by a bound that holds; `expected`, the best guess
    at the same, by which the best raw table is found most often. With `whole_datasets` all features of a dataset are one
    candidate, scored jointly.

    `join` says what a join is: `lookup` keeps the request's rows and adds a provider's value for their key; `many-to-many`
    is the paper's, all pairs of rows with the same key; `many-to-many-unbiased` estimates, from such a join, the one table
    that both sides are taken to be columns of.
    """

    most_steps: int = 5
    confidence: float = 0.9
    interval: float = 0.9
    ranking_quantile: float = 2.0
    rank: Rank = "usable"
    whole_datasets: bool = False
    always_first: bool = False  # the paper's single-dataset mode: take the best, whatever its bound
    join: Join = "lookup"
    joins: bool = True
    unions: bool = True
    hops: bool = False  # also datasets that another dataset's counts lead to
    shown: int = 50
    device: Literal["cpu", "cuda", "auto"] = "auto"

    def __post_init__(self) -> None:
        if self.most_steps < 1 or not 0 < self.confidence < 1 or self.shown < 1 or self.ranking_quantile < 0:
            raise InvalidInput("a search takes at least one step and a confidence between 0 and 1.")
        if not 0 < self.interval < 1:
            raise InvalidInput("the confidence of intervals is between 0 and 1.")
        if self.join not in get_args(Join):
            raise InvalidInput(f"joins are {', '.join(get_args(Join))}, not {self.join!r}.")
        if self.rank not in get_args(Rank):
            raise InvalidInput(f"candidates are ranked by their usable, potential or expected gain, not by {self.rank!r}.")
