"""What all shapes have in common: values that do not change, and no field that nobody knows."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    def but(self, **changes: Any) -> Self:
        """The same with some fields changed; what they may be is checked again."""
        unchanged = {name: getattr(self, name) for name in type(self).model_fields if name not in changes}
        return type(self)(**unchanged, **changes)

    def to_json(self) -> dict[str, Any]:
        """As `json` writes it: plain dictionaries, lists and numbers."""
        return self.model_dump(mode="json")
