"""Which tables join or union with a given one, how far, and why: on a platform, or in a folder of sketches."""

from __future__ import annotations

from pydantic import Field

from saibot.wire.shapes import Shape


class UnionsWith(Shape):
    """A table whose rows can be added to those of the given one."""

    id: str | None = Field(description="Of the published dataset; null where a folder is searched.")
    provider: str | None = Field(description="Who published it; null where a folder is searched.")
    name: str
    title: str
    rows: int | None
    digest: str
    key: str | None
    why: str = Field(description="For people: which keys they share, or how features map.")


class JoinsWith(UnionsWith):
    """A table whose values can be looked up by the keys of the given one."""

    on: tuple[str, ...] = Field(description="Parts of the given table's key, or their levels, that are looked up there.")
    share: float = Field(description="Of the given table's keys, those that are known there.")
    features: tuple[str, ...] = Field(default=(), description="What can be looked up there.")
    signal: float | None = Field(
        description="How much of the spread of its clearest feature between keys is signal; null until it is packed."
    )


class Related(Shape):
    id: str | None = Field(default=None, description="Of the given table, where it is a published dataset.")
    joins: tuple[JoinsWith, ...] = Field(description="The largest share first.")
    unions: tuple[UnionsWith, ...]


class Unrelated(Shape):
    """A table that can be neither joined nor added, and why."""

    name: str
    digest: str
    reasons: tuple[str, ...]


class Discovered(Related):
    """All tables of a folder: those that are related, and those that are not."""

    unrelated: tuple[Unrelated, ...]
