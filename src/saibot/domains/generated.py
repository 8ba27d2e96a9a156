"""Key domains that spell themselves out in their id: days, and ranges of whole numbers."""

from __future__ import annotations

import re
from datetime import date

from saibot.domains.domain import KeyDomain
from saibot.errors import InvalidDomain

MAX_GENERATED = 200_000
_GENERATED = re.compile(r"(dates):(\d{4}-\d\d-\d\d):(\d{4}-\d\d-\d\d)|(range):(-?\d{1,15}):(-?\d{1,15})")


def generated_domain(id: str) -> KeyDomain | None:
    """The days or whole numbers that an id such as `dates:2013-01-01:2013-12-31` or `range:1:12` spells out."""
    match = _GENERATED.fullmatch(id)
    if match is None:
        return None
    try:
        if match[1]:
            first, last = date.fromisoformat(match[2]), date.fromisoformat(match[3])
            return KeyDomain.of_dates(first, last) if (last - first).days < MAX_GENERATED else None
        low, high = int(match[5]), int(match[6])
        return KeyDomain.of_range(low, high) if high - low < MAX_GENERATED else None
    except (ValueError, InvalidDomain):
        return None
