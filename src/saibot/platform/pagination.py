"""Pages of lists: a cursor is an opaque text that says where the next page begins."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from saibot.platform.errors import Unusable

Place = list[Any] | None


@dataclass(frozen=True)
class Page:
    """Items, and the place behind the last of them if there are more."""

    items: list[Any]
    next: Place
    total: int | None = None


def write_cursor(place: Place) -> str | None:
    if place is None:
        return None
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def read_cursor(text: str | None, *kinds: type) -> Place:
    """The place that a cursor names, or a refusal: it must have been written for a list like this one."""
    if text is None or text == "":
        return None
    try:
        place = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        fits = isinstance(place, list) and len(place) == len(kinds)
        fits = fits and all(type(value) is kind for value, kind in zip(place, kinds, strict=True))
        fits = fits and all(not isinstance(value, int) or abs(value) < 1 << 63 for value in place)
        fits = fits and all(not isinstance(value, str) or _is_text(value) for value in place)
    except (ValueError, RecursionError):
        fits = False
    if not fits:
        raise Unusable("this cursor does not belong to this list.", hint="Begin without a cursor, then use `next` as it is.")
    return list(place)


def _is_text(value: str) -> bool:
    """Text that a database can hold."""
    return "\x00" not in value and value.isprintable()
