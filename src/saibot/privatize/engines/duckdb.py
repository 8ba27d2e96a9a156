"""DuckDB, the engine that is used where nobody asks for another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import ibis

from saibot.privatize.engines.engine import TableEngine
from saibot.privatize.text_file import separator_of, top_of


class DuckDB(TableEngine):
    name = "duckdb"

    @classmethod
    def open(cls) -> Self:
        connection = ibis.duckdb.connect()
        connection.raw_sql("SET TimeZone = 'UTC'")  # an instant has one day, whatever the machine's clock is set to
        return cls(connection)

    def read_text(self, path: Path, names: Sequence[str], *, guessed_but: tuple[str, ...] | None) -> ibis.Table:
        # The dialect is fixed: were it sniffed, one row with a quote in it could change how all the others are read.
        dialect: dict[str, Any] = {"delim": separator_of(path), "quote": '"', "escape": '"', "comment": ""}
        dialect |= {"header": True, "skip": 0}
        table: ibis.Table
        if guessed_but is None:
            empty, line_end = top_of(path)
            dialect |= {"skip": empty, "new_line": line_end.replace("\r", "\\r").replace("\n", "\\n")}
            types = dict.fromkeys(names, "VARCHAR")
            table = self.connection.read_csv(path, auto_detect=False, columns=types, **dialect)
        else:
            # All rows are sniffed: a column is numeric because all of it is, not because its first rows happen to be.
            types = {column: "VARCHAR" for column in guessed_but if column in names}
            table = self.connection.read_csv(path, sample_size=-1, **dialect, **({"types": types} if types else {}))
        return table
