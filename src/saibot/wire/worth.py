"""What a search's columns are worth to the requester, beside what it could have done alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from saibot.wire.shapes import Shape

Span = tuple[float, float]


class Judged(Shape):
    """A model on rows that it was not fitted on: the share of the loss that it explains, with an interval."""

    score: float = Field(description="R² of any number; of a yes-or-no target or a count the deviance explained.")
    interval: Span
    auc: float | None = Field(default=None, description="Of a yes-or-no target.")
    log_loss: float | None = Field(default=None, description="Of a yes-or-no target, per row.")


class Change(Shape):
    """How much better one model is than another on the same rows; the interval is of the difference."""

    score: float
    interval: Span

    @property
    def clear(self) -> bool:
        return self.interval[0] > 0


class Situation(Shape):
    """All models on the same rows: of keys that the requester has rows of, or of keys that it has never seen.

    `means` is the model with the requester's own average per key, which a new key does not have. `private` is the one with
    the columns that the search took, `both` the one with everything.
    """

    rows: int
    keys: int
    held_out: bool = Field(description="Whether these are rows that chose nothing, of the test table.")
    own: Judged
    means: Judged | None = None
    private: Judged | None = None
    both: Judged | None = None
    free: Change | None = Field(default=None, description="Of the own averages over the own features.")
    gain: Change | None = Field(default=None, description="Of the private columns over the own features.")
    beyond: Change | None = Field(default=None, description="Of the private columns over own features and own averages.")


class CalibrationPoint(Shape):
    """Rows with about the same predicted mean, and what they turned out to be."""

    predicted: float
    observed: float
    rows: int


class Worth(Shape):
    """The numbers that a requester decides by, computed on its own machine after the search."""

    measure: str
    model: str
    family: Literal["gaussian", "binomial", "poisson"] = "gaussian"
    key: str = Field(description="What a key is called, for people.")
    confidence: float
    known: Situation | None = Field(description="Rows of keys that training rows have, too.")
    new: Situation | None = Field(description="Rows of keys that no training row has.")
    sentence: str
    calibration: tuple[CalibrationPoint, ...] = ()
