"""The shapes of bodies and answers, as the OpenAPI document shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from saibot.platform.accounts import NAME

Role = Literal["admin", "provider", "requester"]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorFacts(Shape):
    code: str = Field(description="For programs; never changes.")
    message: str = Field(description="What was asked and what is allowed.")
    hint: str = Field(description="What to do next.")
    details: dict[str, Any] = Field(description="Facts of this error, where it has any.")


class Error(Shape):
    """The one shape of all errors."""

    error: ErrorFacts


class Me(Shape):
    name: str
    roles: list[Role]


class NewToken(Shape):
    name: Annotated[str, StringConstraints(pattern=NAME)] = Field(description="The account that the token acts for.")
    roles: Annotated[list[Role], Field(min_length=1, max_length=3)]
    expires: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = Field(
        default=None, description="The day from which on it is refused."
    )


class Token(Shape):
    id: str
    name: str
    roles: list[Role]
    created: str
    expires: str | None
    revoked: str | None
    last_used: str | None


class CreatedToken(Token):
    token: str = Field(description="The token's text: shown here and nowhere else.")


class Tokens(Shape):
    items: list[Token]
    next: str | None


class Domain(Shape):
    id: str
    version: int
    size: int
    digest: str
    keys_digest: str
    levels: list[str] = Field(description="Coarser levels on offer, as the file lists them.")
    provider: str
    registered: str


class Domains(Shape):
    items: list[Domain]
    next: str | None


class KeyPart(Shape):
    name: str
    domain: str
    version: int
    size: int
    digest: str
    keys_digest: str


class Key(Shape):
    name: str
    parts: list[KeyPart]
    levels: list[str]


class Feature(Shape):
    name: str
    kind: Literal["numeric", "indicator", "component"]
    unit: str
    lower: float
    upper: float


class Budget(Shape):
    epsilon: str
    delta: str


class Dataset(Shape):
    id: str
    provider: str
    name: str
    title: str
    description: str
    individual: str
    key: Key | None
    features: list[Feature]
    rows: int | None
    budget: Budget
    mechanism: str
    layout: str
    neighbours: str
    visibility: Literal["public", "restricted"]
    version: int
    digest: str
    bytes: int
    published: str
    expires: str | None


class Datasets(Shape):
    items: list[Dataset]
    next: str | None


class Version(Shape):
    version: int
    digest: str
    published: str
    bytes: int


class ShownDataset(Dataset):
    profile: dict[str, Any] | None = Field(description="Count, means, deviations and correlations with their errors.")
    versions: list[Version]
    notes: list[str]


class DomainCount(Shape):
    domain: str
    count: int


class ProviderCount(Shape):
    provider: str
    count: int


class Facets(Shape):
    total: int
    domains: list[DomainCount]
    providers: list[ProviderCount]


class CorpusEntry(Shape):
    id: str
    digest: str
    bytes: int
    dataset: str
    provider: str
    key: str | None
    domain: str | None = Field(description="Of the key; domains of a composite key are joined by `+`.")


class CorpusSlice(Shape):
    items: list[CorpusEntry]
    next: str | None


class SearchOptions(Shape):
    """What to look for, and how far."""

    target: str = Field(min_length=1, max_length=200, description="The feature of the training sketch to be explained.")
    features: list[str] | None = Field(default=None, max_length=1000, description="Own features; all but the target.")
    steps: int = Field(default=5, ge=1, le=50, description="Augmentations to take at most.")
    confidence: float = Field(default=0.9, gt=0, lt=1, description="Of the whole search, for taking an augmentation.")
    join: Literal["lookup", "many-to-many", "many-to-many-unbiased"] = Field(
        default="lookup", description="A provider's value for each row's key, or all pairs of rows with the same key."
    )
    joins: bool = True
    unions: bool = True
    hops: bool = Field(default=False, description="Also datasets that another dataset's counts lead to.")
    shown: int = Field(default=50, ge=1, le=1000, description="Ranked candidates in the result.")
    exhaustive: bool = Field(default=False, description="Try all combinations; for few candidates only.")
    rank: Literal["usable", "potential", "expected"] = Field(default="usable", description="Which gain counts.")
    whole_datasets: bool = Field(default=False, description="All features of a dataset are one candidate.")


class Progress(Shape):
    stage: str
    part: float | None


class Search(Shape):
    id: str
    requester: str
    status: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: Progress
    created: str
    started: str | None
    finished: str | None
    target: str
    error: ErrorFacts | None


class Searches(Shape):
    items: list[Search]
    next: str | None


class Result(BaseModel):
    """The document of a result: base model, steps, ranking, what was dropped and why, and how to use it."""

    model_config = ConfigDict(extra="allow")

    format: Literal["saibot-result"]
    version: int
    target: str
    steps: list[dict[str, Any]]
    ranked: list[dict[str, Any]]


class TrailEntry(Shape):
    number: int
    at: str
    account: str
    action: str
    subject: str
    facts: dict[str, Any]


class TrailPage(Shape):
    items: list[TrailEntry]
    next: str | None


class Health(Shape):
    status: Literal["ok"]
    version: str
