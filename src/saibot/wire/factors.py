"""Which shared factors there are."""

from __future__ import annotations

from pydantic import Field

from saibot.wire.shapes import Shape


class FactorsEntry(Shape):
    """The factors that the values of a key domain use at present."""

    key: str = Field(description="The key domain as a corpus names it: digests of the lists of keys.")
    version: str = Field(pattern=r"^[0-9a-f]{64}$", description="The file's SHA-256.")
    bytes: int = Field(ge=0)
    factors: int = Field(ge=1, description="How many causes the tables have in common.")
    sketches: int = Field(ge=0, description="How many sketches taught them.")
