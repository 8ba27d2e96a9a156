"""What recurs: hours of a day, days of a week, months of a year. They are ranges of numbers with a name and need no package.

Days, weeks, months and years of a calendar spell themselves out in their id; see `saibot.domains.generated`.
"""

from __future__ import annotations

from saibot.domains.domain import KeyDomain
from saibot.domains.vocabularies.vocabulary import Vocabulary


def _numbers(name: str, first: int, last: int, *, title: str) -> Vocabulary:
    domain = KeyDomain.of_range(first, last, of=name)
    rows = [(key,) for key in domain.values]
    return Vocabulary(name, title, len(domain), domain.digest, lambda: rows, domain_id=domain.id)


VOCABULARIES = (
    _numbers("hour-of-day", 0, 23, title="Hours of a day, 0 to 23"),
    _numbers("weekday", 1, 7, title="Days of a week, Monday 1 to Sunday 7 (ISO 8601)"),
    _numbers("month-of-year", 1, 12, title="Months of a year, 1 to 12"),
)
