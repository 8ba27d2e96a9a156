"""A small corpus of our own, seeded: what the figures run on where no folder of real tables is given.

A made-up city of school districts in boroughs. Every school has a hidden quality, partly its borough's and its district's;
a dozen tables tell of it more or less (one row per school, or several years of them), others tell nothing. Two requests ask
for scores and for attendance. Only the form is that of real tables: nothing in it comes from one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

BOROUGHS = {"M": range(1, 5), "K": range(13, 19), "Q": range(24, 30)}
# name, rows per school, correlation of its columns with the hidden quality
TABLES = (
    ("survey", 8, 0.8),
    ("staff", 4, 0.7),
    ("budget", 6, 0.6),
    ("class_size", 12, 0.5),
    ("reviews", 1, 0.9),
    ("census", 2, 0.6),
    ("safety", 3, 0.4),
    ("meals", 10, 0.3),
    ("buildings", 1, 0.0),
    ("energy", 5, 0.0),
    ("buses", 8, 0.0),
    ("trees", 2, 0.0),
)
REQUESTS = (
    ("scores", "made/scores.csv", "grade in 3..8", "mean score", "year;tested", "district;DBN", "scores*"),
    ("attendance", "made/attendance.csv", "", "present / enrolled", "month", "district", "attendance*"),
)


@dataclass(frozen=True)
class MadeUp:
    """Tables in memory; `schools` per district sets how large they are."""

    seed: int = 0
    schools: int = 12
    _tables: dict[str, pd.DataFrame] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tables", _make(self.seed, self.schools))

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._tables))

    def read(self, name: str, *, text: Sequence[str] = ()) -> pd.DataFrame:
        return self._tables[name]

    def requests(self) -> pd.DataFrame:
        import pandas as pd

        titles = ["request", "table", "row_filter", "target", "own_features", "join_keys", "exclude_tables"]
        return pd.DataFrame([*REQUESTS], columns=titles)


def _make(seed: int, schools: int) -> dict[str, pd.DataFrame]:
    import pandas as pd

    rng = np.random.default_rng((seed, 70))
    names, hidden = [], []
    for letter, districts in BOROUGHS.items():
        borough = rng.normal()
        for district in districts:
            own = rng.normal()
            for school in range(schools):
                names.append(f"{district:02d}{letter}{school:03d}")
                hidden.append(0.4 * borough + 0.5 * own + 0.77 * rng.normal())
    keys, quality = np.array(names), np.array(hidden)

    def rows(per_school: int) -> np.ndarray:
        return np.repeat(np.arange(len(keys)), per_school)

    made = {}
    for title, per_school, told in TABLES:
        place = rows(per_school)
        # What a table tells of a school is the same in all its rows: noise of the school, not of the row.
        school = told * quality + np.sqrt(1 - told**2) * rng.normal(size=len(keys))
        columns = {f"{title} {part}": 50 + 8 * school[place] + 6 * rng.normal(size=len(place)) for part in ("rate", "score")}
        made[f"made/{title}.csv"] = pd.DataFrame({"DBN": keys[place], **columns})
    place = rows(24)
    tested = rng.integers(20, 150, len(place))
    made["made/scores.csv"] = pd.DataFrame(
        {
            "DBN": keys[place],
            "grade": np.tile([3, 4, 5, 6, 7, 8], len(place) // 6),
            "year": np.tile(np.repeat([2015, 2016, 2017, 2018], 6), len(keys)),
            "tested": tested,
            "mean score": 300 + 20 * (0.7 * quality[place] + 0.7 * rng.normal(size=len(place))) + 0.02 * tested,
        }
    )
    place = rows(30)
    enrolled = rng.integers(100, 900, len(place))
    share = 1 / (1 + np.exp(-(2.5 + 0.4 * quality[place] + 0.5 * rng.normal(size=len(place)))))
    made["made/attendance.csv"] = pd.DataFrame(
        {
            "DBN": keys[place],
            "month": np.tile(np.arange(1, 11), len(place) // 10),
            "enrolled": enrolled,
            "present": np.round(enrolled * share),
        }
    )
    return made
