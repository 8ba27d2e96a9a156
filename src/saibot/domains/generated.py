"""Key domains that spell themselves out in their id: days, weeks, months, years, and ranges of whole numbers.

`dates:2013-01-01:2013-12-31`, `weeks:2013-W01:2013-W52`, `months:2013-01:2013-12`, `years:2010:2019`, `range:1:15`, and
`range:department:1:15`, whose name says what the numbers count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from saibot.domains.domain import RANGE_NAME, KeyDomain
from saibot.domains.times import week_of

MAX_GENERATED = 200_000
PREFIXES = ("dates:", "weeks:", "months:", "years:", "range:")
_DATES = re.compile(r"dates:(\d{4}-\d\d-\d\d):(\d{4}-\d\d-\d\d)", re.ASCII)
_WEEKS = re.compile(r"weeks:(\d{4}-W\d\d):(\d{4}-W\d\d)", re.ASCII)
_MONTHS = re.compile(r"months:(\d{4})-(\d\d):(\d{4})-(\d\d)", re.ASCII)
_YEARS = re.compile(r"years:(\d{4}):(\d{4})", re.ASCII)
_RANGE = re.compile(rf"range:(?:({RANGE_NAME}):)?(-?\d{{1,15}}):(-?\d{{1,15}})", re.ASCII)


def spelled_size(id: str) -> int | None:
    """How many days, weeks, months, years or whole numbers an id spells out; None where it spells out none.

    Ids come from strangers and stand in long lists, so this makes none of the keys.
    """
    found = _spelled(id)
    return None if found is None else found.size


def generated_domain(id: str, *, size: int | None = None) -> KeyDomain | None:
    """The days, weeks, months, years or whole numbers that an id spells out; None where it spells out none.

    `size`: only where they are so many. Whoever made a sketch says that as well, and 200,000 keys take a third of a second.
    """
    found = _spelled(id)
    return None if found is None or size not in (None, found.size) else found.make()


@dataclass(frozen=True)
class _Spelled:
    size: int
    make: Callable[[], KeyDomain]


def _spelled(id: str) -> _Spelled | None:
    for form, parse in _FORMS.items():
        if (match := form.fullmatch(id)) is not None:
            try:
                found = parse(*match.groups())
            except (ValueError, OverflowError):
                return None
            return found if found is not None and 0 < found.size <= MAX_GENERATED else None
    return None


def _dates(first: str, last: str) -> _Spelled:
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    return _Spelled((end - start).days + 1, lambda: KeyDomain.of_dates(start, end))


def _weeks(first: str, last: str) -> _Spelled:
    """ISO weeks, and the year that each is counted in."""
    start, end = date.fromisoformat(f"{first}-1"), date.fromisoformat(f"{last}-1")
    size = (end - start).days // 7 + 1

    def make() -> KeyDomain:
        weeks = [week_of(start + timedelta(weeks=n)) for n in range(size)]
        return _calendar(f"weeks:{first}:{last}", weeks, year=[week[:4] for week in weeks])

    return _Spelled(size, make)


def _months(first_year: str, first: str, last_year: str, last: str) -> _Spelled:
    """Months, and their year."""
    if not (1 <= int(first) <= 12 and 1 <= int(last) <= 12):
        raise ValueError("no month")
    numbers = range(12 * int(first_year) + int(first) - 1, 12 * int(last_year) + int(last))

    def make() -> KeyDomain:
        months = [f"{number // 12:04}-{number % 12 + 1:02}" for number in numbers]
        return _calendar(f"months:{first_year}-{first}:{last_year}-{last}", months, year=[month[:4] for month in months])

    return _Spelled(len(numbers), make)


def _years(first: str, last: str) -> _Spelled:
    years = range(int(first), int(last) + 1)
    return _Spelled(len(years), lambda: _calendar(f"years:{first}:{last}", [f"{year:04}" for year in years]))


def _range(name: str | None, first: str, last: str) -> _Spelled | None:
    low, high = int(first), int(last)
    if (str(low), str(high)) != (first, last):
        return None  # range:01:15 is no id
    return _Spelled(high - low + 1, lambda: KeyDomain.of_range(low, high, of=name))


def _calendar(id: str, keys: Sequence[str], **parents: Sequence[str]) -> KeyDomain:
    return KeyDomain(id, 1, tuple(keys), tuple((name, tuple(column)) for name, column in parents.items()))


_FORMS: dict[re.Pattern[str], Callable[..., _Spelled | None]] = {
    _DATES: _dates,
    _WEEKS: _weeks,
    _MONTHS: _months,
    _YEARS: _years,
    _RANGE: _range,
}
