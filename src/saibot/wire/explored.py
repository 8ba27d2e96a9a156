"""What a result lets anyone look at beyond its ranking: what is left unexplained by key, other budgets, the fit on rows."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from saibot.wire.dataset import Cost
from saibot.wire.shapes import Shape
from saibot.wire.worth import CalibrationPoint, Span


class KeyResiduals(Shape):
    """The mean over each key's rows of target less prediction, in the target's unit: before any column was added, and after.

    Errors are standard deviations: of a private request what its noise leaves open, of rows the standard error of a mean.
    """

    key: str = Field(description="The part of the request's key that these are the keys of.")
    domain: str = Field(description="Id of the public list of them.")
    keys: tuple[str, ...]
    rows: tuple[float, ...] = Field(description="Of a private request as far as its noise lets anyone say.")
    before: tuple[float, ...] = Field(description="With own features alone; empty where that model is not known.")
    before_error: tuple[float, ...]
    after: tuple[float, ...]
    after_error: tuple[float, ...]
    left_out: int = Field(default=0, description="Keys of a very long list that stand out least.")

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        size = len(self.keys)
        if any(len(column) != size for column in (self.rows, self.after, self.after_error)):
            raise ValueError("residuals")
        if len(self.before) not in (0, size) or len(self.before_error) != len(self.before):
            raise ValueError("residuals")
        return self


class OtherBudgets(Shape):
    """A column as it would be if its provider had released it with another epsilon, one number for each."""

    name: str
    dataset: str
    digest: str
    taken: bool
    budget: Cost | None = Field(description="What it cost as it is. None of an open table.")
    kept: tuple[float | None, ...] = Field(
        description="Share of the true values' spread that the private ones would keep: of what raw values would explain."
    )
    kept_interval: tuple[Span | None, ...]
    kept_now: float | None
    gain: tuple[float | None, ...] = Field(description="In R²; None where too little is known of the values to say.")
    gain_interval: tuple[Span | None, ...]
    gain_now: float
    gain_interval_now: Span
    untold: str = Field(default="", description="Why nothing is said, where nothing is.")


class WhatIf(Shape):
    """The chosen columns, or the best that were not chosen, at other budgets; and a private request at others of its own.

    Everything is as it was but the size of the noise.
    """

    epsilons: tuple[float, ...]
    columns: tuple[OtherBudgets, ...]
    request: Cost | None = Field(default=None, description="What a private request's training sketch cost.")
    request_noise: tuple[float | None, ...] = Field(
        default=(), description="The size of its noise at these budgets, as a multiple of what it is."
    )

    @model_validator(mode="after")
    def _one_for_each_budget(self) -> Self:
        size = len(self.epsilons)
        for one in self.columns:
            lists: tuple[tuple[object, ...], ...] = (one.kept, one.kept_interval, one.gain, one.gain_interval)
            if any(len(column) not in (0, size) for column in lists):
                raise ValueError("what_if")
        if len(self.request_noise) not in (0, size):
            raise ValueError("what_if")
        return self


class PlotCell(Shape):
    """Rows whose prediction and target lie in one small square of the plane."""

    predicted: Span
    actual: Span
    rows: int


class ModelOnRows(Shape):
    """A model's predictions of rows: how good they are, and what it takes to draw them."""

    r2: float
    root_mean_square: float = Field(description="Of target less prediction, in the target's unit; so are the next two.")
    mean_absolute: float
    within: float = Field(description="Nine rows of ten are predicted at least so closely.")
    points: tuple[tuple[float, float], ...] = Field(description="Prediction and target of each row, where rows are few.")
    cells: tuple[PlotCell, ...] = Field(description="The same where they are many.")
    calibration: tuple[CalibrationPoint, ...]


class FitOnRows(Shape):
    """What a result's model says of rows of the requester's own. It is made on the requester's machine, and stays there."""

    which: str = Field(description="Which rows these are, for people.")
    rows: int
    before: ModelOnRows | None = Field(description="With own features alone.")
    after: ModelOnRows
    residuals: tuple[KeyResiduals, ...]
