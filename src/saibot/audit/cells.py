"""The cells that test tables are made of: for every kind of column what it usually holds, and what it should not.

The odd ones are those that make a library or an engine look at a whole column in another way: a missing cell among whole
numbers, one half among them, a decimal with more digits, a time among dates, text among numbers. Floats are asked for in
every role, with NaN among them: one word in such a column makes texts of everybody's, `1.0`, `1e16` and `NaN`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

Cell = Any  # int, float, Decimal, bool, str, date, datetime or None


@dataclass(frozen=True)
class ColumnKind:
    """A kind of column: what the card says of it, and its cells.

    `low` and `high` are cells at the ends of what the card allows: rows made of them are the hardest to hide.
    """

    name: str
    usual: tuple[Cell, ...]
    odd: tuple[Cell, ...]
    low: Cell
    high: Cell
    facts: dict[str, Any] = field(default_factory=dict)
    dates: bool = False


TEN = {"bounds": [0, 10]}
NAN = float("nan")
DAYS = tuple(date(2024, 1, day) for day in range(1, 7))

NUMERIC = (
    # 10^16 is written as 1e+16 once the column is one of floats, which sorts otherwise as text.
    ColumnKind("int", (0, 3, 12, 15, 17, 20, 10**16), (None, 5.5, -3, 2**70, "x"), 0, 20, {"bounds": [0, 20]}),
    ColumnKind("float", (0.5, 2.25, 7.75, 9.0, 3.1), (None, 5, 1e300, float("inf"), NAN, -0.0, "x"), 0.0, 10.0, TEN),
    ColumnKind(
        "decimal",
        # The last one lies between two steps of the grid of 15 bits: which of them it takes hangs on its last digit.
        tuple(map(Decimal, ("2.5", "0.1", "7.7", "9.9", "5.0000762939453125"))),
        (None, Decimal("3.14159"), Decimal("0.12345678901234567890"), Decimal("1E+3"), 7),
        Decimal("0.0"),
        Decimal("10.0"),
        TEN,
    ),
    ColumnKind("truth", (True, False), (None,), False, True, {"bounds": [0, 1]}),
    ColumnKind(
        "number as text",
        ("2.5", "7", "0.25", "9"),
        (None, "", "n/a", "  8 ", "1e1", "five", "٣", 5),
        "0",
        "10",
        TEN,
    ),
    ColumnKind("floats with gaps", (0.5, 2.25, 1e16, NAN, 3.0, -0.0), ("x", None, 5), 0.0, 10.0, TEN),
)

CATEGORICAL = (
    ColumnKind("int levels", (1, 2, 3), (None, 1.5, 9, "2"), 1, 3, {"levels": ["1", "2", "3"]}),
    ColumnKind(
        "text levels",
        ("EWR", "JFK", "Zürich"),
        (None, "", " EWR", "jfk", "Zu\u0308rich", 5),
        "EWR",
        "Zürich",
        {"levels": ["EWR", "JFK", "Zürich"]},
    ),
    ColumnKind("truth levels", (True, False), (None,), True, False, {"levels": ["true", "false"]}),
    ColumnKind(
        "date levels",
        DAYS[:3],
        (None, datetime(2024, 1, 5, 12, 30), date(1999, 12, 31)),
        DAYS[0],
        DAYS[2],
        {"levels": [day.isoformat() for day in DAYS[:3]]},
        dates=True,
    ),
    ColumnKind("float levels", (1.0, 0.00001, NAN), ("x", None, 1, 2.25), 1.0, 0.00001, {"levels": ["1", "0.00001"]}),
)

KEYS = (
    ColumnKind("int keys", (1, 2, 3, 4, 5), (None, 2.5, 77, "3"), 1, 5, {"domain": {"range": [1, 5]}}),
    ColumnKind(
        "padded keys",
        ("001", "002", "010", "100"),
        (None, "", "1", " 002", "10", "x"),
        "001",
        "100",
        {"domain": {"values": ["001", "002", "010", "100"], "id": "padded"}},
    ),
    ColumnKind(
        "decimal keys",
        (Decimal("250.1"), Decimal("250.2"), Decimal("7")),
        (None, Decimal("250.11"), Decimal("1.23456"), 7),
        Decimal("7"),
        Decimal("250.1"),
        {"domain": {"values": ["7", "250.1", "250.2"], "id": "decimals"}},
    ),
    ColumnKind(
        "date keys",
        DAYS,
        (None, datetime(2024, 1, 3, 12, 30), date(1999, 12, 31)),
        DAYS[0],
        DAYS[5],
        {"domain": {"dates": ["2024-01-01", "2024-01-06"]}},
        dates=True,
    ),
    ColumnKind(
        "days as text",
        ("2024-01-01", "2024-01-02", "2024-01-05"),
        (None, "", "2024-01-02 10:00:00", "yesterday"),
        "2024-01-01",
        "2024-01-05",
        {"domain": {"dates": ["2024-01-01", "2024-01-06"]}},
    ),
    ColumnKind(
        "float keys",
        (1.0, 2.0, 0.00001, 3.5, NAN, -0.0),
        ("x", None, 2, 77.0),
        1.0,
        3.5,
        {"domain": {"values": ["0", "0.00001", "1", "2", "3.5"], "id": "floats"}},
    ),
)

# Days of two months and two years, each within a coarser level.
NESTED_DAYS = (date(2023, 12, 30), date(2023, 12, 31), date(2024, 1, 1), date(2024, 1, 2), date(2024, 2, 1))
NESTED = ColumnKind(
    "nested days",
    NESTED_DAYS,
    (None, datetime(2024, 1, 2, 23, 59), date(1999, 12, 31)),
    NESTED_DAYS[0],
    NESTED_DAYS[4],
    {"domain": {"dates": ["2023-12-30", "2024-02-01"]}, "levels": ["month", "year"]},
    dates=True,
)

INT_IDS = ColumnKind("int ids", tuple(range(1, 40)), (None, "somebody"), 0, 0)
TEXT_IDS = ColumnKind("text ids", tuple(f"p{number:02}" for number in range(1, 40)), (None, 5), "p00", "p00")
FLOAT_IDS = ColumnKind("float ids", (NAN, -0.0, 0.0, 1.0, 1e16, 2.5, -1e-5, 0.1), ("somebody", None), 7.0, 7.0)
IDS = (INT_IDS, TEXT_IDS, FLOAT_IDS)
