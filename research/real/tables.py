"""A folder of tables: CSV (also gzipped) and Parquet files in any subfolders, and an optional list of requests.

Keys are read as text: `01` is not 1. Everything else is whatever the reader makes of it; a column that is not numeric is
not a feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from saibot.errors import InvalidTable

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".csv", ".csv.gz", ".parquet")
REQUESTS, MANIFEST = "requests.csv", "manifest.csv"  # about the tables, no tables themselves


class Tables(Protocol):
    """Where tables come from: a folder, or a generator of them."""

    def names(self) -> Sequence[str]: ...
    def read(self, name: str, *, text: Sequence[str] = ()) -> pd.DataFrame: ...
    def requests(self) -> pd.DataFrame: ...


@dataclass(frozen=True)
class Folder:
    """Tables by their path below the folder, with `/` between its parts."""

    path: Path

    def names(self) -> tuple[str, ...]:
        files = (file for file in self.path.rglob("*") if file.name.lower().endswith(ENDINGS))
        found = sorted(file.relative_to(self.path).as_posix() for file in files)
        return tuple(name for name in found if name not in (REQUESTS, MANIFEST))

    def read(self, name: str, *, text: Sequence[str] = ()) -> pd.DataFrame:
        import pandas as pd

        file = self.path / name
        try:
            if name.endswith(".parquet"):
                table = pd.read_parquet(file)
                present = [column for column in text if column in table]
                return table.astype(dict.fromkeys(present, "str"))
            return pd.read_csv(file, low_memory=False, dtype=dict.fromkeys(text, "str"))
        except (OSError, ValueError):
            raise InvalidTable(f"the table {name} cannot be read.", hint="CSV and Parquet files are read.") from None

    def requests(self) -> pd.DataFrame:
        import pandas as pd

        file = self.path / REQUESTS
        if not file.is_file():
            raise InvalidTable(
                f"the folder of tables has no {REQUESTS}.",
                hint="It lists the requests: request, table, row_filter, target, own_features, join_keys, exclude_tables.",
            )
        return pd.read_csv(file, dtype="str", keep_default_na=False)
