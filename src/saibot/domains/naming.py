"""What a key domain is called where people read: `days of 2013`, not `dates:2013-01-01:2013-12-31`."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache

from saibot.domains.domain import range_name
from saibot.domains.generated import spelled_size
from saibot.domains.vocabularies import key_names, of_domain, shipped

LONG = 10_000
_PLACES = ("continent", "iso-country", "iso-subdivision", "nuts-", "us-")
_CLOCK = ("hour-of-day", "weekday", "month-of-year")
_CODES = {"code", "fips", "id", "ids", "number", "postal", "postcode", "zip", "zipcode"}


@lru_cache(2000)
def domain_name(id: str) -> str:
    """A name for people; ids that neither spell their keys out nor ship with Saibot are names already."""
    if (vocabulary := of_domain(id)) is not None:
        return vocabulary.title.partition(" (")[0]
    kind, _, rest = id.partition(":")
    if spelled_size(id) is None:
        return id
    first, last = rest.split(":")[-2:]
    return _numbers(range_name(id), first, last) if kind == "range" else _CALENDAR[kind](first, last)


def key_kind(id: str) -> str:
    """What the keys are, in a word or two, for people who look for something to join by."""
    kind, _, of = id.partition(":")
    if kind in _CALENDAR or (kind == "range" and of.partition(":")[0] in _CLOCK):
        return "dates and times"
    if id.startswith(_PLACES) and of_domain(id) is not None:
        return "places"
    return "numbers" if kind == "range" else "codes"


@lru_cache(2000)
def listed_size(id: str) -> int | None:
    """How many keys an id stands for by itself; None where the list has to be seen."""
    if (vocabulary := of_domain(id)) is not None:
        return vocabulary.size
    return spelled_size(id)


def coarser_id(id: str, level: str, keys: Sequence[str]) -> str:
    """The id of the domain that these keys of a coarser level make; where it has none, the name of the level."""
    if (vocabulary := of_domain(id)) is not None and (other := vocabulary.levels.get(level)):
        known = shipped(other)
        return level if known is None else known.domain_id or known.id
    made = f"{level}s:{keys[0]}:{keys[-1]}" if keys else level
    return made if id.partition(":")[0] in _CALENDAR and spelled_size(made) is not None else level


def key_labels(id: str, keys: Sequence[str]) -> Sequence[str]:
    """Keys with what people call them, where a package says so: `TX · Texas`. Others as they are."""
    names = key_names(id)
    return [f"{key} · {names[key]}" if key in names else key for key in keys] if names else keys


def spoken(number: int, of: str | None = None) -> str:
    """A key that counts something, with separators where it is long; years are not, and neither are codes."""
    return str(number) if abs(number) < LONG or _CODES & set(re.split(r"[^a-z]+", (of or "").lower())) else f"{number:,}"


def _numbers(of: str | None, first: str, last: str) -> str:
    return f"{of or 'whole numbers'} {spoken(int(first), of)} to {spoken(int(last), of)}"


def _days(first: str, last: str) -> str:
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    if (start.month, start.day, end.month, end.day) == (1, 1, 12, 31):
        return f"days of {_span(start.year, end.year)}"
    if (start.year, start.month) == (end.year, end.month) and (start.day, end.day) == (1, _last_day(end)):
        return f"days of {start:%B %Y}"
    return f"days from {_day(start)} to {_day(end)}"


def _weeks(first: str, last: str) -> str:
    if first[:4] == last[:4] and first.endswith("W01") and int(last[-2:]) == _weeks_in(int(last[:4])):
        return f"weeks of {first[:4]}"
    return f"weeks {first} to {last}"


def _months(first: str, last: str) -> str:
    if first.endswith("-01") and last.endswith("-12"):
        return f"months of {_span(int(first[:4]), int(last[:4]))}"
    start, end = (date.fromisoformat(f"{month}-01") for month in (first, last))
    return f"months from {start:%B %Y} to {end:%B %Y}"


def _years(first: str, last: str) -> str:
    return f"years {first} to {last}"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _day(moment: date) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _last_day(month: date) -> int:
    return monthrange(month.year, month.month)[1]


def _weeks_in(year: int) -> int:
    """The 28th of December is always in the last week of its year."""
    return date(year, 12, 28).isocalendar().week


_CALENDAR: dict[str, Callable[[str, str], str]] = {"dates": _days, "weeks": _weeks, "months": _months, "years": _years}
