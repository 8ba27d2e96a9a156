"""Shapes that only the HTTP interface has: lists, counts, the trail. What is exchanged is in `saibot.wire`."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field, StringConstraints

from saibot.platform.accounts import NAME
from saibot.wire import (
    CorpusEntry,
    Dataset,
    DatasetGrant,
    Domain,
    Enquiry,
    ErrorFacts,
    FactorsEntry,
    ProviderStanding,
    Role,
    Search,
    Shape,
    Token,
    TrailEntry,
)

Item = TypeVar("Item", bound=Shape)


class Error(Shape):
    """The one shape of all errors."""

    error: ErrorFacts


class TokenRequest(Shape):
    name: Annotated[str, StringConstraints(pattern=NAME)] | None = Field(
        default=None, description="The account that the token acts for. Left out: one's own."
    )
    roles: Annotated[list[Role], Field(min_length=1, max_length=3)] | None = Field(
        default=None, description="Left out: those of the token that is used here."
    )
    expires: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = Field(
        default=None, description="The day from which on it is refused."
    )


class Listed(Shape, Generic[Item]):
    """One page of a list, and the cursor of the next page if there is one."""

    items: list[Item]
    next: str | None


class TokenList(Listed[Token]):
    pass


class ProviderList(Listed[ProviderStanding]):
    pass


class DomainList(Listed[Domain]):
    pass


class DatasetList(Listed[Dataset]):
    pass


class CorpusList(Listed[CorpusEntry]):
    pass


class FactorsList(Listed[FactorsEntry]):
    pass


class SearchList(Listed[Search]):
    pass


class EnquiryList(Listed[Enquiry]):
    pass


class GrantList(Listed[DatasetGrant]):
    pass


class DomainCount(Shape):
    domain: str
    count: int


class ProviderCount(Shape):
    provider: str
    count: int


class FeatureCount(Shape):
    feature: str
    count: int


class TagCount(Shape):
    tag: str
    count: int


class Facets(Shape):
    total: int
    domains: list[DomainCount]
    providers: list[ProviderCount]
    features: list[FeatureCount]
    tags: list[TagCount]


class TrailList(Listed[TrailEntry]):
    pass


class Health(Shape):
    status: Literal["ok"]
    version: str


class Ready(Shape):
    status: Literal["ready", "not ready"]
    parts: dict[str, bool]
    not_confined: list[str] | None = Field(
        description="What of their confinement workers go without: `powers`, `files`, `calls`. Null while none has worked."
    )
