"""Whether two lists of keys are about the same thing, as far as their names tell.

Keys meet by their text, and the same text may mean two things: 1 to 15 numbers departments and communes alike, CA is a state
and a country. Ids of named ranges, calendars and shipped vocabularies say what their keys are; other ids say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from saibot.domains.domain import FOUND, range_name
from saibot.domains.generated import PREFIXES
from saibot.domains.vocabularies import shipped

_CALENDAR = {"dates": "day", "weeks": "week", "months": "month", "years": "year"}
_DENSE = 2  # whole numbers that fill half of their span or more are counted, not coded


def meaning(id: str) -> str | None:
    """What the keys of a domain, or of a level of one (`us-county-fips.state`), are; None where its id does not tell."""
    if id.startswith(PREFIXES):
        kind, _, rest = id.partition(":")
        return range_name(id) if kind == "range" else rest.partition(".")[2] or _CALENDAR[kind]
    if id.startswith(FOUND):
        return range_name(id)
    name, _, level = id.partition(".")
    found = shipped(name)
    if found is None:
        return None
    return found.levels.get(level) if level else name


def different(ours: str, theirs: str) -> bool:
    """Whether two ids say that their keys are not the same thing.

    Keys that were found in rows have their provider's own word for them. It tells them from other lists that people named,
    not from vocabularies: `state` may well mean `us-state`, and their texts show it.
    """
    one, other = meaning(ours), meaning(theirs)
    if one is None or other is None or one == other:
        return False
    return ours.startswith(FOUND) == theirs.startswith(FOUND) or bool(range_name(ours) and range_name(theirs))


def doubt(ours: str, theirs: str, keys: Sequence[str]) -> str:
    """What people should ask where keys are bare numbers and nothing says that both count the same; else no text."""
    same = theirs == ours if meaning(ours) is None else meaning(ours) == meaning(theirs)
    if (same and not _nameless(ours)) or not bare_numbers(keys):
        return ""
    numbers = [int(key) for key in keys]
    return f"these keys are bare numbers, {min(numbers)} to {max(numbers)}: are they the same thing in both tables?"


def bare_numbers(keys: Sequence[str]) -> bool:
    """Whether keys are counted through: whole numbers as programs print them, close together."""
    if not all(key.isascii() and key.removeprefix("-").isdigit() and len(key) < 10 and str(int(key)) == key for key in keys):
        return False
    numbers = [int(key) for key in keys]
    return max(numbers) - min(numbers) < _DENSE * len(numbers)


def _nameless(id: str) -> bool:
    return id.startswith("range:") and range_name(id) is None
