"""The dataset card: every public fact about a table, written by its provider in one TOML file before any row is read."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from saibot.domains import normal_key
from saibot.domains.domain import RANGE_NAME
from saibot.errors import InvalidBudget, InvalidCard
from saibot.privacy.budget import Budget, exact_decimal
from saibot.privacy.neighbours import Neighbours
from saibot.privatize.blanks import unfilled
from saibot.sketch.header import LARGEST, SCALES, Label, Name, Short, Text

ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=200)]  # of the table, which no sketch tells


class CardPart(BaseModel):
    """Base of the card's parts: nothing unknown passes, so that a typo is an error and not a silent default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DatasetFacts(CardPart):
    """[dataset]: who the rows are about, and under which relation they are protected."""

    name: Name
    account: Name | None = None  # whose individuals these are: all datasets about them share one cap. Default: the name
    title: Text = ""
    description: Text = ""
    individual: Text = "one row"
    neighbours: Neighbours | None = None
    rows_per_individual: int = Field(default=1, ge=1, le=1000)
    id: ColumnName | None = None
    max_rows: int | None = Field(default=None, ge=1, le=1 << 40)

    @model_validator(mode="after")
    def _individuals(self) -> Self:
        if self.rows_per_individual > 1 and self.id is None:
            raise ValueError("rows_per_individual > 1 needs id, the column that tells individuals apart")
        return self


AUTO = "auto"


def decimal_text(value: Any) -> Any:
    """A number as the decimal that it is written as: 0.1 is "0.1", though the float is another number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Decimals = Annotated[str, BeforeValidator(decimal_text)]


def _is_share(text: str) -> bool:
    try:
        return 0 < exact_decimal(text, name="buy") < 1
    except InvalidBudget:
        return False


class BoughtBounds(CardPart):
    """bounds = { buy = "0.1" }: private quantiles, paid with this share of epsilon; "auto": a tenth, less if they are many.

    Quantiles are the quartiles of a feature that is looked up by key, and 5 and 95 % otherwise. A public `range` is where
    they are looked for; it does not clip.
    """

    buy: Decimals
    quantiles: tuple[float, float] | None = None
    range: tuple[FiniteFloat, FiniteFloat] | None = None

    @model_validator(mode="after")
    def _ranges(self) -> Self:
        if self.buy != AUTO and not _is_share(self.buy):
            raise ValueError("buy must be a share of the budget between 0 and 1, such as '0.1', or 'auto'")
        if self.quantiles is not None and not 0 <= self.quantiles[0] < self.quantiles[1] <= 1:
            raise ValueError("quantiles must be two fractions, the lower first")
        if self.range is not None:
            _check_pair("the range", *self.range)
            if self.range[1] - self.range[0] < 1e-4 * max(map(abs, self.range)):  # quantiles within it have twelve digits
                raise ValueError("the ends of the range are too close together for their size; shift the column towards 0")
        return self


def _check_pair(name: str, lower: float, upper: float) -> None:
    if not lower < upper:
        raise ValueError(f"{name} is upside down: the lower end comes first")
    if not SCALES[0] <= (upper - lower) / 2 <= SCALES[1] or max(abs(lower), abs(upper)) > LARGEST:
        raise ValueError(f"{name} is too large, or its ends too close together, for floating point numbers")


LOGARITHMS = (1e-6, 2e12)  # what bounds of a logarithm may lie between: within the range of `logarithms.py`


class FeatureFacts(CardPart):
    """[features.NAME]: a numeric column with bounds, or a categorical one with levels."""

    column: ColumnName | None = None
    bounds: tuple[FiniteFloat, FiniteFloat] | BoughtBounds | None = None
    levels: tuple[str, ...] | None = None
    unit: Short = ""
    missing: FiniteFloat | None = None
    log: bool = False  # the logarithm to base 2, by the rule of `logarithms.py`; bounds and missing are still the column's
    text: Literal["missing"] = "missing"  # what cells that are no numbers count as; cards of version 0.1 could refuse them

    @field_validator("text", mode="before")
    @classmethod
    def _never_refused(cls, text: Any) -> Any:
        if text == "refuse":
            raise ValueError("a cell that is no number counts as missing: refusing the table would tell that there is one")
        return text

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.bounds is None) == (self.levels is None):
            raise ValueError("a feature has bounds (a numeric column) or levels (a categorical one)")
        if isinstance(self.bounds, tuple):
            _check_pair("the pair of bounds", *self.bounds)
        if self.log:
            pair = self.bounds if isinstance(self.bounds, tuple) else self.bounds.range if self.bounds else None
            given = [*(pair or ()), *(() if self.missing is None else (self.missing,))]
            if self.levels is not None or any(not LOGARITHMS[0] <= number <= LOGARITHMS[1] for number in given):
                raise ValueError("log goes with numbers above 0: bounds and missing lie between 1e-6 and 2e12")
            if pair is not None and pair[1] - pair[0] < 1e-6 * pair[0]:
                raise ValueError("the bounds are too close together for a logarithm")
        if self.levels is not None:
            # Letters with their accents in one or in two parts are the same to a reader, and to us: a cell has one level.
            if not self.levels or len({*map(normal_key, self.levels)}) != len(self.levels) or len(self.levels) > 1000:
                raise ValueError("levels must be a list of 1 to 1000 different values, also without blanks around them")
            if any(not level or set(level) & set("*:=") for level in self.levels):
                raise ValueError("a level may not be empty nor contain '*', ':' or '='")
            if self.missing is not None:
                raise ValueError("missing goes with bounds; a missing category is no level at all")
        return self


class DomainFacts(CardPart):
    """domain = {...}: where the public list of keys comes from; an id alone names one that is known without a list."""

    file: str | None = None
    values: tuple[str | int, ...] | None = None
    dates: tuple[date, date] | None = None
    range: tuple[int, int] | None = None
    of: str | None = None  # what the numbers of a range count
    find: str | None = None  # nobody has a list: the keys are found in the rows, paid from the budget, and called this
    buy: Decimals | None = None  # with find: the share of mu^2 that pays for it
    each: int | None = Field(default=None, ge=1)  # with find: keys that one individual counts for; fewer need less noise
    individuals: int | None = Field(default=None, ge=1)  # with find: how many a usual key has, as far as is publicly known
    id: Label | None = None
    version: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in ("file", "values", "dates", "range", "find") if getattr(self, name) is not None]
        if len(given) > 1 or not (given or self.id):
            raise ValueError(
                "a domain is given by exactly one of file, values, dates, range or find, or by the id of a known one"
            )
        if self.of is not None and self.range is None:
            raise ValueError("of says what the numbers of a range count, and goes with range")
        if (self.file is not None or self.values is not None) and self.id is None:
            raise ValueError("a domain from a file or a list needs an id, such as 'nyc-dbn'")
        return self

    @model_validator(mode="after")
    def _found(self) -> Self:
        if self.find is None:
            if any(value is not None for value in (self.buy, self.each, self.individuals)):
                raise ValueError("buy, each and individuals go with find, for keys that are found in the rows")
            return self
        if not re.fullmatch(RANGE_NAME, self.find):
            raise ValueError("find names the keys in small letters, digits, dashes or underscores, such as 'city'")
        if self.id is not None:
            raise ValueError("keys that are found are called by find, and have no id of their own")
        if self.buy is not None and not _is_share(self.buy):
            raise ValueError("buy must be a share of the budget between 0 and 1, such as '0.2'")
        return self


class KeyFacts(CardPart):
    """[keys.NAME]: a column with its domain, or the combination of other keys."""

    column: ColumnName | None = None
    domain: DomainFacts | None = None
    levels: tuple[Label, ...] = ()
    parts: tuple[Label, ...] | None = None

    @field_validator("domain", mode="before")
    @classmethod
    def _named(cls, domain: Any) -> Any:
        return {"id": domain} if isinstance(domain, str) else domain

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.domain is None) == (self.parts is None):
            raise ValueError("a key has a domain (one column) or parts (names of other keys)")
        if self.parts is not None and (len(set(self.parts)) < max(len(self.parts), 2) or self.levels or self.column):
            raise ValueError("a composite key names at least two different other keys, and has neither column nor levels")
        if self.domain is not None and self.domain.find is not None and self.levels:
            raise ValueError("keys that are found have no coarser levels: nobody has said what these would be")
        return self


class BudgetFacts(CardPart):
    """[budget]: the cap on everything ever released about this dataset."""

    cap: dict[Literal["epsilon", "delta", "keys"], Decimals]

    @model_validator(mode="after")
    def _is_a_budget(self) -> Self:
        if "epsilon" not in self.cap:
            raise ValueError("the cap needs an epsilon")
        try:
            _ = self.limit
            if self.keys is not None and not 0 <= self.keys < self.limit.delta:
                raise ValueError("keys, the part of delta that is set aside for finding keys, must be less than delta")
        except InvalidBudget as problem:
            raise ValueError(problem.message.removesuffix(".")) from None
        return self

    @property
    def limit(self) -> Budget:
        return Budget(self.cap["epsilon"], self.cap.get("delta", "0"))

    @property
    def keys(self) -> Decimal | None:
        """What is set aside of delta for finding keys; None where the card does not say."""
        return exact_decimal(self.cap["keys"], name="keys") if "keys" in self.cap else None


class ComponentFacts(CardPart):
    """[component]: replace several numeric features by their principal components, whose directions are bought.

    All directions come from one purchase; each one that is kept is a feature of the release, and adds to its noise.
    """

    name: Label = "component"
    of: tuple[Label, ...] = Field(min_length=2)
    keep: int = Field(default=1, ge=1)  # directions, those with the largest spread; several are called component1, ...
    buy: Decimals = "0.2"
    spread: float = Field(default=1.5, gt=0, le=10)  # clip at this many (private) standard deviations

    @model_validator(mode="after")
    def _share(self) -> Self:
        if not _is_share(self.buy):
            raise ValueError("buy must be a share of the budget between 0 and 1, such as '0.2'")
        if self.keep > len(set(self.of)):
            raise ValueError(f"there are {len(set(self.of))} directions to keep, one for each feature, not {self.keep}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """What the features of the release are called."""
        return (self.name,) if self.keep == 1 else tuple(f"{self.name}{number}" for number in range(1, self.keep + 1))


class Card(CardPart):
    """A whole card. `Card.read(path)` or `Card.parse({...})`."""

    dataset: DatasetFacts
    budget: BudgetFacts | None = None
    features: Annotated[dict[Label, FeatureFacts], Field(min_length=1)]
    keys: dict[Label, KeyFacts] = Field(default_factory=dict)
    component: ComponentFacts | None = None
    folder: Path = Field(default=Path("."), exclude=True)  # relative domain files are found from here

    @model_validator(mode="after")
    def _names(self) -> Self:
        for name in (*self.features, *self.keys):
            if set(name) & set("*:="):
                raise ValueError(f"the name {name!r} may not contain '*', ':' or '='")
        if "1" in self.features:
            raise ValueError("a feature may not be called '1', which is the name of the count")
        for name, feature in self.features.items():
            if any(len(f"{name}={level}") > 200 for level in feature.levels or ()):
                raise ValueError(f"feature {name!r} has a level that is too long: with its name, at most 200 letters")
        for key, facts in self.keys.items():
            for part in facts.parts or ():
                if part not in self.keys or self.keys[part].parts is not None:
                    raise ValueError(f"key {key!r} names the part {part!r}, which is no simple key of this card")
        return self

    @classmethod
    def read(cls, path: Path) -> Card:
        try:
            text = path.read_text(encoding="utf-8")
            if blanks := unfilled(text):
                places = ", ".join(map(str, blanks[:8])) + (" and more" if len(blanks) > 8 else "")
                raise InvalidCard(
                    f"the card {path} still says FILL: line{'s' if len(blanks) > 1 else ''} {places}.",
                    hint="Write who an individual is, and public bounds or levels; remove what is not to be released.",
                )
            document = tomllib.loads(text)
        except FileNotFoundError:
            raise InvalidCard(f"there is no card {path}.", hint="`saibot init TABLE` writes a template.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
            raise InvalidCard(f"the card {path} is not readable TOML: {problem}.") from None
        if not document.get("features"):
            raise InvalidCard(
                f"the card {path} has no feature yet: no column would be released.",
                hint="Below [features], take the # off a line of each column to be released, and fill in bounds or levels.",
            )
        return cls.parse(document, folder=path.parent)

    def for_request(self, part: Literal["train", "test"]) -> Card:
        """The card of one part of a private request: a dataset of its own, on the account of the whole.

        Without key levels: a request is read at its finest keys only, so what coarser ones took of the budget would be lost.
        """
        account = self.dataset.account or self.dataset.name
        dataset = self.dataset.model_copy(update={"name": f"{self.dataset.name}-{part}", "account": account})
        keys = {name: facts.model_copy(update={"levels": ()}) for name, facts in self.keys.items()}
        return self.model_copy(update={"dataset": dataset, "keys": keys})

    @classmethod
    def parse(cls, document: dict[str, Any], *, folder: Path = Path(".")) -> Card:
        try:
            return cls.model_validate({**document, "folder": folder})
        except ValidationError as problem:
            message, hint = card_message(problem)
            raise InvalidCard(message, hint=hint) from None

    def with_feature(self, name: str, **facts: Any) -> Card:
        """With this feature, new or in place of the one of its name: `card.with_feature("age", bounds=(0, 100))`."""
        return self._edited("features", name, facts)

    def with_key(self, name: str, **facts: Any) -> Card:
        """With this key, new or in place of the one of its name: `card.with_key("day", domain="months:2013-01:2013-12")`."""
        return self._edited("keys", name, facts)

    def with_dataset(self, **facts: Any) -> Card:
        """With these facts of [dataset] in place of its own: `card.with_dataset(individual="one flight")`."""
        document = self.document()
        return Card.parse(document | {"dataset": document["dataset"] | facts}, folder=self.folder)

    def without(self, *names: str) -> Card:
        """Without these features or keys."""
        for name in names:
            if name not in self.features and name not in self.keys:
                known = ", ".join([*self.features, *self.keys])
                raise InvalidCard(f"the card has no feature or key {name!r}.", hint=f"It has {known}.")
        document = self.document()
        kept = {
            section: {name: facts for name, facts in document.get(section, {}).items() if name not in names}
            for section in ("features", "keys")
        }
        return Card.parse(document | kept, folder=self.folder)

    def document(self) -> dict[str, Any]:
        """The card as a plain document, as it would stand in its file."""
        return self.model_dump(mode="json", exclude_unset=True, exclude_none=True)

    def _edited(self, section: str, name: str, facts: dict[str, Any]) -> Card:
        document = self.document()
        return Card.parse(document | {section: document.get(section, {}) | {name: facts}}, folder=self.folder)


def card_message(problem: ValidationError) -> tuple[str, str | None]:
    """One line for the first thing wrong with a card, and what may have been meant. A card is public and may be quoted."""
    found = problem.errors(include_url=False)
    # Bounds are a pair or a table, and pydantic complains about both: what is wrong within the one that was meant says more.
    first = next((error for error in found if error["type"] not in ("tuple_type", "model_type")), found[0])
    first = next((error for error in found if error["type"] == "extra_forbidden"), first)  # what is missing is called so
    # Between the steps that a card has stand those of pydantic: which kind of bounds it tried.
    steps = [text for step in first["loc"] if not (text := str(step)).startswith(("tuple[", "function-", "BoughtBounds"))]
    place = ".".join(steps)
    if first["type"] == "extra_forbidden":
        fields = _fields_at(tuple(map(str, first["loc"][:-1])))
        near = get_close_matches(steps[-1], fields, 1, 0.5)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        return (
            f"the card has an unknown field at [{place}].",
            f"{hint}There are {', '.join(fields)}; see docs/reference/card.md.",
        )
    reason = first["msg"].removeprefix("Value error, ")
    is_one_of_two = steps[-2:-1] == ["bounds"] and steps[-1] in ("0", "1")
    pair = "Bounds are two numbers, the lower first: bounds = [0, 30]." if is_one_of_two else None
    return f"the card is not valid at [{place}]: {reason}." if place else f"the card is not valid: {reason}.", pair


def _fields_at(place: tuple[str, ...]) -> list[str]:
    """The fields that a place of a card can have."""
    part: type[CardPart] = Card
    match place:
        case ("dataset",):
            part = DatasetFacts
        case ("budget",):
            part = BudgetFacts
        case ("component",):
            part = ComponentFacts
        case ("features", _):
            part = FeatureFacts
        case ("features", _, "bounds", *_):
            part = BoughtBounds
        case ("keys", _):
            part = KeyFacts
        case ("keys", _, "domain"):
            part = DomainFacts
    return [name for name in part.model_fields if name != "folder"]
