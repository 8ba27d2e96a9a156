"""The base of all shapes: immutable, and unknown fields are refused."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    def but(self, **changes: Any) -> Self:
        """A copy with some fields changed. The new values are validated."""
        unchanged = {name: getattr(self, name) for name in type(self).model_fields if name not in changes}
        return type(self)(**unchanged, **changes)

    def to_json(self) -> dict[str, Any]:
        """The shape as plain dictionaries, lists, texts and numbers."""
        return self.model_dump(mode="json")
