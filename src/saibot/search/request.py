"""What is asked: the moments of a training table, its target and its key."""

from __future__ import annotations

from dataclasses import dataclass

from saibot.errors import InvalidInput
from saibot.privacy import Neighbours
from saibot.search.key_maps import RequestKey
from saibot.search.units import Terms
from saibot.semiring import Moments
from saibot.sketch import Feature


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
