"""Requests on real tables: which rows of which table, what to predict from what, and which tables would give it away.

They are listed in `requests.csv`, one line each; a request with several join keys is a task for each of them. A row filter
is `COLUMN in a..b` (whole numbers) or `COLUMN in word word`; a target is a column or `COLUMN / COLUMN`; tables to leave out
are patterns with `*`, and the request's own table always is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from saibot.errors import InvalidTable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Task:
    """One request, joined on one key."""

    name: str
    table: str
    key: str
    target: str
    own: tuple[str, ...]
    rows: str
    leave_out: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.name} by {self.key}"

    def allows(self, table: str) -> bool:
        """Whether a table may be a candidate."""
        file = table.rsplit("/", 1)[-1]
        return table != self.table and not any(fnmatch(file, pattern) for pattern in self.leave_out)

    def kept_rows(self, table: pd.DataFrame) -> pd.DataFrame:
        if not self.rows:
            return table
        column, _, wanted = (part.strip() for part in self.rows.partition(" in "))
        if column not in table or not wanted:
            raise InvalidTable(f"the row filter of request {self.name!r} cannot be read.", hint="COLUMN in a..b")
        if (between := re.fullmatch(r"(\d+)\.\.(\d+)", wanted)) is not None:
            numbers = to_numbers(table[column])
            return table[(numbers >= int(between[1])) & (numbers <= int(between[2]))]
        return table[table[column].isin(wanted.split())]

    def target_of(self, table: pd.DataFrame) -> pd.Series:
        if self.target in table:
            return to_numbers(table[self.target])
        over, _, under = (part.strip() for part in self.target.partition(" / "))
        if over not in table or under not in table:
            raise InvalidTable(f"the table of request {self.name!r} has no target column as listed.")
        below = to_numbers(table[under])
        return to_numbers(table[over]) / below.where(below != 0)


def to_numbers(column: pd.Series) -> pd.Series:
    """Numbers; text that is none is missing."""
    import pandas as pd

    return pd.to_numeric(column, errors="coerce").astype(float)


def read_tasks(requests: pd.DataFrame) -> list[Task]:
    """Every request with every one of its keys, in the order of the keys: all by the first, then all by the second."""
    found: list[tuple[int, Task]] = []
    for line in requests.to_dict("records"):
        for number, name in enumerate(_listed(line["join_keys"])):
            task = Task(
                name=line["request"],
                table=line["table"],
                key=name,
                target=line["target"],
                own=_listed(line["own_features"]),
                rows=line["row_filter"].strip(),
                leave_out=_listed(line["exclude_tables"]),
            )
            found.append((number, task))
    return [task for _, task in sorted(found, key=lambda pair: pair[0])]


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";") if part.strip())
