"""What recurs: hours of a day, days of a week, months of a year. They need no package.

Days, weeks, months and years of a calendar spell themselves out in their id instead; see `saibot.domains.generated`.
"""

from __future__ import annotations

from collections.abc import Iterator

from saibot.domains.vocabularies.vocabulary import Row, Vocabulary


def hours() -> Iterator[Row]:
    yield from ((str(hour),) for hour in range(24))


def weekdays() -> Iterator[Row]:
    yield from ((str(day),) for day in range(1, 8))


def months() -> Iterator[Row]:
    yield from ((str(month), f"Q{(month + 2) // 3}") for month in range(1, 13))


VOCABULARIES = (
    Vocabulary(
        "hour-of-day",
        "Hours of a day, 0 to 23",
        24,
        "b05978a3835826ac11fd7703382ffe14acdd3e5ad0977cab3168acfff01b5d50",
        hours,
    ),
    Vocabulary(
        "weekday",
        "Days of a week, Monday 1 to Sunday 7 (ISO 8601)",
        7,
        "64716f1dc4e3be0b5f823a7edae13fc77d27d882239252af10875c1230e87f36",
        weekdays,
    ),
    Vocabulary(
        "month-of-year",
        "Months of a year, 1 to 12",
        12,
        "c7c464305b2a2df7dabe9015c9ce4b9ba5a30e93365a9f7bbb9cbd8d2954e7ed",
        months,
        {"quarter": "quarter-of-year"},
    ),
)
