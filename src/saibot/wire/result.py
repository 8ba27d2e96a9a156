"""What a search found: one document, that a platform answers, that `saibot search --out` writes, and that is read back.

It is in the requester's own units and names sketches by digest: whoever holds it and can get at those sketches can join the
chosen values to rows and predict with the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from saibot.errors import InvalidInput
from saibot.wire.explored import KeyResiduals, WhatIf
from saibot.wire.provider import Flag, ProviderStanding
from saibot.wire.shapes import Shape
from saibot.wire.worth import Worth

FORMAT: Literal["saibot-result"] = "saibot-result"
VERSION: Literal[1] = 1
UNCLEAR = 0.5  # a held-out R2 whose interval is wider than this is not worth showing as a number
Pair = tuple[float, float]


class Identity(NamedTuple):
    """What identifies a candidate: sketch, feature, what it is joined on, and through which dataset."""

    digest: str
    feature: str | None
    key: tuple[tuple[str, str | None], ...]
    via: str | None


class KeyLevel(Shape):
    """A part of the request's key that something was joined on, at a coarser level of it if one is named."""

    part: str
    level: str | None


class Joined(Shape):
    """Something of a dataset, joined on parts of the request's key."""

    dataset: str
    digest: str = Field(min_length=1)
    key: tuple[KeyLevel, ...]
    via: str | None = Field(default=None, description="Digest of the dataset whose counts lead to it, one hop further.")

    @property
    def joined_on(self) -> tuple[tuple[str, str | None], ...]:
        return tuple((part.part, part.level) for part in self.key)

    @property
    def on(self) -> str:
        """What it is joined on, for people: `day`, `school.district`, or several with commas."""
        return ", ".join(part.part if part.level is None else f"{part.part}.{part.level}" for part in self.key)


class Entry(Joined):
    """A ranked candidate, scored by itself. Coefficients are in original units."""

    kind: Literal["join", "union", "many-to-many"]
    feature: str | None = Field(description="None for rows, and for several features taken together.")
    features: tuple[str, ...] = ()
    gain: float = Field(description="In R², with the private values as they are.")
    interval: Pair
    new_keys: float | None = Field(
        default=None,
        exclude_if=lambda gain: gain is None,
        description="The gain expected on keys that training never saw; of a search at home.",
    )
    potential: float | None = Field(
        default=None,
        description="What the provider's raw means would give; None where too little of the values is signal to say.",
    )
    potential_interval: Pair | None = None
    expected: float | None = Field(default=None, description="The best guess at the same, where that was ranked by.")
    coefficient: float | None
    coefficient_interval: Pair | None = None
    reliability: float | None = Field(description="How much of the values' spread is signal.")
    coverage: float | None = Field(default=None, description="Share of the request's rows whose key the provider has.")
    privacy_share: float | None = Field(default=None, description="Of the gain's error: the request's privacy noise.")
    rows: int | None
    note: str
    provider: str | None = Field(
        default=None,
        exclude_if=lambda name: name is None,
        description="Whose dataset it is; `providers` of the result tells more of it.",
    )
    signer: str | None = Field(
        default=None,
        exclude_if=lambda signer: signer is None,
        description="Fingerprint of the key that signed its sketch; none where nobody did.",
    )
    flags: tuple[Flag, ...] = Field(
        default=(), exclude_if=lambda flags: not flags, description="What is hard to believe of its sketch."
    )

    @property
    def identity(self) -> Identity:
        return Identity(self.digest, self.feature, self.joined_on, self.via)

    @property
    def what(self) -> str:
        """The feature, or all features that were taken together; nothing for rows."""
        return self.feature or ", ".join(self.features)

    @property
    def label(self) -> str:
        return f"rows of {self.dataset}" if self.kind == "union" else f"{self.dataset}.{self.what}"


class Measured(Shape):
    """R² of a model on the training part and on the held-out part, with the latter's interval where there is one."""

    train_r2: float
    test_r2: float | None
    test_interval: Pair | None = None

    @property
    def unclear(self) -> bool:
        """Whether the interval of the held-out R² is too wide for the number to mean anything."""
        return self.test_interval is not None and self.test_interval[1] - self.test_interval[0] > UNCLEAR


class Step(Entry, Measured):
    """An augmentation that was taken, and the model after it."""

    column: str
    columns: tuple[str, ...] = ()

    @property
    def added(self) -> str:
        """What the model got, for people."""
        return self.label if self.kind == "union" else self.column


class Dropped(Shape):
    """Candidates left aside for one reason: how many, and which for example."""

    reason: str
    count: int
    examples: tuple[str, ...]


class RowCounts(Shape):
    train: int
    test: int | None


class ListedDomain(Shape):
    """A public key domain. One whose id spells it out is named only; of others the keys are written down."""

    id: str
    version: int
    digest: str
    values: tuple[str, ...] | None = Field(default=None, exclude_if=lambda values: values is None)
    parents: dict[str, tuple[str, ...]] | None = Field(default=None, exclude_if=lambda parents: parents is None)


class KeyOfRequest(Shape):
    name: str
    column: str = Field(min_length=1)
    domains: tuple[ListedDomain, ...] = Field(min_length=1)


class NewColumn(Joined):
    """A new column: whose values, and how they were when they were chosen."""

    name: str = Field(min_length=1)
    feature: str = Field(min_length=1)
    unit: str = ""
    mean: float | None = None
    spread: float | None = None
    reliability: float | None = None
    factors: str | None = Field(
        default=None,
        exclude_if=lambda version: version is None,
        description="Version of the shared factors that helped these values; `VERSION@GROUP` for a provider's.",
    )


def _untold(text: str) -> bool:
    return not text


class TargetColumn(Shape):
    name: str
    column: str
    unit: str = Field(default="", exclude_if=_untold)


class OwnColumn(Shape):
    """How one of the request's own features is read from a table of raw rows."""

    name: str
    column: str
    missing: float
    lower: float | None = None
    upper: float | None = None
    level: str | None = None
    unit: str = Field(default="", exclude_if=_untold)


class Model(Shape):
    """A regression in original units: the one that the search ended with, or the one that it began with."""

    target: TargetColumn
    own: tuple[OwnColumn, ...]
    lookups: tuple[str, ...]
    coefficients: dict[str, float]
    intercept: float
    intervals: dict[str, Pair] = Field(
        default={},
        exclude_if=lambda intervals: not intervals,
        description="Of the coefficients, each by itself; those that noise leaves open are missing.",
    )
    intercept_interval: Pair | None = Field(default=None, exclude_if=lambda interval: interval is None)
    exact_intervals: dict[str, Pair] = Field(
        default={},
        exclude_if=lambda intervals: not intervals,
        description="Estimate and exact standard error of the coefficients; the intercept is called by an empty text.",
    )
    bounds: dict[str, Pair] = Field(
        default={},
        exclude_if=lambda bounds: not bounds,
        description="The paper's bound for all coefficients at once, of a private request; too wide on purpose.",
    )
    family: Literal["gaussian", "binomial", "poisson"] = Field(
        default="gaussian",
        exclude_if=lambda family: family == "gaussian",
        description="Of binomial the linear part is log odds, of poisson the logarithm of the mean.",
    )
    spreads: dict[str, float] = Field(
        default={},
        exclude_if=lambda spreads: not spreads,
        description="Standard deviation of each explaining column over the training rows.",
    )


def _unless_denied(said: object) -> bool:
    """True unless the document says False. Otherwise the choice counts as the requester's own and is sent to nobody."""
    return said is not False


class Result(Shape):
    """Base model, steps, ranking, what was dropped and why, and what it takes to use it."""

    format: Literal["saibot-result"] = FORMAT
    version: Literal[1] = VERSION
    request: str
    target: str
    private: bool
    base: Measured
    steps: tuple[Step, ...]
    ranked: tuple[Entry, ...]
    dropped: tuple[Dropped, ...] = ()
    candidates: int
    unions: int = Field(default=0, description="Of the candidates.")
    rank: str = "usable"
    join: str = Field(default="lookup", description="What a join is: a lookup, or all pairs of rows with the same key.")
    interval_confidence: float = Field(default=0.9, description="Of the intervals, each by itself.")
    stopped: str
    rows: RowCounts
    keys: tuple[KeyOfRequest, ...]
    columns: tuple[NewColumn, ...]
    model: Model | None
    base_model: Model | None = Field(
        default=None, exclude_if=lambda model: model is None, description="The regression on own features alone."
    )
    residuals: tuple[KeyResiduals, ...] = Field(
        default=(),
        exclude_if=lambda residuals: not residuals,
        description="Of a private request: what is left unexplained, by each part of its key, from its noisy sums.",
    )
    what_if: WhatIf | None = Field(
        default=None, exclude_if=lambda what_if: what_if is None, description="The same columns at other budgets."
    )
    notes: tuple[str, ...]
    platform: str | None = Field(default=None, description="Address of the platform that was searched, if one was.")
    at_home: Annotated[bool, BeforeValidator(_unless_denied)] = Field(
        default=True, description="Whether nobody but the requester knows what was chosen."
    )
    providers: tuple[ProviderStanding, ...] = Field(
        default=(),
        exclude_if=lambda providers: not providers,
        description="Of those whose datasets are ranked or taken.",
    )
    worth: Worth | None = Field(
        default=None,
        exclude_if=lambda worth: worth is None,
        description="What the columns are worth beside the requester's own means; of a search at home.",
    )

    @model_validator(mode="after")
    def _columns_have_their_keys(self) -> Self:
        known = {key.name for key in self.keys}
        if not {part.part for column in self.columns for part in column.key} <= known:
            raise ValueError("columns")
        return self

    @property
    def taken(self) -> dict[Identity, int]:
        """The step that took each candidate."""
        return {step.identity: number for number, step in enumerate(self.steps, start=1)}

    @property
    def named_providers(self) -> tuple[str, ...]:
        """Whose datasets are ranked or taken."""
        return tuple(dict.fromkeys(one.provider for one in (*self.steps, *self.ranked) if one.provider))

    def standing_of(self, entry: Entry) -> ProviderStanding | None:
        return next((one for one in self.providers if one.name == entry.provider), None)

    def text(self, indent: int | None = None) -> str:
        """As it is sent and saved."""
        between = (",", ":") if indent is None else None
        return json.dumps(self.to_json(), indent=indent, separators=between, ensure_ascii=False, allow_nan=False)

    @classmethod
    def read(cls, document: Result | Mapping[str, Any] | Any, name: str) -> Result:
        """Read and check a document; errors call it `name`. Fields that a later version added are ignored."""
        if isinstance(document, Result):
            return document
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise InvalidInput(f"{name} is no result of a search.", hint="`saibot search --out FILE` writes one.")
        if document.get("version") != VERSION:
            raise InvalidInput(f"{name} has another format version.", hint="`saibot search --out FILE` writes it anew.")
        try:
            return cls.model_validate(document, extra="ignore")
        except ValidationError as problem:
            place = problem.errors(include_input=False, include_url=False)[0]["loc"]
            field = place[0] if place else "columns"
            raise InvalidInput(
                f"the result {name} is damaged: its {field} cannot be read.",
                hint="`saibot search --out FILE` writes it anew.",
            ) from None
