"""A registered key domain, without its keys."""

from __future__ import annotations

from pydantic import Field

from saibot.wire.shapes import Shape


class Domain(Shape):
    id: str
    version: int
    size: int
    digest: str
    keys_digest: str
    levels: tuple[str, ...] = Field(description="Coarser levels on offer, as the file lists them.")
    provider: str
    registered: str
