"""Key domains that spell themselves out in their id: days, weeks, months, years, and ranges of whole numbers.

`dates:2013-01-01:2013-12-31`, `weeks:2013-W01:2013-W52`, `months:2013-01:2013-12`, `years:2010:2019`, `range:1:15`, and
`range:department:1:15`, whose name says what the numbers count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta

from saibot.domains.domain import RANGE_NAME, KeyDomain
from saibot.domains.times import week_of
from saibot.errors import InvalidDomain

MAX_GENERATED = 200_000
PREFIXES = ("dates:", "weeks:", "months:", "years:", "range:")
_DATES = re.compile(r"dates:(\d{4}-\d\d-\d\d):(\d{4}-\d\d-\d\d)")
_WEEKS = re.compile(r"weeks:(\d{4}-W\d\d):(\d{4}-W\d\d)")
_MONTHS = re.compile(r"months:(\d{4})-(\d\d):(\d{4})-(\d\d)")
_YEARS = re.compile(r"years:(\d{4}):(\d{4})")
_RANGE = re.compile(rf"range:(?:({RANGE_NAME}):)?(-?\d{{1,15}}):(-?\d{{1,15}})")


def generated_domain(id: str) -> KeyDomain | None:
    """The days, weeks, months, years or whole numbers that an id spells out; None where it spells out none."""
    for form, make in _FORMS.items():
        if (match := form.fullmatch(id)) is not None:
            try:
                found = make(*match.groups())
            except (ValueError, OverflowError, InvalidDomain):
                return None
            return found if found is not None and found.id == id else None  # range:01:15 is no id
    return None


def _dates(first: str, last: str) -> KeyDomain | None:
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    return KeyDomain.of_dates(start, end) if (end - start).days < MAX_GENERATED else None


def _weeks(first: str, last: str) -> KeyDomain | None:
    """ISO weeks, and the year that each is counted in."""
    start, end = date.fromisoformat(f"{first}-1"), date.fromisoformat(f"{last}-1")
    if (end - start).days // 7 >= MAX_GENERATED:
        return None
    weeks = [week_of(start + timedelta(weeks=n)) for n in range((end - start).days // 7 + 1)]
    return _calendar(f"weeks:{first}:{last}", weeks, year=[week[:4] for week in weeks])


def _months(first_year: str, first: str, last_year: str, last: str) -> KeyDomain:
    """Months, and their year."""
    if not (1 <= int(first) <= 12 and 1 <= int(last) <= 12):
        raise ValueError("no month")
    numbers = range(12 * int(first_year) + int(first) - 1, 12 * int(last_year) + int(last))
    months = [f"{number // 12:04}-{number % 12 + 1:02}" for number in numbers]
    return _calendar(f"months:{first_year}-{first}:{last_year}-{last}", months, year=[month[:4] for month in months])


def _years(first: str, last: str) -> KeyDomain:
    return _calendar(f"years:{first}:{last}", [f"{year:04}" for year in range(int(first), int(last) + 1)])


def _range(name: str | None, first: str, last: str) -> KeyDomain | None:
    low, high = int(first), int(last)
    return KeyDomain.of_range(low, high, of=name) if high - low < MAX_GENERATED else None


def _calendar(id: str, keys: Sequence[str], **parents: Sequence[str]) -> KeyDomain:
    return KeyDomain(id, 1, tuple(keys), tuple((name, tuple(column)) for name, column in parents.items()))


_FORMS: dict[re.Pattern[str], Callable[..., KeyDomain | None]] = {
    _DATES: _dates,
    _WEEKS: _weeks,
    _MONTHS: _months,
    _YEARS: _years,
    _RANGE: _range,
}
