"""Which month, week, year, weekday or hour a day or a time belongs to: tables hold days and times where a key is coarser.

What a text means depends on this text and on the public domain alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

Reading = Callable[[str], str]
"""The key that a text stands for; the text itself where it is no day and no time."""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![^ T])")  # of a time, the day
_HOUR = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[ T])?([01][0-9]|2[0-3]):[0-5][0-9](?:$|:)")


def reading(domain: str) -> Reading | None:
    """How a domain with this id reads days and times; None where it reads none."""
    kind, _, rest = domain.partition(":")
    return _READINGS.get(rest.partition(":")[0] if kind == "range" else kind)


def counts_days(domain: str) -> bool:
    """Whether all times of one day have the same key in the domain with this id."""
    return domain.startswith("dates:") or reading(domain) not in (None, _hour)


def week_of(day: date) -> str:
    """`2013-W01`, as ISO 8601 counts: weeks begin on Monday, and the first one of a year holds its first Thursday."""
    year, week, _ = day.isocalendar()
    return f"{year:04}-W{week:02}"


def _of_day(key: Callable[[date], str]) -> Reading:
    def read(text: str) -> str:
        found = _DAY.match(text)
        try:
            return text if found is None else key(date.fromisoformat(found[0]))
        except ValueError:  # the 30th of February
            return text

    return read


def _hour(text: str) -> str:
    found = _HOUR.match(text)
    return text if found is None else str(int(found[1]))


_READINGS: dict[str, Reading] = {
    "months": _of_day(lambda day: day.isoformat()[:7]),
    "weeks": _of_day(week_of),
    "years": _of_day(lambda day: day.isoformat()[:4]),
    "month-of-year": _of_day(lambda day: str(day.month)),
    "weekday": _of_day(lambda day: str(day.isoweekday())),
    "hour-of-day": _hour,
}
