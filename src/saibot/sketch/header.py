"""What a sketch says about itself. Every field is public or was paid for; unknown fields are refused.

Version 2 added the fields of `ADDED_BY_2`. A header of version 1 has none of them, and is read and written as it was.
"""

from __future__ import annotations

import json
from datetime import date
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    StringConstraints,
    field_validator,
    model_serializer,
    model_validator,
)

from saibot.errors import InvalidSketch, SaibotError
from saibot.privacy.budget import Budget, exact_decimal
from saibot.privacy.events import Spent
from saibot.privacy.mechanisms import Plan, PlanRequest, confirmed
from saibot.privacy.mechanisms.plan import Block
from saibot.privacy.neighbours import Neighbours
from saibot.sketch.allowed import MAX_FEATURES, MAX_GLOBAL_ENTRIES, MAX_KEY_PARTS, MAX_LEVELS, MAX_ORDER, MAX_STEPS
from saibot.sketch.exact import check_open_header

FORMAT: Final = "saibot-sketch"
VERSION: Final = 2  # what is written
READABLE: Final = (1, 2)
ADDED_BY_2: Final = frozenset({"types", "open", "source", "account", "spent", "signature"})

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Text = Annotated[str, StringConstraints(max_length=2000)]
# What commands a terminal. Heads of tables have tabs and line ends in them: whoever shows a label makes it one line.
COMMANDING: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
Label = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=rf"^[^{COMMANDING}]+$")]
Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Whole = Annotated[int, Field(ge=0, lt=2**63)]  # what databases and columns of integers can hold
Counting = Annotated[int, Field(ge=1, lt=2**63)]
TypeName = Literal["numeric", "integer", "truth", "category", "text", "date", "time"]
# As numbers are written, and no longer: a Decimal reads "1" with a million blanks or underscores as 1, too.
Decimals = Annotated[str, StringConstraints(max_length=80, pattern=r"^[+-]?[0-9.]+([eE][+-]?[0-9]+)?$")]
Price = dict[Literal["epsilon", "delta"], Decimals]
Short = Annotated[str, StringConstraints(max_length=100)]
LARGEST: Final = 1e20  # of a bound, in its unit
SCALES: Final = (1 / LARGEST, LARGEST)  # fourth powers of the quotient of two scales, times a count, are still numbers


class Part(BaseModel):
    """Base of all header parts: frozen, strict, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class TableFacts(Part):
    """What the provider wants people to know about the table.

    The name is the table's identity: sketches of one provider with one name are of one table, whatever key each is by.
    """

    name: Name
    title: Text = ""
    description: Text = ""
    individual: Text = "one row"


class Feature(Part):
    """One column of statistics. Sketches hold scaled units: `scaled = (original - offset) / scale`."""

    name: Label
    kind: Literal["numeric", "indicator", "component"]
    lower: FiniteFloat  # public bounds in original units; values beyond were clipped
    upper: FiniteFloat
    unit: Short = ""
    missing: FiniteFloat | None = None  # the fixed value that missing cells took, original units
    column: Label | None = None  # for an indicator: the categorical column it belongs to
    level: Text | None = None  # for an indicator: its value
    weights: dict[Label, FiniteFloat] | None = Field(
        default=None, max_length=MAX_FEATURES
    )  # for a component: weights on the scaled features it was made of

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"feature {self.name!r} has bounds upside down")
        # Bounds may be numbers while what is computed from them is not: their sum overflows, their distance is next to 0.
        if not SCALES[0] <= self.scale <= SCALES[1] or max(abs(self.lower), abs(self.upper)) > LARGEST:
            raise ValueError(f"feature {self.name!r} has bounds too large, or too close together")
        return self

    @property
    def offset(self) -> float:
        return 0.0 if self.kind == "indicator" else (self.lower + self.upper) / 2

    @property
    def scale(self) -> float:
        return 1.0 if self.kind == "indicator" else (self.upper - self.lower) / 2


class KeyPart(Part):
    """One part of the key and the public domain its values come from."""

    name: Label
    domain: Label
    version: Counting
    size: Counting
    digest: Hex  # of the domain with all its parents
    keys_digest: Hex  # of its keys alone: what joins


class Key(Part):
    """The join key: one part, or several for a composite key; nested coarser levels for a single one."""

    name: Label
    parts: tuple[KeyPart, ...] = Field(min_length=1, max_length=MAX_KEY_PARTS)
    levels: tuple[Label, ...] = Field(default=(), max_length=MAX_LEVELS)

    @model_validator(mode="after")
    def _levels(self) -> Self:
        if self.levels and len(self.parts) > 1:
            raise ValueError("a composite key has no coarser levels")
        return self


class Preparation(Part):
    """How rows were made ready. `bought` steps were paid from the budget; `nonprivate` ones were not paid at all.

    `tuned`: the card was changed after its provider had seen what the rows say about another one, and not paid for that.
    """

    kind: Literal["public", "bought", "tuned", "nonprivate"]
    steps: tuple[Text, ...] = Field(default=(), max_length=MAX_STEPS)


class Assumptions(Part):
    """What the guarantee rests on beyond the code. Shown to people."""

    rows_per_individual: int = Field(ge=1)
    row_count_public: bool
    key_domain_public: bool
    bounds_public: bool
    noise: Literal["exact-integer", "simulated", "none"]


class Types(Part):
    """The types that the card declares, by the names that it gives to features and to parts of keys."""

    features: dict[Label, TypeName] = Field(default_factory=dict, max_length=MAX_FEATURES)
    keys: dict[Label, TypeName] = Field(default_factory=dict, max_length=MAX_KEY_PARTS)


class Signature(Part):
    """Who vouches for the digest, and so for everything else: see `saibot.sketch.signing`. One of an unknown scheme is kept
    as it is, and counts as none."""

    scheme: Name
    signer: Label
    value: Text


class GlobalBlock(Part):
    """Statistics of the whole table of one order, packed as in the basis."""

    order: int = Field(ge=0, le=MAX_ORDER)
    values: tuple[FiniteFloat, ...] = Field(max_length=MAX_GLOBAL_ENTRIES)


class Header(Part):
    """Everything in a sketch file but the per-key columns."""

    format: Literal["saibot-sketch"] = FORMAT
    version: Literal[1, 2] = VERSION
    dataset: TableFacts
    edition: Counting = 1
    features: tuple[Feature, ...] = Field(min_length=1, max_length=MAX_FEATURES)
    key: Key | None
    budget: Price  # of the whole release, bought preparation included
    neighbours: Neighbours = Field(strict=False)
    invariants: dict[Literal["rows"], Whole]  # public under the neighbouring relation: n, or nothing
    bound_squared: Decimals
    plan: dict[str, Any]
    grid_bits: int = Field(ge=1, le=15)
    model: Literal["central", "local"] = "central"
    preparation: Preparation
    assumptions: Assumptions
    simulation: bool
    global_blocks: tuple[GlobalBlock, ...] = Field(default=(), max_length=1 + MAX_ORDER)
    created: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    types: Types = Types()
    open: bool = False  # the exact statistics of a table that everybody may have, from a public source
    source: Text | None = None  # of an open table: where everybody can get it
    account: Hex | None = None  # whose individuals these are, by a name that only their ledger can tell
    spent: Price | None = None  # what all releases of that account came to with this one; of requests, never of rows
    signature: Signature | None = None
    digest: Hex | None = None

    @field_validator("created")
    @classmethod
    def _day(cls, created: str) -> str:
        if date.fromisoformat(created).isoformat() != created:
            raise ValueError("a day is written as YYYY-MM-DD")
        return created

    @model_validator(mode="after")
    def _fields_of_its_version(self) -> Self:
        if self.version == 1 and (later := sorted(ADDED_BY_2 & self.model_fields_set)):
            raise ValueError(f"version 1 has no field {later[0]!r}")
        return self

    @model_validator(mode="after")
    def _open_or_private(self) -> Self:
        """Open and exact, or closed and paid for; nothing in between."""
        if self.open:
            check_open_header(self)
        elif self.source is not None or self.assumptions.noise == "none":
            raise ValueError("a sketch without noise, or with a public source, says that it is open")
        return self

    @model_validator(mode="after")
    def _account_and_total(self) -> Self:
        if (self.account is None) != (self.spent is None):
            raise ValueError("an account and what it has spent go together")
        if self.account is not None and self.model == "local":
            raise ValueError("a report of an individual names no account: it would tell two of their reports")
        if self.spent is not None:
            self.total()
        return self

    @model_serializer(mode="wrap")
    def _as_its_version_is_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        return document if self.version > 1 else {name: v for name, v in document.items() if name not in ADDED_BY_2}

    @property
    def rows(self) -> int | None:
        return self.invariants.get("rows")

    @property
    def protected_under(self) -> Neighbours | None:
        """The neighbouring relation that it is private under; None of an open sketch, which is compatible with all."""
        return None if self.open else self.neighbours

    def total(self) -> Budget | None:
        """What all releases of the account came to with this one, where the header says so."""
        if self.spent is None:
            return None
        try:
            return Budget(self.spent["epsilon"], self.spent["delta"])
        except (KeyError, SaibotError):
            raise ValueError("what an account has spent is an epsilon and a delta") from None

    def canonical(self) -> bytes:
        """The bytes that the digest covers: JSON with sorted keys, no spaces, and neither digest nor signature."""
        document = self.model_dump(mode="json", exclude={"digest", "signature"})
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    def stated_plan(self) -> Plan | None:
        """The plan as it stands here, of a header that was checked before: to confirm it takes long."""
        return None if self.open else _claimed_plan(self.plan, PlanRequest.from_json(self.plan["request"]))

    def read_plan(self) -> Plan | None:
        """The plan, checked against its request: a header that claims less noise than its budget asks for is refused.

        An open sketch has none.
        """
        if self.open:
            return None
        try:
            request = PlanRequest.from_json(self.plan["request"])
            claimed = _claimed_plan(self.plan, request)
            budget = Budget(self.budget["epsilon"], self.budget["delta"])
            bound_squared = exact_decimal(self.bound_squared, name="bound_squared")
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, SaibotError):
            raise InvalidSketch("the sketch's plan cannot be read.") from None
        # Sizes first: planning for more features than there are could take for ever.
        if bound_squared != request.bound_squared or request.features != len(self.features):
            raise InvalidSketch("the sketch's plan does not fit its features.")
        if self.plan != claimed.to_json():
            raise InvalidSketch("the sketch's plan holds a field that plans do not have.")
        assumed = self.assumptions
        if (request.neighbours, request.rows_per_individual, request.row_count_public) != (
            self.neighbours,
            assumed.rows_per_individual,
            assumed.row_count_public,
        ):
            raise InvalidSketch("the sketch's plan protects something else than its header says.")
        if request.budget.epsilon > budget.epsilon or request.budget.delta > budget.delta:
            raise InvalidSketch("the sketch's plan spends more than its budget.")
        if not confirmed(claimed):
            raise InvalidSketch("the sketch's noise is not what its mechanism gives at its budget.")
        total = self.total()
        if total is not None and not Spent.of(claimed.events).within(total):
            raise InvalidSketch("the sketch's account would have spent less than this sketch alone.")
        return claimed


def _claimed_plan(document: dict[str, Any], request: PlanRequest) -> Plan:
    blocks = []
    for entry in document["blocks"]:
        fields = {name: value for name, value in entry.items() if name != "sigma_offdiagonal"}
        blocks.append(Block(**fields))
    return Plan(request, document["noise"], document["calibration"], tuple(blocks), document["mu"], document["touched"])
