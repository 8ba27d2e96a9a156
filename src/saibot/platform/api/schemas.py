"""Shapes that only the HTTP interface has: lists, tokens, counts, the trail. What is exchanged is in `saibot.wire`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from saibot.platform.accounts import NAME
from saibot.wire import CorpusEntry, Dataset, Domain, ErrorFacts, Search, Shape

Role = Literal["admin", "provider", "requester"]


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


class Domains(Shape):
    items: list[Domain]
    next: str | None


class Datasets(Shape):
    items: list[Dataset]
    next: str | None


class UnionsWith(Shape):
    id: str
    provider: str
    name: str
    title: str
    rows: int | None
    digest: str
    key: str | None
    why: str = Field(description="For people: which keys they share, or how features map.")


class JoinsWith(UnionsWith):
    on: list[str] = Field(description="Parts of the dataset's key, or their levels, that are looked up there.")
    share: float = Field(description="Of the dataset's keys, those that are known there.")
    signal: float | None = Field(
        description="How much of the spread of its clearest feature between keys is signal; null until it is packed."
    )


class Related(Shape):
    id: str
    joins: list[JoinsWith] = Field(description="The largest share first.")
    unions: list[UnionsWith]


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


class CorpusSlice(Shape):
    items: list[CorpusEntry]
    next: str | None


class Searches(Shape):
    items: list[Search]
    next: str | None


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
