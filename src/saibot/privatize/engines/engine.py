"""What an engine is: where rows are, and what sums them. It takes ibis expressions and gives Arrow tables.

Preparation and aggregation are written once, as expressions (`prepare.py`, `aggregate.py`): sums of whole numbers, which are
the same bits on every engine. What differs between engines is here and in their own modules, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import ibis
import ibis.expr.types as ir
import pyarrow as pa


class TableEngine:
    """Any database that ibis reaches. `foreign`: the connection, and the table in it, are somebody's own."""

    name: ClassVar[str] = "database"
    extra: ClassVar[str | None] = None  # of this package, which brings the engine; None: it is always there
    numbers_rows: ClassVar[bool] = True  # within groups, which keeping to so many rows per individual needs

    def __init__(self, connection: Any, *, foreign: bool = False) -> None:
        self.connection = connection
        self.foreign = foreign

    @classmethod
    def open(cls) -> Self:
        """A fresh engine in this process."""
        raise NotImplementedError

    def sound(self, table: ibis.Table) -> ibis.Table:
        """Somebody's own table without cells that cannot be fetched: one of them must not stop the release of all others."""
        return table

    def read_text(self, path: Path, names: Sequence[str], *, guessed_but: tuple[str, ...] | None) -> ibis.Table:
        """A CSV or TSV file with all columns as text. With `guessed_but`, an engine that can guesses types but for those."""
        raise NotImplementedError

    def read_parquet(self, path: Path) -> ibis.Table:
        """A Parquet file, its columns of the types that it declares."""
        table: ibis.Table = self.connection.read_parquet(path)
        return table

    def fetch(self, expression: ibis.Table) -> pa.Table:
        """The rows of an expression; integer sums are exact, whatever their order. May raise with cells in its message."""
        return self.connection.to_pyarrow(expression)

    def batches(self, expression: ibis.Table) -> Iterable[pa.RecordBatch]:
        """The same, a part at a time."""
        found: Iterable[pa.RecordBatch] = self.connection.to_pyarrow_batches(expression)
        return found

    def times(self, cell: ir.Column) -> ir.Column:
        """A column of times as far as the engine's calendar reaches; missing beyond it."""
        return cell

    def spelling(self, text: ir.Column) -> ir.Column | None:
        """What tells the texts of a column apart, to group by beside it; None where texts are compared as they are.

        Columns of somebody's own table may compare without case: a group would be spelled like any one of its rows, which
        may be somebody else's.
        """
        return text.hexdigest("md5") if self.foreign else None
