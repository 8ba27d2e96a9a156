"""What is asked: the moments of a training table, its target and its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from saibot.errors import InvalidInput
from saibot.privacy import Neighbours
from saibot.privacy.mechanisms import Plan
from saibot.search.key_maps import RequestKey
from saibot.search.units import Terms
from saibot.semiring import Moments
from saibot.sketch import Feature


@dataclass(frozen=True)
class Working:
    """A model at its own fit, as least squares: (weighted) moments of own features and what is left to explain.

    `scale` is what a gain is a share of, in the moments' units; `train` and `test` the share of the loss explained so far.
    """

    moments: Moments
    scale: float
    train: float
    test: float | None


class Modelling(Protocol):
    """A model of the requester's that is not least squares, and that only its own rows can be fitted with."""

    def working(self, lookups: Sequence[np.ndarray]) -> Working:
        """The model refitted with these columns, each a value for every finest key."""

    def helps(self, values: np.ndarray, lookups: Sequence[np.ndarray], quantile: float) -> bool:
        """Whether columns explain what the model leaves, beside what own features say of them."""


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
    modelling: Modelling | None = field(default=None, repr=False, compare=False)  # None: least squares
    plan: Plan | None = field(default=None, repr=False, compare=False)  # of a private request's training sketch
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
