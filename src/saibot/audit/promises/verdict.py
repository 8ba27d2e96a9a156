"""What a check of a promise found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """`broken` says what was seen instead of what was promised; empty where the promise was kept."""

    promise: str
    broken: str = ""
    skipped: str = ""  # why it could not be tried here

    @property
    def kept(self) -> bool:
        return not self.broken and not self.skipped

    @property
    def word(self) -> str:
        return "BROKEN" if self.broken else "not tried" if self.skipped else "kept"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.word}
