"""How to search, and what goes with a request's sketches to a platform.

An option has the same name and meaning in flags, in Python, over HTTP and in the engine. An option that a platform ignores
is refused, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from saibot.errors import InvalidInput
from saibot.wire.rankings import RANKINGS, checked_ranking, ranking_choices
from saibot.wire.shapes import Shape


def _offer_rankings(schema: dict[str, Any]) -> None:
    """Write the rankings into the schema when it is made: when this module is loaded they are not all known."""
    schema["enum"] = list(RANKINGS)
    schema["description"] = ranking_choices()


class InvalidOption(InvalidInput):
    """An option of a search with an invalid value. `field` is its name, or empty where options contradict each other."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}." if field else f"{reason}.")
        self.field, self.reason = field, reason

    @classmethod
    def of(cls, problem: ValidationError) -> InvalidOption:
        first = problem.errors(include_input=False, include_url=False)[0]
        said = str(first.get("ctx", {}).get("error", first["msg"][:1].lower() + first["msg"][1:]))
        return cls(str(first["loc"][0]) if first["loc"] else "", said.removesuffix("."))


ProviderName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
EngineName = Literal["auto", "threads", "gpu", "spark"]


class Options(Shape):
    """Options of a search that both a local search and a platform accept.

    `confidence` is of the whole search: a candidate is accepted if its gain is above 0 by a bound that accounts for all
    candidates. `ranking_quantile` is milder, for the order in which candidates are shown. `interval` is the confidence of
    the intervals that are shown, each for its candidate alone.
    """

    steps: int = Field(default=5, ge=1, description="Most augmentations to take.")
    strategy: Literal["greedy", "exhaustive"] = Field(
        default="greedy", description="Step by step, or every combination of joins; the latter for a few candidates only."
    )
    rank: Annotated[str, AfterValidator(checked_ranking), Field(json_schema_extra=_offer_rankings)] = "expected"
    confidence: float = Field(default=0.9, gt=0, lt=1, description="How sure an accepted gain must be, over all candidates.")
    interval: float = Field(default=0.9, gt=0, lt=1, description="Confidence of the intervals that are shown.")
    ranking_quantile: float = Field(
        default=2.0, ge=0, le=100, description="Errors that a gain is lowered by before candidates are ordered."
    )
    join: Literal["lookup", "many-to-many", "many-to-many-unbiased"] = Field(
        default="lookup",
        description="lookup: a provider's value for the key of each row; many-to-many: all pairs of rows with the same key; "
        "many-to-many-unbiased: the one table that both sides are taken to be columns of.",
    )
    joins: bool = Field(default=True, description="Whether to join columns.")
    unions: bool = Field(default=True, description="Whether to add rows of tables with the same columns.")
    shared: bool = Field(default=False, description="Offer what the tables of a key domain have in common as columns, too.")
    hops: bool = Field(default=False, description="Also datasets by another key that a dataset by both keys leads to.")
    whole_datasets: bool = Field(default=False, description="All features of a dataset are one candidate, scored together.")
    shown: int = Field(default=50, ge=1, description="Ranked candidates in the result.")
    providers: tuple[ProviderName, ...] = Field(
        default=(),
        max_length=100,
        description="Only datasets of these providers: accounts of the platform; in a folder, fingerprints of keys.",
    )
    verified: bool = Field(default=False, description="Only datasets of providers that an admin has verified.")

    if not TYPE_CHECKING:  # a custom __init__ would take the fields' types away

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as problem:
                raise InvalidOption.of(problem) from None

    @model_validator(mode="after")
    def _no_option_is_in_vain(self) -> Self:
        if self.strategy == "exhaustive" and not self.joins:
            raise ValueError("an exhaustive search tries combinations of joins: it cannot go without them")
        if self.strategy == "exhaustive" and self.join != "lookup":
            raise ValueError("many-to-many joins are searched step by step: an exhaustive search is of lookup joins")
        return self


class SearchOptions(Options):
    """Options of a search on one's own machine: all of `Options`, and those that only its owner can choose."""

    always_first: bool = Field(default=False, description="Take the best one candidate, whatever its bound.")
    gain: Literal["auto", "new", "known"] = Field(
        default="auto",
        description="Which rows a search at home ranks for: of new keys, or of known ones, beyond your own average per key. "
        "auto: new, where your rows have keys.",
    )
    engine: EngineName = Field(
        default="auto",
        description="Who scores candidates: threads of this machine, its GPU, or a Spark cluster. auto: a GPU, "
        "where there is one.",
    )
    master: str | None = Field(
        default=None, description="With engine spark: the cluster, spark://HOST:PORT; else Spark's own settings say."
    )

    @model_validator(mode="after")
    def _engine_can_do_it(self) -> Self:
        if self.master is not None and self.engine != "spark":
            raise ValueError("a master is the engine spark's")
        if self.engine == "gpu" and self.whole_datasets:
            raise ValueError("a GPU scores features one by one: whole datasets take the engine threads or spark")
        if self.engine in ("gpu", "spark") and (self.strategy == "exhaustive" or self.join != "lookup"):
            raise ValueError(f"the engine {self.engine} sweeps lookup joins, step by step: leave it out")
        return self

    @model_validator(mode="after")
    def _first_of_what_is_ranked(self) -> Self:
        if self.strategy == "exhaustive" and self.always_first:
            raise ValueError("an exhaustive search takes the best combination, not the best one candidate")
        return self


class Question(Options):
    """What is sent to a platform with the request's sketches: target, features and options."""

    steps: int = Field(default=5, ge=1, le=50, description=Options.model_fields["steps"].description)
    shown: int = Field(default=50, ge=1, le=1000, description=Options.model_fields["shown"].description)
    target: str = Field(min_length=1, max_length=200, description="The feature of the training sketch to be explained.")
    features: tuple[str, ...] | None = Field(default=None, max_length=1000, description="Own features; all but the target.")

    @classmethod
    def of(cls, options: SearchOptions, *, target: str, features: Sequence[str] | None = None) -> Question:
        """The question with these options. Options that platforms ignore must have their default values."""
        for name, field in SearchOptions.model_fields.items():
            if name not in Options.model_fields and getattr(options, name) != field.default:
                raise InvalidInput(
                    f"a platform does not take the option {name}: it chooses the engine, takes only what is clear of its "
                    "noise, and has no rows.",
                    hint="Leave it out, or search locally.",
                )
        shared = {name: getattr(options, name) for name in Options.model_fields}
        return cls(target=target, features=None if features is None else tuple(features), **shared)

    @classmethod
    def read(cls, text: str) -> Question:
        """From JSON."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as problem:  # it is no JSON, or no object
            raise InvalidOption.of(problem) from None

    @property
    def options(self) -> SearchOptions:
        """The options of this question, as the search takes them."""
        return SearchOptions(**{name: getattr(self, name) for name in Options.model_fields})

    def on(self, engine: EngineName, master: str | None = None) -> SearchOptions:
        """The same on a platform's engine; what that one cannot do is done by threads."""
        try:
            return self.options.but(engine=engine, master=master)
        except InvalidOption:
            return self.options.but(engine="threads")
